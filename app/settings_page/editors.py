"""The controls that change a setting, one for each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QDialog, QLabel, QSlider, QWidget

from app.settings.kinds import Choice, Number, Prose, Switch, Whole, Word
from app.settings.model import BY_MODEL, SPECS, SYSTEM, Settings
from app.settings.store import SettingsStore
from app.signals import TypedSignal
from app.theme.theme import ui_font
from app.widgets.boxes import hbox, vbox
from app.widgets.number_box import WholeBox
from app.widgets.text_button import text_button
from engine.language import LANGUAGES, number, tr

_APPLY_AFTER_MS = 150
"""A slider on its way over many values applies only where it rests."""


class Editor(QWidget):
    """A control for one setting. `chosen` carries what the user chose."""

    chosen = TypedSignal[object]()
    resets = True
    """True if one click may set the setting back to its default."""

    def __init__(self, control: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.control = control
        self.setFocusProxy(control)
        self.line = hbox(control, spacing=12)
        self.column = vbox(self.line, to=self, spacing=6, margins=0)

    def name(self, label: str, about: str) -> None:
        """Set the texts for screen readers."""
        self.control.setAccessibleName(label)
        self.control.setAccessibleDescription(about)

    def show_settings(self, settings: Settings) -> None:
        """Show what is in force, where the control shows anything of it."""


class _Combo(QComboBox):
    """Turning the wheel over it scrolls the page, it does not change the setting."""

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave it to the page."""
        event.ignore()


class _Slider(QSlider):
    """A slider that leaves the mouse wheel to the page, as `_Combo` does."""

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave it to the page."""
        event.ignore()


class SwitchEditor(Editor):
    """A box to tick."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._box = QCheckBox()
        self._box.setProperty("look", "bare")
        super().__init__(self._box, parent)
        self._name = name
        self._box.clicked.connect(self._click)

    def show_settings(self, settings: Settings) -> None:
        """Tick or untick."""
        self._box.setChecked(getattr(settings, self._name))

    def _click(self, on: bool) -> None:
        self.chosen.emit(on)


class ChoiceEditor(Editor):
    """A list that drops down. `pairs` gives values and texts for the settings in force."""

    def __init__(
        self,
        name: str,
        pairs: Callable[[Settings], Sequence[tuple[object, str]]],
        parent: QWidget | None = None,
    ) -> None:
        self._combo = _Combo()
        super().__init__(self._combo, parent)
        self._name = name
        self._pairs = pairs
        self._values: list[object] = []
        self._combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._combo.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._combo.activated.connect(lambda index: self.chosen.emit(self._values[index]))

    def show_settings(self, settings: Settings) -> None:
        """Show the value in force, and what else there is."""
        pairs = self._pairs(settings)
        texts = [text for _value, text in pairs]
        if texts != [self._combo.itemText(index) for index in range(self._combo.count())]:
            self._combo.clear()
            self._combo.addItems(texts)
        self._values = [value for value, _text in pairs]
        value = getattr(settings, self._name)
        self._combo.setCurrentIndex(self._values.index(value) if value in self._values else -1)


class NumberEditor(Editor):
    """A slider, its value in words, and for a size of text a line in that size."""

    def __init__(self, name: str, kind: Number, parent: QWidget | None = None) -> None:
        self._slider = _Slider(Qt.Orientation.Horizontal)
        super().__init__(self._slider, parent)
        self._name = name
        self._kind = kind
        steps = round((kind.highest - kind.lowest) / kind.step)
        self._slider.setRange(0, steps)
        self._slider.setPageStep(2)
        self._slider.setMinimumSize(140, 28)
        self._words = QLabel(self)
        self._words.setMinimumWidth(self._words.fontMetrics().horizontalAdvance("100 % "))
        self.line.addWidget(self._words)
        self._sample = QLabel(tr("Texts will have this size."), self)
        self._sample.setVisible(kind.percent)
        self.column.addWidget(self._sample)
        self._timer = QTimer(self, singleShot=True, interval=_APPLY_AFTER_MS)
        self._timer.timeout.connect(lambda: self.chosen.emit(self._value()))
        self._slider.valueChanged.connect(self._moved)

    def show_settings(self, settings: Settings) -> None:
        """Put the handle where the value is, unless it is being moved."""
        if self._timer.isActive():
            return
        value = getattr(settings, self._name)
        self._slider.blockSignals(True)
        self._slider.setValue(round((value - self._kind.lowest) / self._kind.step))
        self._slider.blockSignals(False)
        self._describe()

    def _value(self) -> float:
        return round(self._kind.lowest + self._slider.value() * self._kind.step, 6)

    def _moved(self) -> None:
        self._describe()
        self._timer.start()

    def _describe(self) -> None:
        value = self._value()
        words = number(value, ".0%" if self._kind.percent else "g")
        self._words.setText(words)
        self._slider.setToolTip(words)
        if self._kind.percent:
            self._sample.setFont(ui_font(value))


