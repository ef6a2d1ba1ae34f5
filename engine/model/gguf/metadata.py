"""What a GGUF file says about its model, read with types and ranges checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.language import tr
from engine.model.json_object import JsonObject


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
        """The elements of a list; a single value stands for a list of one."""
        value = self.data.get(key)
        if isinstance(value, np.ndarray):
            return tuple(value.tolist())
        if isinstance(value, tuple):
            return value
        return () if value is None else (value,)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty when absent."""
        value = self.data.get(key, ())
        if not isinstance(value, tuple):
            raise self.wrong(key, tr("a list of texts"))
        return value

    def numbers(self, key: str, low: float, high: float) -> tuple[float, ...]:
        """A list of finite numbers in [low, high], or one; empty when absent."""
        return tuple(self._alone(key, one).number(key, low, high) for one in self.items(key))

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...]:
        """A list of whole numbers in [low, high], or one; empty when absent."""
        return tuple(self._alone(key, one).integer(key, low, high) for one in self.items(key))

    def _alone(self, key: str, value: object) -> Metadata:
        return Metadata({key: value}, self.origin)
