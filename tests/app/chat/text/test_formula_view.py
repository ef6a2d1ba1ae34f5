from __future__ import annotations

from pytestqt.qtbot import QtBot
from shown_text import everything

from app.chat.text.text_view import TextView
from app.theme.theme import Theme, ThemeChoice


def test_what_is_selected_of_a_formula_copies_its_source(view: TextView) -> None:
    text = "So $x^2$ and\n\n$$\n\\frac{a}{b}\n$$\n\nend"
    view.show_markdown(text)
    assert "x\u00b2" in view.toPlainText()
    assert everything(view) == text.replace("\n\n", "\n")


def test_a_formula_with_height_is_painted_and_takes_one_character(view: TextView) -> None:
    view.show_markdown("Let $x = \\frac{a}{b}$ be so.")
    block = view.document().begin()
    assert block.text() == "Let \ufffc be so."
    source = view.writer.map
    assert source.source_at(4) == 4
    assert source.source_at(5) == len("Let $x = \\frac{a}{b}$")
    where = view.source_rect(4, 20)
    assert where is not None
    assert view.source_at(where.center()) == 4


def test_a_line_is_as_high_as_its_formula(view: TextView, theme: Theme, qtbot: QtBot) -> None:
    formula = "\\frac{\\frac{a}{b}}{\\frac{c}{d}}"
    view.show_markdown(f"Some ${formula}$ here")
    height = view.document().begin().layout().lineAt(0).height()
    view.show_markdown("Some here")
    assert height > 1.5 * view.document().begin().layout().lineAt(0).height()
    view.show_markdown(f"$${formula}$$")
    before = view.document().size().height()
    theme.apply(ThemeChoice.LIGHT, font_scale=1.5)
    qtbot.waitUntil(lambda: view.document().size().height() > 1.3 * before)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)


def test_a_formula_wider_than_its_line_is_painted_smaller(view: TextView) -> None:
    view.show_markdown("$$\\frac{" + " + ".join("abcdefghijklmnop") + " + x" * 30 + "}{y}$$")
    block = view.document().begin()
    assert block.layout().lineCount() == 1
    assert block.layout().lineAt(0).naturalTextWidth() <= view.document().textWidth() + 1


def test_a_formula_has_the_colour_of_the_text(view: TextView, theme: Theme, qtbot: QtBot) -> None:
    view.show_markdown("$$\\frac{\\square\\square}{\\square}$$")
    view.complete()

    def lightness() -> list[int]:
        image = view.grab().toImage()
        sides = range(image.width()), range(image.height())
        return sorted(image.pixelColor(x, y).lightness() for x in sides[0] for y in sides[1])

    assert lightness()[0] < 90
    theme.apply(ThemeChoice.DARK)
    qtbot.waitUntil(lambda: lightness()[len(lightness()) // 2] < 60)  # what is behind it
    assert lightness()[-1] > 150
    theme.apply(ThemeChoice.LIGHT)
