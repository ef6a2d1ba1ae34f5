"""Formulas set as people write them: fractions, roots, limits, matrices, brackets that grow.

Sizes and distances are those of TeX, in parts of the font's size. A box knows its width and how far
it reaches above and below the line that text stands on; what is drawn in it is placed from the left
end of that line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QPainterPath,
    QPainterPathStroker,
    QTransform,
)

from app.markdown.maths.atoms import is_infix
from app.markdown.maths.boxes import Box, Letters, Mark, beside
from app.markdown.maths.formula import runs
from app.markdown.maths.shapes import (
    Atom,
    Atoms,
    Fraction,
    Lined,
    MathMatrix,
    Root,
    Scripts,
    Stacked,
)
from app.markdown.maths.symbols import MathClass

_SMALLER, _SMALLEST = 0.72, 0.5
"""Size of a script, and the least of one in another, in sizes of the formula."""
_RULE = 0.055
"""Thickness of lines."""
_AXIS = 0.25
"""Height of the middle of a fraction above the line."""
_LIMITED = frozenset("∑∏∐⋃⋂⨆⋁⋀⨁⨂⨀⨄")
_NAMED = frozenset({"lim", "limsup", "liminf", "max", "min", "sup", "inf", "argmax", "argmin"})
"""Operators with what belongs to them below, where there is room."""
_BRACKETS = frozenset("()[]{}|\u2016⟨⟩⌊⌋⌈⌉")
_ENCLOSED = {
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": ("{", "}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("\u2016", "\u2016"),
    "cases": ("{", ""),
}
_ONE = (MathClass.ORDINARY, MathClass.CLOSING, MathClass.FRACTION)


@dataclass(frozen=True, slots=True)
class _Style:
    """Size in pixels, and whether there is the room of a formula that stands alone."""

    size: float
    full: float
    """Size of the formula itself."""
    display: bool

    def script(self) -> _Style:
        return _Style(max(self.size * _SMALLER, self.full * _SMALLEST), self.full, display=False)

    def inner(self) -> _Style:
        """Return the style of what is above and below a fraction's line."""
        size = self.size if self.display else max(0.8 * self.size, _SMALLEST * self.full)
        return _Style(size, self.full, display=False)

    @property
    def is_script(self) -> bool:
        return self.size < 0.75 * self.full


