"""Pieces of a formula put in line: spaces between them, brackets where they are needed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.markdown.maths.scripts import plain
from app.markdown.maths.shapes import Atom, Fraction
from app.markdown.maths.symbols import FRACTIONS, MathClass

_ONE = (MathClass.ORDINARY, MathClass.CLOSING, MathClass.FRACTION)
"""Classes that a product or a sum may have on its left."""
_LOOSE = {
    MathClass.BINARY,
    MathClass.RELATION,
    MathClass.PUNCTUATION,
    MathClass.FRACTION,
    MathClass.OPERATOR,
    MathClass.SPACE,
}
"""Classes that make brackets necessary around a sum or quotient."""
_VALUE = re.compile(r"\w\([^()]*\)")
_FACTORS = {MathClass.ORDINARY, MathClass.FRACTION, MathClass.OPENING, MathClass.OPERATOR}
"""Classes that make a product with what is before them."""


def fraction(over: list[Atom], under: list[Atom]) -> Atom:
    """Return a fraction."""
    shape = Fraction(over, under)
    known = FRACTIONS.get((joined(over).strip(), joined(under).strip()))
    if known is not None:
        return Atom(known, shape=shape)
    below = enclosed_unless_one(under)
    if not below.startswith("(") and not is_single(plain(below)):
        below = f"({below})"
    return Atom(f"{enclosed_unless_one(over)}/{below}", MathClass.FRACTION, shape)


def is_single(text: str) -> bool:
    """Return whether text without signs is one factor: number, differential, function value."""
    if _VALUE.fullmatch(text):
        return True
    factors = [each for each in text if each.isalpha() and not each.isnumeric()]
    if text[:1] in {"d", "\u2202"} and len(factors) <= 2:
        return True
    return len(factors) <= 1 and not (factors and text[:1].isdigit())


def enclosed_unless_one(atoms: list[Atom]) -> str:
    """`atoms` as one factor, in brackets where they are a sum or the like."""
    text = joined(atoms).strip()
    depth = 0
    for atom in atoms:
        depth += {MathClass.OPENING: 1, MathClass.CLOSING: -1}.get(atom.kind, 0)
        if not depth and atom.kind in _LOOSE:
            return f"({text})"
    return text


def joined(atoms: Sequence[Atom], *, tight: bool = False) -> str:
    """The atoms in line, with the spaces that belong between them."""
    parts: list[str] = []
    before: Atom | None = None
    for index, atom in enumerate(atoms):
        after = atoms[index + 1] if index + 1 < len(atoms) else None
        text = atom.text
        if atom.kind is MathClass.FRACTION and not tight:
            touching = after is not None and after.kind in _FACTORS
            if touching or (before is not None and before.kind in _ONE):
                text = f"({text})"
        if not tight and before is not None and _apart(before, atom, parts):
            parts.append(" ")
        parts.append(text)
        if not tight and after is not None and is_infix(atom, before):
            parts.append(" ")
        before = atom
    return re.sub(" (?= )", "", "".join(parts)) if not tight else "".join(parts)


def is_infix(atom: Atom, before: Atom | None) -> bool:
    """Return whether a sign stands between two things, rather than before one."""
    if atom.kind in {MathClass.RELATION, MathClass.PUNCTUATION}:
        return True
    return atom.kind is MathClass.BINARY and before is not None and before.kind in _ONE


def _apart(before: Atom, atom: Atom, parts: Sequence[str]) -> bool:
    """Return whether a space belongs between two neighbours."""
    if parts[-1].endswith(" ") or atom.kind is MathClass.SPACE:
        return False
    if atom.kind is MathClass.RELATION or (atom.kind is MathClass.BINARY and before.kind in _ONE):
        return True
    if atom.kind is MathClass.OPERATOR:
        return before.kind in {*_ONE, MathClass.OPERATOR}
    return before.kind is MathClass.OPERATOR and atom.kind in {
        MathClass.ORDINARY,
        MathClass.FRACTION,
    }
