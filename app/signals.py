"""Signals whose values have types that mypy knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Generic, TypeVarTuple

    from PySide6.QtCore import Qt, SignalInstance

    Values = TypeVarTuple("Values")

    class TypedSignal(Generic[*Values]):
        """A signal of Qt: `TypedSignal[Load | None]()`. Senders and receivers are checked."""

        def emit(self, *values: *Values) -> None:
            """Send."""

        def connect(
            self,
            receiver: Callable[[*Values], object]
            | Callable[[], object]
            | TypedSignal[*Values]
            | SignalInstance,
            kind: Qt.ConnectionType = ...,
        ) -> None:
            """Have the receiver called, or sent, with the values."""

else:
    from functools import partial

    from PySide6.QtCore import Signal

    class TypedSignal:
        """A signal of Qt."""

        def __class_getitem__(cls, kinds: object) -> partial[Signal]:
            """Return what makes a signal of so many values, which go as they are."""
            count = len(kinds) if isinstance(kinds, tuple) else 1
            return partial(Signal, *[object] * count)