class Typesetter:
    """Sets formulas in the families of one font."""

    def __init__(self, font: QFont) -> None:
        self._font = font
        self._fonts: dict[tuple[float, bool], tuple[QFont, QFontMetricsF]] = {}

    def set(self, atoms: Atoms, size: float, *, display: bool) -> Box:
        """Set a formula.

        Args:
            atoms: what it is made of.
            size: of the font, in pixels.
            display: whether it stands on lines of its own.
        """
        return self._row(atoms, _Style(size, size, display))

    # -- text ------------------------------------------------------------------------------

    def _face(self, size: float, *, slanted: bool = False) -> tuple[QFont, QFontMetricsF]:
        found = self._fonts.get((size, slanted))
        if found is None:
            font = QFont(self._font)
            font.setPixelSize(max(round(size), 1))
            font.setItalic(slanted)
            found = self._fonts[size, slanted] = font, QFontMetricsF(font)
        return found

    def _text(self, text: str, size: float) -> Box:
        marks: list[Mark] = []
        width = ascent = descent = 0.0
        for run in runs(text):
            font, metrics = self._face(size, slanted=run.variable)
            around = metrics.tightBoundingRect(run.text) if run.text.strip() else QRectF()
            if max(-around.top(), around.bottom()) > 3 * size:  # nothing is known of some marks
                around = metrics.boundingRect(run.text)
            ascent, descent = max(ascent, -around.top()), max(descent, around.bottom())
            marks.append((width, 0.0, Letters(run.text, font)))
            width += metrics.horizontalAdvance(run.text)
        return Box(width, ascent, max(descent, 0.0), tuple(marks))

    # -- rows ------------------------------------------------------------------------------

    def _row(self, atoms: Atoms, style: _Style) -> Box:
        """Set atoms beside each other, brackets as high as what they hold."""
        boxes: list[Box] = []
        before: Atom | None = None
        at = 0
        while at < len(atoms):
            atom = atoms[at]
            after = atoms[at + 1] if at + 1 < len(atoms) else None
            end = _closing(atoms, at)
            infix = is_infix(atom, before)
            boxes.append(Box(_gap(before, atom, style, infix=infix)))
            if end is None:
                boxes.append(self._atom(atom, style))
            else:
                inner = self._row(atoms[at + 1 : end], style)
                closer = atoms[end] if end < len(atoms) else None
                boxes += self._enclosed(atom, inner, closer, style)
                at, atom = end, closer or atom
            if infix and after is not None:
                boxes.append(Box(_infix_gap(atom, style)))
            before = atom
            at += 1
        return beside(boxes)

    def _enclosed(
        self, opener: Atom, inner: Box, closer: Atom | None, style: _Style
    ) -> Iterable[Box]:
        yield self._bracket(opener.text, inner, style)
        yield inner
        if closer is not None:
            base = _base(closer)
            closed = self._bracket(base.text, inner, style)
            scripts = closer.shape if isinstance(closer.shape, Scripts) else None
            yield closed if scripts is None else self._scripts(closed, scripts, style)

    def _bracket(self, sign: str, inner: Box, style: _Style) -> Box:
        """A bracket that covers a box."""
        usual = self._text(sign, style.size)
        if not sign or (
            inner.ascent <= 1.1 * usual.ascent and inner.descent <= 1.6 * usual.descent
        ):
            return usual
        axis = _AXIS * style.size
        half = max(inner.ascent - axis, inner.descent + axis) + 0.08 * style.size
        rule = _RULE * style.size
        if sign in "|\u2016":
            lefts = [2 * rule] if sign == "|" else [2 * rule, 5 * rule]
            lines = [(left, 0.0, QRectF(0, -axis - half, rule, 2 * half)) for left in lefts]
            return Box(lefts[-1] + 3 * rule, half + axis, half - axis, tuple(lines))
        path = QPainterPath()
        path.addText(QPointF(), self._face(style.size)[0], sign)
        around = path.boundingRect()
        if around.isEmpty():
            return usual
        high = 2 * half / around.height()
        wide = min(high, 1.35)
        stretch = QTransform.fromScale(wide, high)
        stretch.translate(0.0, -around.center().y() - axis / high)
        mark = 0.03 * style.size, 0.0, stretch.map(path)
        return Box(wide * usual.width + 0.06 * style.size, half + axis, half - axis, (mark,))

    # -- pieces ----------------------------------------------------------------------------

    def _atom(self, atom: Atom, style: _Style) -> Box:
        match atom.shape:
            case Fraction() as fraction:
                return self._fraction(fraction, style)
            case Root() as root:
                return self._root(root, style)
            case Scripts() as scripts:
                if _takes_limits(scripts.base) and style.display:
                    return self._stacked(
                        self._atom(scripts.base, style), scripts.above, scripts.below, style
                    )
                return self._scripts(self._atom(scripts.base, style), scripts, style)
            case Stacked(base, above, below):
                return self._stacked(self._row(base, style), above, below, style)
            case Lined(inner, below):
                return self._lined(self._row(inner, style), style, below=below)
            case MathMatrix() as matrix:
                return self._matrix(matrix, style)
            case None:
                return self._sign(atom, style)

    def _sign(self, atom: Atom, style: _Style) -> Box:
        big = atom.kind is MathClass.OPERATOR and not atom.text[:1].isalpha()
        if not big:
            return self._text(atom.text, style.size)
        box = self._text(atom.text, style.size * (1.5 if style.display else 1.15))
        down = (box.ascent - box.descent) / 2 - _AXIS * style.size
        return Box(box.width, box.ascent - down, box.descent + down, tuple(box.at(0, down)))

    def _fraction(self, fraction: Fraction, style: _Style) -> Box:
        inner, size = style.inner(), style.size
        over, under = self._row(fraction.over, inner), self._row(fraction.under, inner)
        axis, rule = _AXIS * size, _RULE * size
        gap = (0.16 if style.display else 0.1) * size + rule / 2
        side = 0.08 * size
        width = max(over.width, under.width) + 2 * side
        up, down = axis + gap + over.descent, gap + under.ascent - axis
        marks = [
            *over.at((width - over.width) / 2, -up),
            *under.at((width - under.width) / 2, down),
        ]
        if fraction.line:
            marks.append((0.0, 0.0, QRectF(side / 2, -axis - rule / 2, width - side, rule)))
        box = Box(width + side, up + over.ascent, down + under.descent, tuple(marks))
        if fraction.line:
            return box
        return beside([self._bracket("(", box, style), box, self._bracket(")", box, style)])

    def _root(self, root: Root, style: _Style) -> Box:
        size, inner = style.size, self._row(root.inner, style)
        rule, gap = _RULE * size, 0.12 * size
        top = max(inner.ascent, 0.7 * size) + gap
        low = max(inner.descent, 0.05 * size)
        height, wide = top + low, 0.55 * size
        middle = low - 0.45 * height
        hook = QPainterPath(QPointF(0.02 * size, middle + 0.08 * size))
        hook.lineTo(QPointF(0.16 * size, middle))
        hook.lineTo(QPointF(0.32 * size, low))
        hook.lineTo(QPointF(wide, -top))
        hook.lineTo(QPointF(wide + inner.width + 0.1 * size, -top))
        pen = QPainterPathStroker()
        pen.setWidth(rule * 1.25)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        left = 0.0
        marks: list[Mark] = []
        if root.degree:
            degree = self._row(root.degree, style.script().script())
            left = max(degree.width - 0.12 * size, 0.0)
            marks += degree.at(0.0, middle - 0.12 * size - degree.descent)
        drawn = pen.createStroke(hook)
        drawn.setFillRule(Qt.FillRule.WindingFill)
        marks += [(left, 0.0, drawn), *inner.at(left + wide + 0.04 * size, 0.0)]
        width = left + wide + inner.width + 0.18 * size
        return Box(width, top + 2 * rule, low + rule, tuple(marks))

    def _scripts(self, base: Box, scripts: Scripts, style: _Style) -> Box:
        small, size = style.script(), style.size
        above, below = self._row(scripts.above, small), self._row(scripts.below, small)
        sign = _base(scripts.base)
        slope = 0.22 * size if sign.text.startswith(("\u222b", "\u222e")) and style.display else 0.0
        up = max(0.38 * size, base.ascent - 0.32 * size, above.descent + 0.22 * size)
        down = max(0.16 * size, base.descent + 0.06 * size)
        if scripts.above and scripts.below:
            down = max(down, above.descent + below.ascent + 0.12 * size - up)
        marks = list(base.marks)
        width = base.width + 0.03 * size
        if scripts.above:
            marks += above.at(width, -up)
        if scripts.below:
            marks += below.at(width - slope, down)
        return Box(
            width + max(above.width, below.width - slope) + 0.04 * size,
            max(base.ascent, up + above.ascent if scripts.above else 0.0),
            max(base.descent, down + below.descent if scripts.below else 0.0),
            tuple(marks),
        )

    def _stacked(self, base: Box, above: Atoms, below: Atoms, style: _Style) -> Box:
        small, gap = style.script(), 0.14 * style.size
        over, under = self._row(above, small), self._row(below, small)
        width = max(base.width, over.width, under.width)
        marks = list(base.at((width - base.width) / 2, 0.0))
        ascent, descent = base.ascent, base.descent
        if above:
            up = base.ascent + gap + over.descent
            marks += over.at((width - over.width) / 2, -up)
            ascent = up + over.ascent
        if below:
            down = base.descent + gap + under.ascent
            marks += under.at((width - under.width) / 2, down)
            descent = down + under.descent
        return Box(width, ascent, descent, tuple(marks))

    def _lined(self, inner: Box, style: _Style, *, below: bool) -> Box:
        rule, gap = _RULE * style.size, 0.12 * style.size
        top = inner.descent + gap if below else -inner.ascent - gap - rule
        line = QRectF(0.0, top, inner.width, rule)
        ascent = inner.ascent + (0.0 if below else gap + 2 * rule)
        descent = inner.descent + (gap + 2 * rule if below else 0.0)
        return Box(inner.width, ascent, descent, (*inner.marks, (0.0, 0.0, line)))

    def _matrix(self, matrix: MathMatrix, style: _Style) -> Box:
        size, name = style.size, matrix.name
        aligned = name not in {"array", "cases"} and not name.endswith("matrix")
        cell = style if aligned else _Style(style.size, style.full, display=False)
        rows = [[self._row(each, cell) for each in row] for row in matrix.rows]
        count = max(map(len, rows), default=0)
        widths = [
            max((row[n].width for row in rows if n < len(row)), default=0.0) for n in range(count)
        ]
        heights = [
            (
                max([0.7 * size, *(each.ascent for each in row)]),
                max([0.22 * size, *(each.descent for each in row)]),
            )
            for row in rows
        ]
        apart = 0.36 * size
        total = sum(map(sum, heights)) + apart * (len(rows) - 1)
        marks: list[Mark] = []
        top = -total / 2 - _AXIS * size
        for row, (ascent, descent) in zip(rows, heights, strict=True):
            left = 0.0
            for n, box in enumerate(row):
                spare = widths[n] - box.width
                share = (1.0 if n % 2 == 0 else 0.0) if aligned else 0.0 if name == "cases" else 0.5
                marks += box.at(left + share * spare, top + ascent)
                left += widths[n] + _between(n, size, aligned=aligned)
            top += ascent + descent + apart
        width = sum(widths) + sum(_between(n, size, aligned=aligned) for n in range(count - 1))
        half = total / 2
        box = Box(width, half + _AXIS * size, half - _AXIS * size, tuple(marks))
        opening, closing = _ENCLOSED.get(name, ("", ""))
        thin = Box(0.14 * size)
        parts = [self._bracket(opening, box, style), thin] if opening else []
        parts.append(box)
        return beside([*parts, thin, self._bracket(closing, box, style)] if closing else parts)