class WholeEditor(Editor):
    """A field for a whole number; what is typed applies when the field is left, or at Enter."""

    def __init__(self, name: str, kind: Whole, parent: QWidget | None = None) -> None:
        self._box = WholeBox()
        super().__init__(self._box, parent)
        self._name = name
        self._box.setRange(kind.lowest, kind.highest)
        self._box.setKeyboardTracking(False)
        self._box.valueChanged.connect(self.chosen.emit)

    def show_settings(self, settings: Settings) -> None:
        """Show the number in force."""
        self._box.blockSignals(True)
        self._box.setValue(getattr(settings, self._name))
        self._box.blockSignals(False)


class ButtonEditor(Editor):
    """A button that opens what does not fit into a row, where it is set back too."""

    resets = False

    def __init__(
        self, text: str, opens: Callable[[QWidget], None], parent: QWidget | None = None
    ) -> None:
        super().__init__(text_button(text, None, lambda: opens(self.window())), parent)


def editor_for(name: str, store: SettingsStore, parent: QWidget | None = None) -> Editor:
    """The control for the setting of this name."""
    if name == "language":
        return ChoiceEditor(name, _languages, parent)
    if name == "default_preset":
        return ChoiceEditor(name, _presets, parent)
    if name == "presets":
        return _presets_button(store, parent)
    if name == "prompts":
        return _prompts_button(store, parent)
    kind = SPECS[name].kind
    match kind:
        case Switch():
            return SwitchEditor(name, parent)
        case Number():
            return NumberEditor(name, kind, parent)
        case Whole():
            return WholeEditor(name, kind, parent)
        case Choice():
            pairs = [
                (member, tr(text)) for member, text in zip(kind.members, kind.labels, strict=True)
            ]
            return ChoiceEditor(name, lambda _settings: pairs, parent)
        case Prose():
            from app.settings_page.text_editor import ProseEditor

            return ProseEditor(name, kind, parent)
        case Word():
            from app.settings_page.text_editor import TextEditor

            return TextEditor(name, kind, parent)
    raise TypeError(f"no control for {type(kind).__name__}")


def _languages(settings: Settings) -> list[tuple[object, str]]:
    pairs: list[tuple[object, str]] = [(SYSTEM, tr("Same as system"))]
    pairs += LANGUAGES.items()
    if settings.language not in {SYSTEM, *LANGUAGES}:
        pairs.append((settings.language, settings.language))
    return pairs


def _presets(settings: Settings) -> list[tuple[object, str]]:
    pairs: list[tuple[object, str]] = [(BY_MODEL, tr("What suits the model"))]
    pairs += [(preset.name, preset.label) for preset in settings.presets]
    if settings.default_preset and settings.preset(settings.default_preset) is None:
        pairs.insert(1, (settings.default_preset, tr("No preset")))
    return pairs


def _presets_button(store: SettingsStore, parent: QWidget | None) -> Editor:
    def edit(above: QWidget) -> None:
        from app.settings_page.presets_dialog import PresetsDialog

        _open(PresetsDialog(store, above))

    return ButtonEditor(tr("Edit presets…"), edit, parent)


def _prompts_button(store: SettingsStore, parent: QWidget | None) -> Editor:
    def edit(above: QWidget) -> None:
        from app.settings_page.prompts_dialog import PromptsDialog

        _open(PromptsDialog(store, above))

    return ButtonEditor(tr("Edit prompts…"), edit, parent)


def _open(dialog: QDialog) -> None:
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()
