"""Formulas in LaTeX, read into atoms: each has a text in line, and a shape where it needs one.

In line `\\frac{a+b}{c}` is "(a + b)/c"; `typeset` sets it as people write it. What is not known
stays as it was typed. Letters that are variables come as Unicode's slanted letters; `runs` tells
them apart again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.markdown.maths.atoms import enclosed_unless_one, fraction, is_single, joined
from app.markdown.maths.scripts import in_line, plain, scripts, shifted, without_marks
from app.markdown.maths.shapes import (
    Atom,
    Atoms,
    Fraction,
    Lined,
    MathMatrix,
    Root,
    Scripts,
    Shape,
    Stacked,
)
from app.markdown.maths.symbols import (
    ACCENTS,
    ALPHABETS,
    FRACTION_NAMES,
    IGNORED,
    NAMES,
    NEGATED,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    SYMBOLS,
    TRANSPARENT,
    UPRIGHT,
    MathClass,
    lettered,
)

_TOKEN = re.compile(r"\\(?:begin|end)\{[a-zA-Z]+\*?\}|\\[a-zA-Z]+\*?|\\.|\s+|.", re.DOTALL)
_DEEPEST = 24
_VARIABLES = re.compile("[\U0001d434-\U0001d467\u210e]+")
_WIDE = {
    "hat": "^",
    "widehat": "^",
    "bar": "\u2014",
    "vec": "\u2192",
    "dot": "\u00b7",
    "ddot": "\u00b7\u00b7",
    "tilde": "~",
    "widetilde": "~",
    "check": "\u02c7",
    "breve": "\u02d8",
    "acute": "\u00b4",
    "grave": "`",
    "mathring": "\u02da",
}
"""Signs above more than one letter."""
_ROOTS = {"": "\u221a", "3": "\u221b", "4": "\u221c"}


def atoms_of(latex: str) -> list[Atom]:
    """Read a formula."""
    return _Reader(latex).everything()


def render(latex: str) -> str:
    """The formula as text in line."""
    return joined(atoms_of(latex)).strip()


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of a rendered formula in one style."""

    text: str
    variable: bool = False
    shift: int = 0
    """1: raised, -1: lowered; where Unicode has no such letters."""


def runs(text: str) -> Iterator[Run]:
    """The stretches of a rendered formula."""
    for shift, part in scripts(text):
        at = 0
        for match in _VARIABLES.finditer(part):
            if match.start() > at:
                yield Run(part[at : match.start()], shift=shift)
            yield Run(plain(match[0]), variable=True, shift=shift)
            at = match.end()
        if at < len(part):
            yield Run(part[at:], shift=shift)


