"""Formulas as HTML: as text where that says it all, else as a drawing with the LaTeX beside it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from PySide6.QtGui import QPainterPath

from app.markdown.formula_object import formula_box
from app.markdown.maths.atoms import joined
from app.markdown.maths.formula import atoms_of, runs
from app.markdown.maths.shapes import is_flat
from app.theme.theme import FORMULA_FAMILIES

_PIXELS = 32
"""Size at which outlines are taken."""
_SHIFTS = {0: "", 1: "sup", -1: "sub"}


def as_text(latex: str) -> str | None:
    """Return the HTML of a formula that loses nothing in line; None if it would."""
    atoms = atoms_of(latex)
    if not is_flat(atoms):
        return None
    parts = []
    for run in runs(joined(atoms).strip()):
        part = f"<i>{escape(run.text)}</i>" if run.variable else escape(run.text)
        tag = _SHIFTS[run.shift]
        parts.append(f"<{tag}>{part}</{tag}>" if tag else part)
    return "".join(parts)


def as_svg(latex: str, *, display: bool) -> str:
    """Return a drawing in HTML that is as large as the text around it."""
    box = formula_box(latex, FORMULA_FAMILIES, _PIXELS, display=display)
    height = box.ascent + box.descent
    place = f"vertical-align:{-box.descent / _PIXELS:.3f}em"
    size = f'width="{box.width / _PIXELS:.3f}em" height="{height / _PIXELS:.3f}em"'
    view = f'viewBox="0 {-box.ascent:.1f} {box.width:.1f} {height:.1f}"'
    path = "".join(_commands(box.outline()))
    return (
        f'<svg role="img" {size} {view} style="{place}"><title>{escape(latex)}</title>'
        f'<path fill="currentColor" d="{path}"/></svg>'
    )


def _commands(path: QPainterPath) -> Iterator[str]:
    """Yield the commands of a path in SVG."""
    kinds = QPainterPath.ElementType
    letters = {kinds.MoveToElement: "M", kinds.LineToElement: "L", kinds.CurveToElement: "C"}
    for place in range(path.elementCount()):
        each = path.elementAt(place)
        yield f"{letters.get(each.type, ' ')}{each.x:.4g} {each.y:.4g}"
