"""What a GGUF file says about its model, read with types and ranges checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from engine.language import tr
from engine.model.families.common import unsupported
from engine.model.json_object import JsonObject

MOST = (1 << 32) - 1
_WORD = 60
_SHORT = 1024
_Number = TypeVar("_Number", int, float)


class Metadata(JsonObject):
    """The key-value pairs of a GGUF file.

    Values are str, int, float, bool, `tuple[str, ...]` for lists of texts and read-only numpy
    arrays for lists of numbers. Texts are UTF-8; bytes that are not become U+FFFD.
    """

    __slots__ = ()

    @property
    def values(self) -> Mapping[str, object]:
        """All pairs, in the file's order."""
        return self.data

    def items(self, key: str) -> tuple[object, ...]:
        """The elements of a short list; a single value stands for a list of one."""
        value = self.data.get(key)
        if isinstance(value, np.ndarray | tuple) and len(value) > _SHORT:
            raise self.wrong(key, tr("a list of at most {count} entries").format(count=_SHORT))
        if isinstance(value, np.ndarray):
            return tuple(value.tolist())
        if isinstance(value, tuple):
            return value
        return () if value is None else (value,)

    def word(self, key: str) -> str | None:
        """A short text that can be shown as it is, or None when absent."""
        value = self.text(key)
        if value is not None and not (value.isprintable() and len(value) <= _WORD):
            raise self.wrong(key, tr("a word"))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty when absent."""
        value = self.data.get(key, ())
        if not isinstance(value, tuple):
            raise self.wrong(key, tr("a list of texts"))
        return value

    def numbers(self, key: str, low: float, high: float) -> tuple[float, ...]:
        """A short list of finite numbers in [low, high], or one; empty when absent."""
        return tuple(self._alone(key, one).number(key, low, high) for one in self.items(key))

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...]:
        """A short list of whole numbers in [low, high], or one; empty when absent."""
        return tuple(self._alone(key, one).integer(key, low, high) for one in self.items(key))

    def _alone(self, key: str, value: object) -> Metadata:
        return Metadata({key: value}, self.origin)


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The numbers of a model, whose keys begin with its architecture.

    Numbers that could differ from block to block may be stored as lists. They are read as one
    number; a model whose blocks do differ is refused.
    """

    metadata: Metadata
    architecture: str

    def key(self, name: str) -> str:
        """The full key."""
        return f"{self.architecture}.{name}"

    def whole(self, name: str, low: int = 1, high: int = MOST) -> int:
        """A whole number that must be there."""
        value = self.optional_whole(name, low, high)
        return self.metadata.integer(self.key(name), low, high) if value is None else value

    def optional_whole(self, name: str, low: int = 0, high: int = MOST) -> int | None:
        """A whole number, or None when absent."""
        return self._one(name, set(self.metadata.integers(self.key(name), low, high)))

    def optional_number(self, name: str, low: float = 0.0, high: float = 1e12) -> float | None:
        """A number, or None when absent."""
        return self._one(name, set(self.metadata.numbers(self.key(name), low, high)))

    def _one(self, name: str, values: set[_Number]) -> _Number | None:
        if len(values) > 1:
            raise unsupported(
                tr("its blocks differ in “{key}”").format(key=name), repr(sorted(values))[:500]
            )
        return next(iter(values), None)
