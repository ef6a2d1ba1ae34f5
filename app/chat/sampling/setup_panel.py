"""The panel that says how answers are drawn: preset, temperature, seed, system prompt, more."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QFontMetrics, QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QSlider,
    QToolButton,
    QWidget,
)

from app.chat.sampling.number_rows import SPECS, NumberRow
from app.chat.sampling.preset_bar import PresetBar
from app.chat.sampling.setup_words import baseline, is_changed, temperature_words
from app.history import ChatSetup
from app.settings import Settings
from app.settings.presets import LARGEST_SEED
from app.signals import TypedSignal
from app.theme.fonts import keep_sized, scaled
from app.theme.theme import ui_font
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.number_box import RealBox
from app.widgets.popover import Popover
from engine.language import tr

_STEPS = 20
"""Slider steps per unit of temperature."""
_DEFAULT_SEED = 42
_WIDTH = 440
_PROMPT_MS = 400


class SetupPanel(Popover):
    """A popup above the composer. Every change is told at once through `chosen`."""

    chosen = TypedSignal[ChatSetup]()
    """The `ChatSetup` that the conversation shall have."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Sampling"))
        self._setup = ChatSetup()
        self._settings = Settings()
        self.presets = PresetBar(self)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self._number = RealBox(self)
        self._words = plain_label("", self, "small")
        self._fixed = QCheckBox(tr("Same seed for every answer"), self)
        self._seed = QLineEdit(self)
        self.prompt = QPlainTextEdit(self)
        self.instructed = QCheckBox(tr("Begin with my custom instructions"), self)
        self.more_button = QToolButton(self)
        self.rows = [NumberRow(spec, self) for spec in SPECS]
        self._more = QWidget(self)
        self._prompt_timer = QTimer(self, singleShot=True, interval=_PROMPT_MS)
        self._prepare()
        self._arrange()
        self._connect()

    def _prepare(self) -> None:
        self.slider.setRange(0, 2 * _STEPS)
        self.slider.setMinimumHeight(24)
        self.slider.setAccessibleName(tr("Temperature"))
        self._number.setRange(0, 2)
        self._number.setSingleStep(0.1)
        self._number.setDecimals(2)
        self._number.setAccessibleName(tr("Temperature, as a number"))
        self._number.lineEdit().setAccessibleName(tr("Temperature, as a number"))
        self._seed.setAccessibleName(tr("Seed"))
        self._seed.setMaxLength(len(str(LARGEST_SEED)))
        self.prompt.setAccessibleName(tr("System prompt"))
        self.prompt.setPlaceholderText(tr("For example: Answer briefly, in plain words."))
        self.prompt.setTabChangesFocus(True)
        keep_sized(self, self._size)
        self.more_button.setCheckable(True)
        self.more_button.setText(tr("More"))
        self.more_button.setArrowType(Qt.ArrowType.RightArrow)
        self.more_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.more_button.setProperty("look", "quiet")
        self.more_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.more_button.setToolTip(tr("Top-k, top-p, min-p, penalties, maximum length"))
        self._more.hide()

    def _size(self) -> None:
        """Grow with the text."""
        self._number.setFixedSize(scaled(64), scaled(32))
        self._seed.setFixedWidth(scaled(120))
        self.prompt.setFixedHeight(5 * QFontMetrics(ui_font()).lineSpacing() + 16)
        self.setFixedWidth(scaled(_WIDTH))

    def _arrange(self) -> None:
        vbox(*self.rows, to=self._more, spacing=12, margins=0)
        words = tr("Instructions for the model, before the conversation.")
        vbox(
            self.presets,
            Spacing(10),
            _title(tr("Temperature"), self.slider),
            hbox((self.slider, 1), self._number, spacing=12),
            self._words,
            Spacing(6),
            hbox((self._fixed, 1), self._seed, spacing=12),
            plain_label(
                tr("The same seed gives the same answer to the same question."), self, "small"
            ),
            Spacing(10),
            _title(tr("System prompt"), self.prompt),
            self.prompt,
            plain_label(words, self, "small"),
            self.instructed,
            plain_label(
                tr("The settings hold them for all conversations, under Chat."), self, "small"
            ),
            Spacing(4),
            (self.more_button, 0, Qt.AlignmentFlag.AlignLeft),
            self._more,
            to=self.inside,
            spacing=8,
            margins=(18, 16, 18, 16),
        )

    def _connect(self) -> None:
        self.slider.valueChanged.connect(lambda step: self._number.setValue(step / _STEPS))
        self._number.valueChanged.connect(self._temperature_changed)
        self._fixed.toggled.connect(self._fix_seed)
        self._seed.textEdited.connect(self._seed_changed)
        self._prompt_timer.timeout.connect(self._take_prompt)
        self.prompt.textChanged.connect(self._prompt_timer.start)
        self.instructed.clicked.connect(lambda on: self._change(instructions=on))
        self.more_button.toggled.connect(self._show_more)
        for row in self.rows:
            row.changed.connect(lambda each=row: self._change(**{each.spec.field: each.value}))
        self.presets.chosen.connect(self._use)
        self.presets.reset_asked.connect(lambda: self._use(baseline(self._setup, self._settings)))

    def show_setup(self, setup: ChatSetup, settings: Settings) -> None:
        """Show a conversation's setup, and the presets there are."""
        self._settings = settings
        self._show(setup)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Keyboard users land on the slider."""
        super().showEvent(event)
        self.slider.setFocus(Qt.FocusReason.PopupFocusReason)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Take the text typed last before hiding."""
        super().hideEvent(event)
        if self._prompt_timer.isActive():
            self._take_prompt()

    # -- what the user changes -------------------------------------------------------------

    def _use(self, setup: ChatSetup) -> None:
        setup = replace(setup, instructions=self._setup.instructions)
        self._show(setup)
        self.chosen.emit(setup)

    def _change(self, **values: object) -> None:
        changed = replace(self._setup, **values)  # type: ignore[arg-type]
        if changed != self._setup:
            self._setup = changed
            self._update()
            self.chosen.emit(changed)

    def _temperature_changed(self, *_: object) -> None:
        temperature = round(self._number.value(), 2)
        self.slider.blockSignals(True)
        self.slider.setValue(round(temperature * _STEPS))
        self.slider.blockSignals(False)
        self._change(temperature=temperature)

    def _fix_seed(self, fixed: bool) -> None:
        if fixed and not self._seed.text():
            self._seed.setText(str(_DEFAULT_SEED))
        self._seed_changed()

    def _seed_changed(self, *_: object) -> None:
        text = self._seed.text().strip()
        self._seed.setEnabled(self._fixed.isChecked())
        if not self._fixed.isChecked():
            self._seed.clear()
            self._change(seed=None)
        elif text.isascii() and text.isdigit() and int(text) <= LARGEST_SEED:
            self._change(seed=int(text))  # half-typed: the last good seed stays in force

    def _take_prompt(self) -> None:
        self._prompt_timer.stop()
        self._change(system_prompt=self.prompt.toPlainText())

    # -- inside ----------------------------------------------------------------------------

    def _show(self, setup: ChatSetup) -> None:
        self._setup = setup
        quiet = (self.slider, self._number, self._fixed, self._seed, self.prompt)
        for widget in quiet:
            widget.blockSignals(True)
        self.slider.setValue(round(setup.temperature * _STEPS))
        self._number.setValue(setup.temperature)
        self._fixed.setChecked(setup.seed is not None)
        self._seed.setText("" if setup.seed is None else str(setup.seed))
        self._seed.setEnabled(setup.seed is not None)
        self.instructed.setChecked(setup.instructions)
        self.instructed.setEnabled(bool(self._settings.instructions.strip()))
        if self.prompt.toPlainText() != setup.system_prompt:
            self.prompt.setPlainText(setup.system_prompt)
        for widget in quiet:
            widget.blockSignals(False)
        self._prompt_timer.stop()
        for row in self.rows:
            row.show_value(getattr(setup, row.spec.field))
        self._update()

    def _update(self) -> None:
        self._words.setText(temperature_words(self._setup.temperature))
        changed = is_changed(self._setup, self._settings)
        self.presets.show_presets(self._settings, self._setup, changed=changed)

    def _show_more(self, shown: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow
        self.more_button.setArrowType(arrow)
        self._more.setVisible(shown)
        self.fit()


def _title(text: str, buddy: QWidget) -> QLabel:
    label = QLabel(text, buddy.parentWidget())
    label.setProperty("look", "title")
    label.setBuddy(buddy)
    return label
