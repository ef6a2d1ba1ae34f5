"""Choosing a preset, going back to it, keeping the present values as one."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QMenu, QToolButton, QWidget

from app.history import ChatSetup
from app.settings import Preset, Settings
from app.settings.presets import RECOMMENDED, clean_name
from app.signals import TypedSignal
from app.theme.icons import IconButton
from app.widgets.boxes import hbox, vbox
from app.widgets.text_button import text_button
from engine.language import tr


class PresetBar(QWidget):
    """The upper part of the setup panel."""

    chosen = TypedSignal[ChatSetup]()
    """The `ChatSetup` of the preset that was chosen."""
    reset_asked = Signal()
    saved = Signal(str)
    """The present values shall be kept under this name, also over what had it before."""
    deleted = TypedSignal[Preset]()
    """The `Preset` to delete."""
    made_default = Signal(str)
    """New conversations shall begin with the preset of this name."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preset: Preset | None = None
        self.box = QComboBox(self)
        self.box.setAccessibleName(tr("Preset"))
        self.box.activated.connect(self._activated)
        self.reset_button = text_button(tr("Reset"), self)
        self.reset_button.setToolTip(tr("Reset to the preset"))
        self.reset_button.clicked.connect(self.reset_asked)
        self.menu_button = IconButton("more", tr("Save, update or delete presets"), self)
        self.menu_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._make_menu()
        self._note = QLabel(self, wordWrap=True)
        self._note.setProperty("look", "small")
        self._naming = self._make_naming()
        title = QLabel(tr("Preset"), self)
        title.setProperty("look", "title")
        title.setBuddy(self.box)
        vbox(
            title,
            hbox((self.box, 1), self.reset_button, self.menu_button, spacing=8),
            self._naming,
            self._note,
            to=self,
            spacing=6,
            margins=0,
        )

    @property
    def note(self) -> str:
        """Return the note on the chosen preset."""
        return self._note.text()

    def show_presets(self, settings: Settings, setup: ChatSetup, *, changed: bool) -> None:
        """Show the presets, the one in use, and whether the values still are its own."""
        self._preset = settings.preset(setup.preset)
        self.box.blockSignals(True)
        self.box.clear()
        if self._preset is None:
            self.box.addItem(tr("None"))
        for preset in settings.presets:
            self.box.addItem(preset.label, preset)
            if self._preset is not None and preset.name == self._preset.name:
                self.box.setCurrentIndex(self.box.count() - 1)
        self.box.blockSignals(False)
        self.reset_button.setEnabled(changed)
        label = "" if self._preset is None else self._preset.label
        default = self._preset is not None and settings.default_preset == self._preset.name
        own = self._preset is not None and self._preset.name != RECOMMENDED
        self._update_action.setVisible(own)
        self._update_action.setEnabled(changed)
        self._update_action.setText(tr("Update \u201c{name}\u201d").format(name=label))
        self._delete_action.setVisible(own)
        self._delete_action.setText(tr("Delete \u201c{name}\u201d").format(name=label))
        self._default_action.setVisible(own and not default)
        self._default_action.setText(tr("Use “{name}” for new conversations").format(name=label))
        self._note.setText(_note(label, changed=changed, default=default))

    def _make_menu(self) -> None:
        menu = QMenu(self)
        self._save_action = QAction(tr("Save as preset\u2026"), menu)
        self._save_action.triggered.connect(self._ask_name)
        self._update_action = QAction(menu)
        self._update_action.triggered.connect(self._update)
        self._delete_action = QAction(menu)
        self._delete_action.triggered.connect(self._delete)
        self._default_action = QAction(menu)
        self._default_action.triggered.connect(self._make_default)
        menu.addActions([self._save_action, self._update_action, self._default_action])
        menu.addSeparator()
        menu.addAction(self._delete_action)
        self.menu_button.setMenu(menu)

    def _make_naming(self) -> QWidget:
        naming = QWidget(self)
        self.name_field = QLineEdit(naming, placeholderText=tr("Name of the new preset"))
        self.name_field.setAccessibleName(tr("Name of the new preset"))
        self.name_field.returnPressed.connect(self._save)
        self.save_button = text_button(tr("Save"), naming, self._save, look="primary")
        cancel = text_button(tr("Cancel"), naming, naming.hide)
        hbox((self.name_field, 1), self.save_button, cancel, to=naming, spacing=8, margins=0)
        naming.hide()
        return naming

    def _activated(self, index: int) -> None:
        preset = self.box.itemData(index)
        if isinstance(preset, Preset):
            self.chosen.emit(preset.in_use())

    def _ask_name(self) -> None:
        self._naming.show()
        self.name_field.setFocus(Qt.FocusReason.OtherFocusReason)
        self.name_field.selectAll()

    def _save(self) -> None:
        name = clean_name(self.name_field.text())
        if name:
            self._naming.hide()
            self.name_field.clear()
            self.saved.emit(name)

    def _update(self) -> None:
        if self._preset is not None:
            self.saved.emit(self._preset.name)

    def _delete(self) -> None:
        if self._preset is not None:
            self.deleted.emit(self._preset)

    def _make_default(self) -> None:
        if self._preset is not None:
            self.made_default.emit(self._preset.name)


def _note(label: str, *, changed: bool, default: bool) -> str:
    if not label:
        return tr("These settings apply to this conversation only.")
    if changed:
        return tr("Changed from preset “{name}”. Reset restores it.").format(name=label)
    if default:
        return tr("New conversations use this preset.")
    return tr("Using preset “{name}”.").format(name=label)