class _Reader:
    """Reads the tokens of one formula from left to right, each once."""

    def __init__(self, latex: str) -> None:
        self._tokens = list(_TOKEN.findall(without_marks(latex)))
        self._at = 0
        self._depth = 0

    def everything(self) -> list[Atom]:
        """Return all atoms; a bracket that closes nothing is shown."""
        atoms = self._sequence(())
        while self._at < len(self._tokens):
            atoms.append(Atom(self._next()))
            atoms += self._sequence(())
        return atoms

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _skip_space(self) -> None:
        while self._peek().isspace():
            self._at += 1

    def _sequence(self, stops: Sequence[str]) -> list[Atom]:
        """Atoms up to one of `stops`, a closing brace, or the end of an environment."""
        atoms: list[Atom] = []
        while (token := self._peek()) and token not in stops:
            if token == "}" or token.startswith("\\end{"):
                break
            self._at += 1
            if token.isspace():
                continue
            if token in {"^", "_"}:
                self._script(atoms, token)
            elif token == "'":
                self._attach(atoms, "\u2032", above=[Atom("\u2032")])
            else:
                atoms += self._atom(token)
        return atoms

    def _attach(
        self, atoms: list[Atom], text: str, *, above: Atoms = (), below: Atoms = ()
    ) -> None:
        base = atoms.pop() if atoms else Atom("")
        shape = base.shape if isinstance(base.shape, Scripts) else Scripts(base)
        shape = replace(shape, above=[*shape.above, *above], below=[*shape.below, *below])
        if base.kind is MathClass.FRACTION:
            base = Atom(f"({base.text})")
        kind = MathClass.ORDINARY if base.kind is MathClass.SPACE else base.kind
        atoms.append(Atom(base.text + text, kind, shape))

    def _script(self, atoms: list[Atom], token: str) -> None:
        forms = SUPERSCRIPTS if token == "^" else SUBSCRIPTS
        argument = self._argument()
        styled = joined(argument, tight=True)
        text = plain(styled)
        if not text:
            return
        if text == "\u2218" and token == "^":
            raised = "°"
        elif all(character in forms for character in text):
            raised = "".join(forms[character] for character in text).replace(" ", "")
        else:
            raised = shifted(styled, raised=token == "^")
        above, below = (argument, ()) if token == "^" else ((), argument)
        self._attach(atoms, raised, above=above, below=below)

    def _argument(self) -> list[Atom]:
        """Parse the argument of a command: a group in braces or the next sign."""
        self._skip_space()
        token = self._peek()
        if not token or token == "}" or token.startswith("\\end{"):
            return []
        self._at += 1
        return self._atom(token) if token not in {"^", "_"} else [Atom(token)]

    def _group(self) -> list[Atom]:
        """Parse what is between braces; the opening one has been read."""
        if self._depth >= _DEEPEST:
            return [Atom("{")]
        self._depth += 1
        atoms = self._sequence(())
        self._depth -= 1
        if self._peek() == "}":
            self._at += 1
        return atoms

    def _raw(self) -> str:
        """The text between braces as it was typed."""
        self._skip_space()
        if self._peek() != "{":
            return self._next()
        self._at += 1
        depth, start = 1, self._at
        while (token := self._peek()) and depth:
            depth += {"{": 1, "}": -1}.get(token, 0)
            self._at += 1
        end = self._at - 1 if not depth else self._at
        words = "".join(self._tokens[start:end])
        return re.sub(r"\\([%$&#_{}])", r"\1", words).replace("$", "")

    def _atom(self, token: str) -> list[Atom]:
        if token == "{":
            return self._group()
        if token in SYMBOLS:
            sign, kind = SYMBOLS[token]
            return [Atom(sign, kind)]
        if not token.startswith("\\"):
            return [Atom(_variable(token))]
        if token[1:] in IGNORED:
            return self._delimiter(token)
        if token.startswith("\\begin{"):
            return self._environment(token[7:-1])
        return self._command(token)

    def _delimiter(self, token: str) -> list[Atom]:
        if token in {"\\left", "\\right"} and self._peek() == ".":
            self._at += 1
        if self._peek() == "|" and token in {"\\left", "\\right"}:
            self._at += 1
            return [Atom("|", MathClass.OPENING if token == "\\left" else MathClass.CLOSING)]
        return []

    def _command(self, token: str) -> list[Atom]:
        name = token[1:]
        if self._depth >= _DEEPEST:
            return [Atom(token)]
        self._depth += 1
        try:
            if name in NAMES:
                return [Atom(name, MathClass.OPERATOR)]
            if name in UPRIGHT:
                kind = MathClass.OPERATOR if name.startswith("operator") else MathClass.ORDINARY
                return [Atom(self._raw(), kind)]
            if name in ALPHABETS:
                return [Atom(lettered(self._raw(), name))]
            if name in FRACTION_NAMES:
                return [fraction(self._argument(), self._argument())]
            if name in TRANSPARENT:
                return self._argument()
            if name in ACCENTS:
                return [_accented(self._argument(), name)]
            return self._rare(token, name)
        finally:
            self._depth -= 1

    def _rare(self, token: str, name: str) -> list[Atom]:
        match name:
            case "sqrt":
                return [self._root()]
            case "binom" | "dbinom" | "tbinom":
                over, under = self._argument(), self._argument()
                said = f"({joined(over)} choose {joined(under)})"
                return [Atom(said, shape=Fraction(over, under, line=False))]
            case "not":
                sign, *rest = self._argument() or [Atom("")]
                return [Atom(NEGATED.get(sign.text, sign.text + "\u0338"), sign.kind), *rest]
            case "pmod" | "pod":
                return [Atom(f" (mod {joined(self._argument())})")]
            case "tag":
                return [Atom(f"    ({self._raw()})")]
            case "label" | "phantom" | "hspace" | "vspace" | "color":
                self._raw()
                return []
            case "overset" | "stackrel" | "underset":
                small, base = self._argument(), self._argument()
                low = name == "underset"
                shape = Stacked(base, below=small) if low else Stacked(base, small)
                kind = base[0].kind if len(base) == 1 else MathClass.ORDINARY
                said = joined([*base, *_small(small, under=low)], tight=True)
                return [Atom(said, kind, shape)]
            case "xrightarrow" | "xleftarrow":
                small = self._argument()
                words, right = joined(small, tight=True), name == "xrightarrow"
                said = f"\u2014{words}\u2192" if right else f"\u2190{words}\u2014"
                shape = Stacked([Atom("\u27f6" if right else "\u27f5")], small)
                return [Atom(said, MathClass.RELATION, shape)]
            case "\\":
                return [Atom(" ", MathClass.SPACE)]
            case _ if self._peek() == "{":
                self._at += 1
                return [Atom(token + "{"), *self._group(), Atom("}")]
            case _:
                return [Atom(token)]

    def _root(self) -> Atom:
        above: list[Atom] = []
        self._skip_space()
        if self._peek() == "[":
            self._at += 1
            above = self._sequence(("]",))
            self._at += self._peek() == "]"
        degree = plain(joined(above, tight=True))
        under = self._argument()
        shape = Root(under, above)
        inner = enclosed_unless_one(under)
        if not inner.startswith("(") and not is_single(plain(inner)):
            inner = f"({inner})"
        if degree in _ROOTS:
            return Atom(_ROOTS[degree] + inner, shape=shape)
        raised = "".join(SUPERSCRIPTS.get(character, character) for character in degree)
        return Atom(raised + _ROOTS[""] + inner, shape=shape)

    def _environment(self, name: str) -> list[Atom]:
        if self._depth >= _DEEPEST:
            return [Atom(f"\\begin{{{name}}}")]
        self._depth += 1
        if name in {"array", "alignat", "alignat*"}:
            self._raw()  # its columns
        rows: list[list[Atoms]] = [[]]
        while True:
            rows[-1].append(self._sequence(("&", "\\\\", "\\cr")))
            stop = self._next()
            if stop in {"\\\\", "\\cr"}:
                rows.append([])
            elif stop != "&":
                break
        if stop == "}":
            self._at -= 1
        self._depth -= 1
        if len(rows) > 1 and not any(rows[-1]):
            rows.pop()
        cells = [[in_line(joined(cell).strip()) for cell in row] for row in rows]
        return [Atom(_flat(cells, name), shape=MathMatrix(rows, name.rstrip("*")))]


