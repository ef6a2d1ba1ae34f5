"""A row of the settings page: a name, a sentence, a control."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.settings.kinds import Prose, Word
from app.settings.model import DEFAULTS, SPECS
from app.settings.store import SettingsStore
from app.settings_page.editors import Editor, editor_for
from app.theme.icons import IconButton
from app.widgets.labels import LabelledRow, plain_label
from app.widgets.text_button import text_button
from engine.language import tr

_LIST = 1000
"""A text that may be so long, a list or a path, gets the width of the page."""


def back_button(row: LabelledRow, label: str) -> IconButton:
    """Add the button that resets a setting; hidden it keeps its room, so that controls align."""
    button = IconButton(
        "undo", tr("Reset “{setting}” to its default").format(setting=tr(label)), row
    )
    keeps_room = button.sizePolicy()
    keeps_room.setRetainSizeWhenHidden(True)
    button.setSizePolicy(keeps_room)
    button.hide()
    row.controls.addWidget(button)
    return button


class SettingRow(LabelledRow):
    """One setting, made from its metadata. A change applies at once."""

    def __init__(self, name: str, store: SettingsStore, parent: QWidget) -> None:
        spec = SPECS[name]
        self.editor: Editor = editor_for(name, store)
        listed = isinstance(spec.kind, Word) and spec.kind.longest >= _LIST
        wide = isinstance(spec.kind, Prose) or listed
        super().__init__(tr(spec.label), tr(spec.about), self.editor, parent, wide=wide)
        self.name = name
        self._store = store
        self.editor.name(tr(spec.label), tr(spec.about))
        self.note = plain_label(tr("Takes effect at the next start."), self, "muted")
        self._texts.addWidget(self.note)
        self.restart = text_button(tr("Restart now"), self)
        self._texts.addWidget(self.restart, 0, Qt.AlignmentFlag.AlignLeft)
        self.back = back_button(self, spec.label)
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
        self.back.setVisible(self.editor.resets and value != getattr(DEFAULTS, self.name))
        waits = SPECS[self.name].restart and value != getattr(self._store.at_start, self.name)
        self.note.setVisible(waits)
        self.restart.setVisible(waits)
