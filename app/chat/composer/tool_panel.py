"""The panel in which a conversation's tools are chosen."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QCheckBox, QWidget

from app.signals import TypedSignal
from app.theme.fonts import keep_sized, scaled
from app.tools.entry import ToolEntry
from app.tools.results import one_line
from app.widgets.boxes import Spacing, fill, hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.popover import Popover
from app.widgets.text_button import text_button
from engine.language import tr

_WIDTH = 400
_ABOUT = 160


class ToolPanel(Popover):
    """A popup above the composer with a box for every tool. A change applies at once."""

    chosen = TypedSignal[tuple[str, ...]]()
    """Keys of the tools that the conversation may use."""
    manage_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Tools"))
        self.boxes: dict[str, QCheckBox] = {}
        self._kept: tuple[str, ...] = ()
        self._column = vbox(to=self.inside, spacing=4, margins=(18, 14, 18, 14))
        keep_sized(self, lambda: self.setFixedWidth(scaled(_WIDTH)))

    def show_tools(self, entries: Sequence[ToolEntry], chosen: Sequence[str], note: str) -> None:
        """Show the tools.

        Args:
            entries: all there are.
            chosen: keys of those that the conversation uses.
            note: what else is to be known of them now; empty: nothing.
        """
        while (item := self._column.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        self.boxes = {}
        known = {entry.key for entry in entries}
        self._kept = tuple(key for key in chosen if key not in known)
        words = tr("The model can call these tools. You are asked before one of them runs.")
        inside = self.inside
        fill(self._column, plain_label(tr("Tools of this chat"), inside, "title"))
        fill(self._column, plain_label(words, inside, "small"))
        if note:
            fill(self._column, plain_label(note, inside, "caution"))
        source: str | None = None
        for entry in entries:
            if entry.source != source:
                source = entry.source
                fill(self._column, Spacing(8))
                named = tr("From {server}").format(server=source) if source else tr("Built in")
                fill(self._column, plain_label(named, inside, "muted"))
            self._add(entry, on=entry.key in chosen)
        manage = text_button(tr("Manage tools…"), inside, self._manage)
        row = QWidget(inside)
        hbox(manage, 1, to=row, margins=(0, 10, 0, 0))
        fill(self._column, row)

    def _add(self, entry: ToolEntry, *, on: bool) -> None:
        box = QCheckBox(entry.title, self.inside)
        box.setChecked(on)
        about = entry.about or one_line(entry.tool.description, _ABOUT)
        box.setToolTip(about)
        box.setAccessibleDescription(about)
        box.toggled.connect(lambda _: self._tell())
        self.boxes[entry.key] = box
        fill(self._column, box)

    def _tell(self) -> None:
        on = tuple(key for key, box in self.boxes.items() if box.isChecked())
        self.chosen.emit((*on, *self._kept))

    def _manage(self) -> None:
        self.hide()
        self.manage_asked.emit()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Keyboard users land on the first box."""
        super().showEvent(event)
        for box in self.boxes.values():
            box.setFocus(Qt.FocusReason.PopupFocusReason)
            break