def _small(atoms: list[Atom], *, under: bool) -> list[Atom]:
    text = joined(atoms, tight=True)
    forms = SUBSCRIPTS if under else SUPERSCRIPTS
    known = plain(text)
    if known and all(character in forms for character in known):
        return [Atom("".join(forms[character] for character in known))]
    return [Atom(f"({text})")] if text else []


def _variable(letter: str) -> str:
    if letter == "h":
        return "\u210e"
    if "a" <= letter <= "z":
        return chr(0x1D44E + ord(letter) - 97)
    if "A" <= letter <= "Z":
        return chr(0x1D434 + ord(letter) - 65)
    return letter


def _accented(atoms: Atoms, name: str) -> Atom:
    text, mark = joined(atoms, tight=True), ACCENTS[name]
    shape: Shape | None = None
    if name in {"overline", "underline"}:
        shape = Lined(atoms, below=name == "underline") if len(text) > 1 else None
    elif len(text) > 1:
        return Atom(
            f"{name.removeprefix('wide')}({text})", shape=Stacked(atoms, [Atom(_WIDE[name])])
        )
    return Atom("".join(character + mark for character in text), shape=shape)


def _flat(rows: list[list[str]], name: str) -> str:
    """Return an environment on one line."""
    name = name.rstrip("*")
    if name.endswith("matrix") or name == "array":
        text = "; ".join(" ".join(row) for row in rows)
        brackets = {"pmatrix": ("(", ")"), "vmatrix": ("|", "|"), "Vmatrix": ("\u2016", "\u2016")}
        opening, closing = brackets.get(name, ("[", "]"))
        return f"{opening}{text}{closing}"
    joint = "; " if len(rows) > 1 else ""
    text = joint.join(" ".join(cell for cell in row if cell) for row in rows)
    return f"{{ {text}" if name == "cases" else text
