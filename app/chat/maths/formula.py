"""Formulas in LaTeX as readable text: Greek, signs, raised and lowered letters, fractions in line.

Not a typesetter: `\\frac{a+b}{c}` becomes "(a + b)/c". What is not known stays as it was typed.
Letters that are variables come as Unicode's slanted letters; `runs` tells them apart again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.chat.maths.atoms import Atom, enclosed_unless_one, fraction, is_single, joined
from app.chat.maths.layout import MathBox, aligned, beside, enclosed
from app.chat.maths.scripts import in_line, plain, scripts, shifted, without_marks
from app.chat.maths.symbols import (
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
_ROOTS = {"": "\u221a", "3": "\u221b", "4": "\u221c"}


def render(latex: str, *, display: bool = False) -> str:
    """The formula as text; on several lines, where `display` allows them."""
    reader = _Reader(latex, display=display)
    atoms = reader.everything()
    if any(atom.lines is not None for atom in atoms):
        return "\n".join(beside(_parts(atoms)).rows)
    return joined(atoms).strip()


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

    def __init__(self, latex: str, *, display: bool) -> None:
        self._tokens = list(_TOKEN.findall(without_marks(latex)))
        self._at = 0
        self._depth = 0
        self._several = display
        """True if what is read now may take several lines."""

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
                self._attach(atoms, "\u2032")
            else:
                atoms += self._atom(token)
        return atoms

    def _attach(self, atoms: list[Atom], text: str) -> None:
        base = atoms.pop() if atoms else Atom("")
        if base.kind is MathClass.FRACTION:
            base = Atom(f"({base.text})")
        kind = MathClass.ORDINARY if base.kind is MathClass.SPACE else base.kind
        atoms.append(Atom(base.text + text, kind))

    def _script(self, atoms: list[Atom], token: str) -> None:
        forms = SUPERSCRIPTS if token == "^" else SUBSCRIPTS
        styled = joined(self._argument(), tight=True)
        text = plain(styled)
        if not text:
            return
        if text == "\u2218" and token == "^":
            raised = "°"
        elif all(character in forms for character in text):
            raised = "".join(forms[character] for character in text).replace(" ", "")
        else:
            raised = shifted(styled, raised=token == "^")
        self._attach(atoms, raised)

    def _argument(self) -> list[Atom]:
        """Parse the argument of a command: a group in braces or the next sign."""
        self._skip_space()
        token = self._peek()
        if not token or token == "}" or token.startswith("\\end{"):
            return []
        several, self._several = self._several, False
        self._at += 1
        atoms = self._atom(token) if token not in {"^", "_"} else [Atom(token)]
        self._several = several
        return atoms

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
                return [Atom(_accented(joined(self._argument(), tight=True), name))]
            return self._rare(token, name)
        finally:
            self._depth -= 1

    def _rare(self, token: str, name: str) -> list[Atom]:
        match name:
            case "sqrt":
                return [self._root()]
            case "binom" | "dbinom" | "tbinom":
                over, under = joined(self._argument()), joined(self._argument())
                return [Atom(f"({over} choose {under})")]
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
                return [*base, *_small(small, under=name == "underset")]
            case "xrightarrow" | "xleftarrow":
                words = joined(self._argument(), tight=True)
                arrow = f"\u2014{words}\u2192" if name == "xrightarrow" else f"\u2190{words}\u2014"
                return [Atom(arrow, MathClass.RELATION)]
            case "\\":
                return [Atom(" ", MathClass.SPACE)]
            case _ if self._peek() == "{":
                self._at += 1
                return [Atom(token + "{"), *self._group(), Atom("}")]
            case _:
                return [Atom(token)]

    def _root(self) -> Atom:
        degree = ""
        self._skip_space()
        if self._peek() == "[":
            self._at += 1
            degree = plain(joined(self._sequence(("]",)), tight=True))
            self._at += self._peek() == "]"
        inner = enclosed_unless_one(self._argument())
        if not inner.startswith("(") and not is_single(plain(inner)):
            inner = f"({inner})"
        if degree in _ROOTS:
            return Atom(_ROOTS[degree] + inner)
        raised = "".join(SUPERSCRIPTS.get(character, character) for character in degree)
        return Atom(raised + _ROOTS[""] + inner)

    def _environment(self, name: str) -> list[Atom]:
        if self._depth >= _DEEPEST:
            return [Atom(f"\\begin{{{name}}}")]
        self._depth += 1
        if name in {"array", "alignat", "alignat*"}:
            self._raw()  # its columns
        several = self._several
        rows = [[""]]
        while True:
            atoms = self._sequence(("&", "\\\\", "\\cr"))
            rows[-1][-1] = in_line(joined(atoms).strip())
            stop = self._next()
            if stop == "&":
                rows[-1].append("")
            elif stop in {"\\\\", "\\cr"}:
                rows.append([""])
            else:
                break
        if stop == "}":
            self._at -= 1
        self._depth -= 1
        if len(rows) > 1 and rows[-1] == [""]:
            rows.pop()
        lines = _laid_out(rows, name)
        flat = _flat(rows, name)
        return [Atom(flat, lines=lines if several and len(rows) > 1 else None)]


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


def _accented(text: str, name: str) -> str:
    mark = ACCENTS[name]
    if name in {"overline", "underline"} or len(text) == 1:
        return "".join(character + mark for character in text)
    return f"{name.removeprefix('wide')}({text})"


def _parts(atoms: Sequence[Atom]) -> Iterator[MathBox]:
    """Yield the boxes that are put side by side in a formula of several lines."""
    line: list[Atom] = []
    for atom in atoms:
        if atom.lines is None:
            line.append(atom)
            continue
        if line:
            yield MathBox([in_line(joined([*line, Atom("")]))])
            line = []
        yield atom.lines
    if line:
        yield MathBox([in_line(joined([Atom(""), *line]))])


def _laid_out(rows: list[list[str]], name: str) -> MathBox:
    name = name.rstrip("*")
    if name == "array" or name.endswith("matrix") or name == "cases":
        return enclosed(rows, name)
    return aligned(rows)


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
