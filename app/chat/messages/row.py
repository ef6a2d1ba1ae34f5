"""A row of the column: a widget that can be laid out in slices and that knows its own height."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget


@dataclass(frozen=True, slots=True)
class TextAnchor:
    """A place in a row's text that survives another width or font: `below` pixels under the top of
    the line with the character `position`."""

    position: int
    below: int


class ListRow(QWidget):
    """One row. It arranges its parts by hand: layouts are slow where many rows pass."""

    growing = Signal(int)
    """The row is about to need so many pixels more at its end."""
    grown = Signal()
    """The height it needs may have changed."""

    @property
    def busy(self) -> bool:
        """True if its widget must stay, however far away the reader is."""
        return False

    def load(self, until: float) -> bool:  # noqa: ARG002
        """Lay out more of it, until about the time `until`; whether all of it is there."""
        return True

    @property
    def whole(self) -> bool:
        """True if all of it is laid out: it may begin anew when fonts or colours change."""
        return True

    def arrange(self, width: int) -> int:  # noqa: ARG002
        """Place the parts in a row of `width`; the height it needs."""
        return 0

    def mark_at(self, y: int) -> TextAnchor | None:  # noqa: ARG002
        """The line of text at the height `y` of the row, or the first one below; None: no more."""
        return None

    def mark_y(self, mark: TextAnchor) -> int:  # noqa: ARG002
        """Return where the line of a mark is now."""
        return 0