def _between(column: int, size: float, *, aligned: bool) -> float:
    """Return the space behind a column."""
    if not aligned:
        return size
    return 0.28 * size if column % 2 == 0 else 1.6 * size


def _base(atom: Atom) -> Atom:
    return atom.shape.base if isinstance(atom.shape, Scripts) else atom


def _takes_limits(atom: Atom) -> bool:
    return atom.kind is MathClass.OPERATOR and (atom.text in _LIMITED or atom.text in _NAMED)


def _closing(atoms: Atoms, at: int) -> int | None:
    """Return where the bracket that opens at a place is closed, or the end; None: none opens."""
    if atoms[at].kind is not MathClass.OPENING or atoms[at].text not in _BRACKETS:
        return None
    depth = 0
    for place in range(at, len(atoms)):
        base = _base(atoms[place])
        if base.text in _BRACKETS:
            depth += {MathClass.OPENING: 1, MathClass.CLOSING: -1}.get(base.kind, 0)
        if not depth:
            return place
    return len(atoms)


def _infix_gap(atom: Atom, style: _Style) -> float:
    if style.is_script:
        return 0.0
    share = {MathClass.RELATION: 0.28, MathClass.PUNCTUATION: 0.18}.get(atom.kind, 0.22)
    return share * style.size


def _gap(before: Atom | None, atom: Atom, style: _Style, *, infix: bool) -> float:
    """Return the space before an atom."""
    if before is None or atom.kind is MathClass.SPACE or before.kind is MathClass.SPACE:
        return 0.0
    if infix and atom.kind is not MathClass.PUNCTUATION:
        return _infix_gap(atom, style)
    if atom.kind is MathClass.OPERATOR:
        return 0.17 * style.size if before.kind in {*_ONE, MathClass.OPERATOR} else 0.0
    follows = before.kind is MathClass.OPERATOR and atom.kind in {
        MathClass.ORDINARY,
        MathClass.FRACTION,
    }
    return 0.17 * style.size if follows else 0.0


@lru_cache(maxsize=8)
def typesetter(families: tuple[str, ...]) -> Typesetter:
    """Return the one that sets in these families."""
    font = QFont()
    font.setFamilies(list(families))
    font.setStyleHint(QFont.StyleHint.Serif)
    return Typesetter(font)
