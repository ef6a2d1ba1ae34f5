"""A form for one thing of a library: its name, which no other has, and whatever else it has."""

from __future__ import annotations

from typing import Generic, Protocol, Self, TypeVar

from PySide6.QtWidgets import QLineEdit, QWidget

from app.settings.presets import clean_name
from app.signals import TypedSignal
from app.widgets.boxes import Spacing, fill, vbox
from app.widgets.labels import plain_label
from engine.language import tr


class Named(Protocol):
    """A thing of a library."""

    @property
    def name(self) -> str:
        """The name, as it is kept."""

    @property
    def label(self) -> str:
        """The name, as it is shown."""

    def renamed(self, name: str) -> Self:
        """Return the thing under another name."""


N = TypeVar("N", bound=Named)


class NamedForm(QWidget, Generic[N]):
    """Shows one thing, at first `blank`; `changed` carries it as the user has made it."""

    changed = TypedSignal[N]()

    def __init__(self, blank: N, taken: str, nameless: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.blank = self.item = blank
        self._others: set[str] = set()
        self._words = (taken, nameless)
        self.name = QLineEdit(self, maxLength=60)
        self._wrong = plain_label("", self, "danger")
        self._wrong.hide()
        self.column = vbox(to=self, spacing=0, margins=0)
        self.add_wide(tr("Name"), self.name)
        self.column.addWidget(self._wrong)
        self.name.textEdited.connect(self._rename)
        self.name.editingFinished.connect(self._settle_name)

    def show_parts(self) -> None:
        """Show everything of `item` but its name."""

    def show_item(self, item: N, others: set[str]) -> None:
        """Show `item`; the names of the `others` are taken."""
        self.item, self._others = item, others
        self.name.setText(item.label)
        self._wrong.hide()
        self.show_parts()

    def begin(self) -> None:
        """Let the user name a new thing."""
        self.name.setFocus()
        self.name.selectAll()

    def take(self, item: N) -> None:
        """Take over a change that the user has made."""
        if item != self.item:
            self.item = item
            self.changed.emit(item)

    def add_wide(self, label: str, control: QWidget, about: str = "") -> None:
        """Add a control below its texts."""
        name = plain_label(label, self)
        name.setBuddy(control)
        control.setAccessibleName(label)
        self.column.addWidget(name)
        if about:
            self.column.addWidget(plain_label(about, self, "muted"))
        fill(self.column, Spacing(6), control, Spacing(12))

    def _rename(self, text: str) -> None:
        name = clean_name(text)
        taken = name in self._others
        self._wrong.setText(self._words[0] if taken else self._words[1])
        self._wrong.setVisible(taken or not name)
        if name and not taken and text != self.item.label:
            self.take(self.item.renamed(name))

    def _settle_name(self) -> None:
        """Put back the last name where the text cannot be one."""
        self.name.setText(self.item.label)
        self._wrong.hide()
