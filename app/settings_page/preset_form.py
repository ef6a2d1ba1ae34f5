"""The parts of one preset, each with a control made from what it can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QComboBox, QLineEdit, QPlainTextEdit, QWidget

from app.settings.kinds import Number, Switch, Whole
from app.settings.presets import FIELDS, Preset, PresetField
from app.settings_page.named_form import NamedForm
from app.widgets.labels import LabelledRow
from app.widgets.number_box import RealBox
from engine.language import tr

_PROMPT_LINES = 5


class PresetForm(NamedForm[Preset]):
    """Name and values of a preset."""

    def __init__(self, parent: QWidget | None = None) -> None:
        taken, nameless = tr("Another preset has this name."), tr("A preset needs a name.")
        super().__init__(Preset(""), taken, nameless, parent)
        self.controls: dict[str, QWidget] = {}
        self._setters: dict[str, Callable[[Any], None]] = {}
        for name, part in FIELDS.items():
            self._add(name, part)

    def show_parts(self) -> None:
        """Show the values."""
        for name, setter in self._setters.items():
            with QSignalBlocker(self.controls[name]):
                setter(getattr(self.item.setup, name))

    def _set_part(self, name: str, value: object) -> None:
        setup = replace(self.item.setup, **{name: value})  # type: ignore[arg-type]
        self.take(replace(self.item, setup=setup))

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
            self.add_wide(tr(part.label), control, tr(part.about))
        else:
            control.setFixedWidth(control.fontMetrics().horizontalAdvance("m") * 13)
            self.column.addWidget(LabelledRow(tr(part.label), tr(part.about), control, self))

    def _number(self, name: str, kind: Number) -> RealBox:
        box = RealBox(self)
        box.setSingleStep(kind.step)
        box.setRange(kind.lowest, kind.highest)
        box.setMinimumHeight(self.name.sizeHint().height())
        box.valueChanged.connect(lambda value: self._set_part(name, round(value, 2)))
        self._setters[name] = box.setValue
        return box

    def _whole(self, name: str, kind: Whole, unset: str) -> QLineEdit:
        line = QLineEdit(self, placeholderText=unset, maxLength=18)

        def edited(text: str) -> None:
            text = text.strip()
            if not text and unset:
                self._set_part(name, None)
            elif text.isascii() and text.isdigit() and kind.lowest <= int(text) <= kind.highest:
                self._set_part(name, int(text))

        def show(value: int | None) -> None:
            line.setText("" if value is None else str(value))

        line.textEdited.connect(edited)
        line.editingFinished.connect(lambda: show(getattr(self.item.setup, name)))
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
        text = QPlainTextEdit(self, tabChangesFocus=True)
        text.setFixedHeight(text.fontMetrics().lineSpacing() * _PROMPT_LINES + 18)
        text.textChanged.connect(lambda: self._set_part(name, text.toPlainText()))
        self._setters[name] = text.setPlainText
        return text
