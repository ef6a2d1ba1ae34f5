"""A flag by which one thread cancels a native forward that another one runs."""

from __future__ import annotations

import ctypes as c


class CancelFlag:
    """A number that forwards look at between blocks: once it is set, they end there."""

    __slots__ = ("_value", "address")

    def __init__(self) -> None:
        self._value = c.c_int32(0)
        self.address = c.addressof(self._value)
        """Where it lies, valid as long as the flag."""

    def __bool__(self) -> bool:
        return bool(self._value.value)

    def set(self) -> None:
        """Give up the forward that is under way, and all that follow."""
        self._value.value = 1

    def clear(self) -> None:
        """Allow the forwards that come next to run."""
        self._value.value = 0
