"""Presets: to change, add and delete. Every change applies at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QListWidget,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.settings.presets import BUILT_IN, Preset
from app.settings.store import SettingsStore
from app.settings_page.preset_form import PresetForm
from app.theme.theme import ui_font
from app.widgets.labels import plain_label
from engine.language import tr


class PresetsDialog(QDialog):
    """The presets on the left, the chosen one's parts on the right."""

    def __init__(self, store: SettingsStore, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Presets"))
        self._store = store
        self.list = QListWidget(self)
        self.list.setAccessibleName(tr("Presets"))
        self.form = PresetForm(self)
        self._empty = plain_label(
            tr("There are no presets. New conversations start with default settings."),
            self,
            "muted",
        )
        self.new = self._button(tr("New"), self._add)
        self.copy = self._button(tr("Duplicate"), self._duplicate)
        self.delete = self._button(tr("Delete"), self._delete)
        self.restore = self._button(tr("Restore"), self._restore)
        self.restore.setToolTip(tr("Restores the presets that come with Duotail."))
        self._arrange()
        self.list.currentRowChanged.connect(lambda _row: self._show())
        self.form.changed.connect(self._change)
        self._fill(0)

    def _button(self, text: str, call: Callable[[], None]) -> QPushButton:
        button = QPushButton(text, self)
        button.setAutoDefault(False)
        button.clicked.connect(call)
        return button

    def _arrange(self) -> None:
        left = QVBoxLayout()
        left.setSpacing(8)
        left.addWidget(self.list, 1)
        buttons = QGridLayout()
        buttons.setSpacing(6)
        for index, button in enumerate((self.new, self.copy, self.delete, self.restore)):
            buttons.addWidget(button, index // 2, index % 2)
        left.addLayout(buttons)
        column = QWidget()
        column.setProperty("look", "page")
        inside = QVBoxLayout(column)
        inside.setContentsMargins(4, 0, 12, 0)
        inside.addWidget(self.form)
        inside.addWidget(self._empty)
        inside.addStretch(1)
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(column)
        middle = QHBoxLayout()
        middle.setSpacing(20)
        middle.addLayout(left)
        middle.addWidget(scroll, 1)
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        box.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.setSpacing(14)
        layout.addLayout(middle, 1)
        layout.addWidget(box)
        em = ui_font().pointSizeF()
        self.list.setMinimumWidth(round(17 * em))
        self.resize(min(1100, round(78 * em)), min(820, round(58 * em)))

    @property
    def _presets(self) -> tuple[Preset, ...]:
        return self._store.value.presets

    def _fill(self, row: int) -> None:
        self.list.blockSignals(True)
        self.list.clear()
        self.list.addItems([preset.label for preset in self._presets])
        self.list.setCurrentRow(min(row, len(self._presets) - 1))
        self.list.blockSignals(False)
        self._show()

    def _show(self) -> None:
        row = self.list.currentRow()
        chosen = 0 <= row < len(self._presets)
        self.form.setVisible(chosen)
        self._empty.setVisible(not chosen)
        self.copy.setEnabled(chosen)
        self.delete.setEnabled(chosen)
        self.restore.setEnabled(bool(self._missing()))
        if chosen:
            others = {preset.name for preset in self._presets} - {self._presets[row].name}
            self.form.show_preset(self._presets[row], others)

    def _change(self, preset: Preset) -> None:
        """The form has another preset now."""
        row = self.list.currentRow()
        before = self._presets[row]
        presets = (*self._presets[:row], preset, *self._presets[row + 1 :])
        default = self._store.value.default_preset
        self._store.change(
            presets=presets, default_preset=preset.name if default == before.name else default
        )
        self.list.item(row).setText(preset.label)
        self.restore.setEnabled(bool(self._missing()))

    def _add(self) -> None:
        self._append(Preset(self._free_name(tr("New preset"))))
        self.form.begin()

    def _duplicate(self) -> None:
        chosen = self._presets[self.list.currentRow()]
        name = tr("{name} (copy)").format(name=chosen.label)
        self._append(replace(chosen, name=self._free_name(name)))
        self.form.begin()

    def _append(self, preset: Preset) -> None:
        self._store.change(presets=(*self._presets, preset))
        self._fill(len(self._presets) - 1)

    def _delete(self) -> None:
        row = self.list.currentRow()
        self._store.change(presets=(*self._presets[:row], *self._presets[row + 1 :]))
        self._fill(row)
        self.list.setFocus()

    def _missing(self) -> list[Preset]:
        return [preset for preset in BUILT_IN if preset not in self._presets]

    def _restore(self) -> None:
        """Bring back what came with Duotail; a changed one of the same name is replaced."""
        names = {preset.name for preset in BUILT_IN}
        own = [preset for preset in self._presets if preset.name not in names]
        self._store.change(presets=(*BUILT_IN, *own))
        self._fill(0)

    def _free_name(self, name: str) -> str:
        taken = {preset.name for preset in self._presets}
        number, free = 2, name
        while free in taken:
            free = f"{name} {number}"
            number += 1
        return free
