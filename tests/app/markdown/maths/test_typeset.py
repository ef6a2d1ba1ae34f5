from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath
from PySide6.QtWidgets import QApplication
from test_maths import PIECES

from app.markdown.maths.boxes import Box, Letters
from app.markdown.maths.formula import atoms_of
from app.markdown.maths.shapes import is_flat
from app.markdown.maths.typeset import Typesetter, typesetter

SIZE = 20.0


@pytest.fixture
def setter(qapp: QApplication) -> Typesetter:
    assert qapp  # which has the fonts
    return typesetter(("DejaVu Serif",))


def places(box: Box) -> dict[str, tuple[float, float]]:
    """Where texts stand: right and down."""
    return {mark.text: (x, y) for x, y, mark in box.marks if isinstance(mark, Letters)}


def rules(box: Box) -> list[QRectF]:
    return [mark.translated(x, y) for x, y, mark in box.marks if isinstance(mark, QRectF)]


def outlines(box: Box) -> list[QRectF]:
    return [
        mark.boundingRect().translated(x, y)
        for x, y, mark in box.marks
        if isinstance(mark, QPainterPath)
    ]


@pytest.mark.parametrize(
    ("latex", "flat"),
    [
        ("E = mc^2", True),
        ("a_i + \\beta", True),
        ("x_1^2", False),
        ("e^{x^2}", False),
        ("\\frac{a}{b}", False),
        ("\\sqrt{2}", False),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", False),
        ("\\binom{n}{k}", False),
        ("\\frac{a}{b}" * 3_000, True),
    ],
)
def test_what_can_be_said_in_line_is_not_set(latex: str, *, flat: bool) -> None:
    assert is_flat(atoms_of(latex)) is flat


def test_a_fraction_has_one_part_above_its_line_and_one_below(setter: Typesetter) -> None:
    box = setter.set(atoms_of("\\frac{a}{b+c}"), SIZE, display=True)
    (line,) = rules(box)
    texts = places(box)
    assert texts["a"][1] < line.top() < line.bottom() < texts["b"][1]
    assert line.left() <= texts["b"][0] < texts["a"][0] < texts["c"][0] <= line.right()
    inline = setter.set(atoms_of("\\frac{a}{b+c}"), SIZE, display=False)
    assert inline.ascent + inline.descent < box.ascent + box.descent


def test_a_root_covers_what_is_under_it(setter: Typesetter) -> None:
    inner = setter.set(atoms_of("\\frac{a}{b}"), SIZE, display=True)
    box = setter.set(atoms_of("\\sqrt[3]{\\frac{a}{b}}"), SIZE, display=True)
    (sign,) = outlines(box)
    assert sign.height() > inner.ascent + inner.descent
    assert sign.right() > places(box)["a"][0]
    assert places(box)["3"][0] < places(box)["a"][0]


def test_limits_stand_above_and_below_where_there_is_room(setter: Typesetter) -> None:
    sums = atoms_of("\\sum_{i}^{n} k")
    alone, within = (setter.set(sums, SIZE, display=display) for display in (True, False))
    assert places(alone)["n"][1] < places(alone)["∑"][1] < places(alone)["i"][1]
    assert places(alone)["n"][0] < places(alone)["∑"][0] + SIZE
    assert places(within)["n"][0] == places(within)["i"][0] > places(within)["∑"][0]
    integral = setter.set(atoms_of("\\int_{i}^{n} k"), SIZE, display=True)
    assert places(integral)["n"][0] > places(integral)["∫"][0]


@pytest.mark.parametrize("latex", ["\\left(%s\\right)^2", "(%s)^2", "\\left\\{%s\\right.", "|%s|"])
def test_brackets_are_as_high_as_what_they_hold(setter: Typesetter, latex: str) -> None:
    latex = latex if latex != "|%s|" else "\\left|%s\\right|"
    inner = setter.set(atoms_of("\\frac{a}{b}"), SIZE, display=True)
    box = setter.set(atoms_of(latex % "\\frac{a}{b}"), SIZE, display=True)
    grown = [*outlines(box), *(line for line in rules(box) if line.height() > line.width())]
    assert grown
    for each in grown:
        assert each.top() <= -inner.ascent
        assert each.bottom() >= inner.descent
    assert not outlines(setter.set(atoms_of("(a)"), SIZE, display=True))


def test_cells_of_a_matrix_stand_in_rows_and_columns(setter: Typesetter) -> None:
    latex = "A = \\begin{pmatrix} 1 & \\text{two} \\\\ \\text{three} & 4 \\end{pmatrix}"
    texts = places(setter.set(atoms_of(latex), SIZE, display=True))
    assert texts["1"][1] == texts["two"][1] < texts["A"][1] < texts["three"][1] == texts["4"][1]
    assert texts["1"][0] > texts["three"][0]  # in the middle of its column
    assert texts["two"][0] < texts["4"][0]


def test_cases_begin_below_each_other_and_equations_meet_at_their_signs(
    setter: Typesetter,
) -> None:
    cases = "\\begin{cases} x & a \\\\ \\text{why} & b \\end{cases}"
    texts = places(setter.set(atoms_of(cases), SIZE, display=True))
    assert texts["x"][0] == texts["why"][0]
    assert texts["a"][0] == texts["b"][0]
    equations = "\\begin{aligned} a &= b \\\\ c + d &< e \\end{aligned}"
    texts = places(setter.set(atoms_of(equations), SIZE, display=True))
    assert texts["="][0] == texts["<"][0]
    assert texts["="][1] < texts["<"][1]


def test_a_box_holds_all_that_is_painted(setter: Typesetter) -> None:
    latex = "\\left(\\sqrt{\\frac{a_1^2}{b}}\\right)^n = \\sum_{i=1}^n \\int_0^1 f"
    box = setter.set(atoms_of(latex), SIZE, display=True)
    edge = 30
    image = QImage(round(box.width) + 2 * edge, 200, QImage.Format.Format_ARGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    box.paint(painter, edge, 100.0, QColor("black"))
    painter.end()
    room = QRectF(edge, 100 - box.ascent, box.width, box.ascent + box.descent)
    room.adjust(-3, -2, 3, 2)
    outside = [
        (x, y)
        for x in range(image.width())
        for y in range(image.height())
        if image.pixelColor(x, y).lightness() < 200 and not room.contains(QPointF(x, y))
    ]
    assert outside == []


@settings(max_examples=200, deadline=None)
@given(latex=st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=40))
def test_any_formula_can_be_set(latex: str) -> None:
    setter = typesetter(("DejaVu Serif",))
    for display in (False, True):
        box = setter.set(atoms_of(latex), SIZE, display=display)
        assert 0 <= box.width < 20_000
        assert -1_000 < box.ascent < 4_000
        assert -1_000 < box.descent < 4_000
