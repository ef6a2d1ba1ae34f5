"""The parts of one preset, each with a control made from what it can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.settings.kinds import Number, Switch, Whole
from app.settings.presets import FIELDS, Preset, PresetField, clean_name
from app.signals import TypedSignal
from app.widgets.labels import LabelledRow, plain_label
from engine.language import tr

_PROMPT_LINES = 5


class PresetForm(QWidget):
    """Shows one preset; `changed` carries it as the user has made it."""

    changed = TypedSignal[Preset]()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preset = Preset("")
        self._others: set[str] = set()
        self.name = QLineEdit(self)
        self.name.setMaxLength(60)
        self._taken = plain_label("", self, "danger")
        self._taken.hide()
        self.controls: dict[str, QWidget] = {}
        self._setters: dict[str, Callable[[Any], None]] = {}
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(0)
        self._add_wide(tr("Name"), self.name)
        self._layout.addWidget(self._taken)
        for name, part in FIELDS.items():
            self._add(name, part)
        self.name.textEdited.connect(self._rename)
        self.name.editingFinished.connect(self._settle_name)

    def show_preset(self, preset: Preset, others: set[str]) -> None:
        """Show `preset`; the names of the `others` are taken."""
        self._preset, self._others = preset, others
        self.name.setText(preset.label)
        self._taken.hide()
        for name, setter in self._setters.items():
            with QSignalBlocker(self.controls[name]):
                setter(getattr(preset.setup, name))

    def begin(self) -> None:
        """Let the user name a new preset."""
        self.name.setFocus()
        self.name.selectAll()

    def _rename(self, text: str) -> None:
        name = clean_name(text)
        taken = name in self._others
        self._taken.setText(
            tr("Another preset has this name.") if taken else tr("A preset needs a name.")
        )
        self._taken.setVisible(taken or not name)
        if name and not taken and text != self._preset.label:
            self._set(replace(self._preset, name=name))

    def _settle_name(self) -> None:
        """Put back the last name where the text cannot be one."""
        self.name.setText(self._preset.label)
        self._taken.hide()

    def _set(self, preset: Preset) -> None:
        if preset != self._preset:
            self._preset = preset
            self.changed.emit(preset)

    def _set_part(self, name: str, value: object) -> None:
        setup = replace(self._preset.setup, **{name: value})  # type: ignore[arg-type]
        self._set(replace(self._preset, setup=setup))

    # -- controls --------------------------------------------------------------------------

    def _add(self, name: str, part: PresetField) -> None:
        match part.kind:
            case Number() as kind:
                control: QWidget = self._number(name, kind)
            case Whole() as kind:
                control = self._whole(name, kind, tr(part.unset) if part.unset else "")
            case Switch():
                control = self._switch(name, tr(part.unset))
            case _:
                control = self._text(name)
        self.controls[name] = control
        control.setAccessibleName(tr(part.label))
        control.setAccessibleDescription(tr(part.about))
        if isinstance(control, QPlainTextEdit):
            self._add_wide(tr(part.label), control, tr(part.about))
        else:
            control.setFixedWidth(control.fontMetrics().horizontalAdvance("m") * 13)
            self._layout.addWidget(LabelledRow(tr(part.label), tr(part.about), control, self))

    def _add_wide(self, label: str, control: QWidget, about: str = "") -> None:
        name = plain_label(label, self)
        name.setBuddy(control)
        control.setAccessibleName(label)
        self._layout.addWidget(name)
        if about:
            self._layout.addWidget(plain_label(about, self, "muted"))
        self._layout.addSpacing(6)
        self._layout.addWidget(control)
        self._layout.addSpacing(12)

    def _number(self, name: str, kind: Number) -> QDoubleSpinBox:
        box = QDoubleSpinBox(self)
        box.setRange(kind.lowest, kind.highest)
        box.setSingleStep(kind.step)
        box.setDecimals(2)
        box.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        box.setMinimumHeight(self.name.sizeHint().height())
        box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        box.valueChanged.connect(lambda value: self._set_part(name, round(value, 2)))
        self._setters[name] = box.setValue
        return box

    def _whole(self, name: str, kind: Whole, unset: str) -> QLineEdit:
        line = QLineEdit(self)
        line.setPlaceholderText(unset)
        line.setMaxLength(18)

        def edited(text: str) -> None:
            text = text.strip()
            if not text and unset:
                self._set_part(name, None)
            elif text.isascii() and text.isdigit() and kind.lowest <= int(text) <= kind.highest:
                self._set_part(name, int(text))

        def show(value: int | None) -> None:
            line.setText("" if value is None else str(value))

        line.textEdited.connect(edited)
        line.editingFinished.connect(lambda: show(getattr(self._preset.setup, name)))
        self._setters[name] = show
        return line

    def _switch(self, name: str, unset: str) -> QComboBox:
        combo = QComboBox(self)
        values = (None, True, False)
        combo.addItems([unset, tr("Think first"), tr("Answer at once")])
        combo.activated.connect(lambda index: self._set_part(name, values[index]))
        self._setters[name] = lambda value: combo.setCurrentIndex(values.index(value))
        return combo

    def _text(self, name: str) -> QPlainTextEdit:
        text = QPlainTextEdit(self)
        text.setTabChangesFocus(True)
        text.setFixedHeight(text.fontMetrics().lineSpacing() * _PROMPT_LINES + 18)
        text.textChanged.connect(lambda: self._set_part(name, text.toPlainText()))
        self._setters[name] = text.setPlainText
        return text
