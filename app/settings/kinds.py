"""Kinds of settings: how a value looks in the file, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, Protocol


class SettingKind(Protocol):
    """Turns a TOML value into a setting and back. The page picks its control by the kind."""

    def read(self, value: object) -> Any:  # noqa: ANN401 - each kind has its own type
        """The setting; raises ValueError where the value is unusable."""

    def write(self, value: Any) -> object:  # noqa: ANN401
        """The TOML value; None is not written."""


class _AsIs:
    """Kinds whose values TOML has too."""

    __slots__ = ()

    def write(self, value: Any) -> object:  # noqa: ANN401
        """TOML knows this type."""
        return value


@dataclass(frozen=True, slots=True)
class Switch(_AsIs):
    """A setting that is on or off."""

    def read(self, value: object) -> bool:
        """True or false, nothing that merely looks like it."""
        if not isinstance(value, bool):
            raise ValueError(value)
        return value


@dataclass(frozen=True, slots=True)
class Whole(_AsIs):
    """A whole number."""

    lowest: int
    highest: int

    def read(self, value: object) -> int:
        """Return a number in range."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(value)
        if not self.lowest <= value <= self.highest:
            raise ValueError(value)
        return value


@dataclass(frozen=True, slots=True)
class Number(_AsIs):
    """A number; `step` is what one press of an arrow key changes, `percent` how it is shown."""

    lowest: float
    highest: float
    step: float = 0.1
    percent: bool = False

    def read(self, value: object) -> float:
        """Return a number in range."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(value)
        number = float(value)
        if not self.lowest <= number <= self.highest:
            raise ValueError(value)
        return number


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the members of an enumeration; `labels` are texts for `tr`, in the members' order."""

    members: type[StrEnum]
    labels: tuple[str, ...]

    def read(self, value: object) -> StrEnum:
        """The member with this value."""
        if not isinstance(value, str):
            raise ValueError(value)
        return self.members(value)

    def write(self, value: StrEnum) -> object:
        """The member's value."""
        return value.value


class Browse(Enum):
    """Kinds of paths that a dialog lets the user choose."""

    FILE = auto()
    FOLDER = auto()


@dataclass(frozen=True, slots=True)
class Word(_AsIs):
    """A text; `usable` says what is accepted where not everything is.

    `hint` is what an empty field shows, `wrong` what is said of a text that is not accepted; both
    are texts for `tr`. `browse`: a path, which can be chosen, too.
    """

    usable: Callable[[str], bool] = lambda _text: True
    longest: int = 200
    hint: str = ""
    wrong: str = ""
    browse: Browse | None = None

    def read(self, value: object) -> str:
        """Return a usable text."""
        if not isinstance(value, str) or len(value) > self.longest or not self.usable(value):
            raise ValueError(value)
        return value


@dataclass(frozen=True, slots=True)
class Prose(_AsIs):
    """A text of several lines."""

    longest: int
    hint: str = ""
    """Text for `tr` that an empty field shows."""

    def read(self, value: object) -> str:
        """Return the text, or as much of its beginning as there may be."""
        if not isinstance(value, str):
            raise ValueError(value)
        return value[: self.longest]


@dataclass(frozen=True, slots=True)
class Words:
    """Several texts, at most so many."""

    most: int
    longest: int = 4096

    def read(self, value: object) -> tuple[str, ...]:
        """The texts among them; what is something else is left out."""
        if not isinstance(value, list):
            raise ValueError(value)
        texts = [each for each in value if isinstance(each, str) and len(each) <= self.longest]
        return tuple(texts[: self.most])

    def write(self, value: tuple[str, ...]) -> object:
        """Return a list."""
        return list(value)
