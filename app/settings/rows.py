"""The lines of the settings page: a name, a sentence, a control."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.settings.editors import Editor, editor_for
from app.settings.model import DEFAULTS, SPECS
from app.settings.store import SettingsStore
from app.theme.icons import IconButton
from engine.language import tr

_SIDE_BY_SIDE = 28
"""Narrower than so many letters "m", the control goes below the texts."""


class LabelledRow(QFrame):
    """Texts on the left, a control on the right, or below where room is short."""

    def __init__(self, label: str, about: str, control: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("look", "row")
        self._words = f"{label} {about}".casefold()
        self.label = plain_label(label, self)
        self.label.setBuddy(control)
        self.about = plain_label(about, self, "muted")
        self._texts = QVBoxLayout()
        self._texts.setSpacing(2)
        self._texts.addWidget(self.label)
        self._texts.addWidget(self.about)
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 12, 0, 12)
        self._layout.setSpacing(20)
        self._layout.addLayout(self._texts, 1)
        self.controls = QHBoxLayout()
        self.controls.setSpacing(8)
        self.controls.addWidget(control)
        self._layout.addLayout(self.controls)

    def says(self, words: list[str]) -> bool:
        """Return whether all of these are in its texts."""
        return all(word in self._words for word in words)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Side by side or one above the other."""
        super().resizeEvent(event)
        narrow = self.width() < _SIDE_BY_SIDE * self.fontMetrics().horizontalAdvance("m")
        direction = QBoxLayout.Direction
        self._layout.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)
        self._layout.setSpacing(8 if narrow else 20)
        aside = Qt.AlignmentFlag.AlignLeft if narrow else Qt.AlignmentFlag(0)
        self._layout.setAlignment(self.controls, aside)


class SettingRow(LabelledRow):
    """One setting, made from its metadata. A change applies at once."""

    def __init__(self, name: str, store: SettingsStore, parent: QWidget) -> None:
        spec = SPECS[name]
        self.editor: Editor = editor_for(name, store)
        super().__init__(tr(spec.label), tr(spec.about), self.editor, parent)
        self.name = name
        self._store = store
        self._at_start = getattr(store.value, name)
        self.editor.name(tr(spec.label), tr(spec.about))
        self.note = plain_label(tr("Takes effect at the next start."), self, "muted")
        self._texts.addWidget(self.note)
        self.restart = QPushButton(tr("Restart now"), self)
        self.restart.setAutoDefault(False)
        self._texts.addWidget(self.restart, 0, Qt.AlignmentFlag.AlignLeft)
        self.back = IconButton(
            "undo", tr("Reset “{setting}” to its default").format(setting=tr(spec.label)), self
        )
        keeps_room = self.back.sizePolicy()
        keeps_room.setRetainSizeWhenHidden(True)
        self.back.setSizePolicy(keeps_room)
        self.controls.addWidget(self.back)
        self.back.clicked.connect(self._reset)
        self.editor.chosen.connect(lambda value: store.change(**{name: value}))
        store.changed.connect(self._show)
        self._show()

    def _reset(self) -> None:
        self.editor.control.setFocus()
        self._store.reset(self.name)

    def _show(self) -> None:
        settings = self._store.value
        value = getattr(settings, self.name)
        self.editor.show_settings(settings)
        self.back.setVisible(value != getattr(DEFAULTS, self.name))
        waits = SPECS[self.name].restart and value != self._at_start
        self.note.setVisible(waits)
        self.restart.setVisible(waits)


def plain_label(text: str, parent: QWidget, look: str = "") -> QLabel:
    """A wrapped text in a look of the style sheet."""
    label = QLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setProperty("look", look)
    label.setWordWrap(True)
    return label
