"""Pieces of a formula: how each is said in line, and how it is set where that is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.markdown.maths.symbols import MathClass

_MOST = 2_000
"""Longer formulas are shown in line: nobody writes them, and setting them takes a while."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece of a formula that is spaced as one."""

    text: str
    """Form in line."""
    kind: MathClass = MathClass.ORDINARY
    shape: Shape | None = None
    """None: as it is said in line."""


Atoms = Sequence[Atom]


@dataclass(frozen=True, slots=True)
class Fraction:
    """One above the other; a binomial has no `line` but brackets."""

    over: Atoms
    under: Atoms
    line: bool = True


@dataclass(frozen=True, slots=True)
class Root:
    """A root: its contents, and its degree, which may be empty."""

    inner: Atoms
    degree: Atoms = ()


@dataclass(frozen=True, slots=True)
class Scripts:
    """Parts raised and lowered behind a piece, or above and below an operator."""

    base: Atom
    above: Atoms = ()
    below: Atoms = ()


@dataclass(frozen=True, slots=True)
class Stacked:
    """Small print above or below something."""

    base: Atoms
    above: Atoms = ()
    below: Atoms = ()


@dataclass(frozen=True, slots=True)
class Lined:
    """Something with a line above it, or below."""

    inner: Atoms
    below: bool = False


@dataclass(frozen=True, slots=True)
class MathMatrix:
    """Cells by rows, in an environment of this name."""

    rows: Sequence[Sequence[Atoms]]
    name: str


Shape = Fraction | Root | Scripts | Stacked | Lined | MathMatrix


def is_flat(atoms: Atoms) -> bool:
    """Return whether a formula loses nothing in line: letters, signs and single scripts."""
    return len(atoms) > _MOST or all(map(_flat, atoms))


def _flat(atom: Atom) -> bool:
    match atom.shape:
        case None:
            return True
        case Scripts(base, above, below):
            parts = [base, *above, *below]
            return not (above and below) and all(each.shape is None for each in parts)
        case _:
            return False
