"""The page of an empty chat: who answers, on which devices, and something to ask."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from app.chat.examples import BEGINNINGS, EXAMPLES
from app.chat.machine_words import joined, machine_words
from app.engine_link.plan_texts import draft_words, run_words
from app.engine_link.status import EngineStatus, Phase
from app.theme.fonts import keep_font, sized
from app.theme.icons import icon
from app.theme.theme import current
from app.theme.tokens import COLUMN
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.text_button import text_button
from engine.events import PlanSummary
from engine.language import tr
from engine.machine.facts import Machine

_AROUND_EXAMPLES = 58


class Greeting(QWidget):
    """The page of a chat without messages. `example_chosen` carries a prompt to send.

    Args:
        offer: shown in the place of the examples while there is no model.
    """

    example_chosen = Signal(str)

    def __init__(self, offer: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._status = EngineStatus()
        self._columns = 0
        self._continues = False
        self._mark = QLabel(self, alignment=Qt.AlignmentFlag.AlignHCenter)
        self._title = QLabel(self)
        keep_font(self._title, partial(sized, 1.9, QFont.Weight.DemiBold))
        self._title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._title.setWordWrap(True)
        self._line = QLabel(self, alignment=Qt.AlignmentFlag.AlignHCenter, wordWrap=True)
        self._line.setProperty("look", "muted")
        self._progress = QProgressBar(self, textVisible=False)
        self._progress.setFixedSize(240, 4)
        self._progress.setAccessibleName(tr("Loading progress"))
        policy = self._progress.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self._progress.setSizePolicy(policy)
        self.examples = [self._example(text) for text in EXAMPLES]
        self._offer = offer
        self._welcome: QWidget | None = None
        words = tr("Find a model that suits this computer")
        self.more_button = text_button(words, self, look="choice")
        self.more_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._arrange()
        self.set_status(self._status)

    def _example(self, text: str) -> QPushButton:
        send = self.example_chosen.emit
        button = text_button(text, self, lambda: send(button.text()), look="example")
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        button.setMinimumWidth(1)
        return button

    def _arrange(self) -> None:
        self._grid = QGridLayout()
        self._grid.setSpacing(10)
        self._show_examples(columns=2)
        column = QWidget(self, maximumWidth=COLUMN)
        self._column = vbox(
            self._mark,
            Spacing(14),
            self._title,
            Spacing(10),
            self._line,
            Spacing(14),
            (self._progress, 0, Qt.AlignmentFlag.AlignHCenter),
            Spacing(26),
            self._grid,
            _centred(self._offer),
            Spacing(16),
            (self.more_button, 0, Qt.AlignmentFlag.AlignHCenter),
            to=column,
            spacing=0,
            margins=(24, 0, 24, 0),
        )
        vbox(5, _centred(column), 6, to=self, margins=0)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Narrow windows have room for one example beside the other no more."""
        super().resizeEvent(event)
        widest = max(button.sizeHint().width() for button in self.examples)
        room = min(self.width(), COLUMN) - _AROUND_EXAMPLES
        self._show_examples(columns=2 if room >= 2 * widest else 1)

    def welcome(self, page: QWidget | None) -> None:
        """Show the page of the first start in the place of the examples; None: take it away."""
        if self._welcome is not None:
            self._welcome.hide()
            self._welcome.deleteLater()
        self._welcome = page
        if page is not None:
            self._column.insertWidget(self._column.count() - 1, page)  # below the offer
        self.set_status(self._status)

    def keep_clear(self, covered: int) -> None:
        """Leave so many pixels at the top to what lies over it."""
        self.setContentsMargins(0, covered, 0, 0)

    def _show_examples(self, columns: int) -> None:
        if self._columns != columns:
            self._columns = columns
            for index, button in enumerate(self.examples):
                self._grid.addWidget(button, index // columns, index % columns)

    def set_status(self, status: EngineStatus) -> None:
        """Say who answers, or what is still going on."""
        self._status = status
        loading = status.phase in {Phase.LOADING, Phase.PREPARING}
        self._progress.setVisible(loading)
        self._progress.setRange(0, 0 if status.phase is Phase.PREPARING else 1000)
        if status.phase is Phase.LOADING:
            self._progress.setValue(round(status.fraction * 1000))
        self._continues = status.plan is not None and status.plan.continues
        texts = BEGINNINGS if self._continues else EXAMPLES
        for button, text in zip(self.examples, texts, strict=True):
            button.setText(text)
        greets = self._welcome is not None
        possible = status.phase not in {Phase.BROKEN, Phase.NO_MODEL} and not greets
        for button in self.examples:
            button.setVisible(possible)
        self._offer.setVisible(status.phase is Phase.NO_MODEL)
        more = status.phase is not Phase.BROKEN and not loading and not greets
        self.more_button.setVisible(more)
        self._mark.setPixmap(icon("duotail", current().accent).pixmap(48, 48))
        self._title.setText(self._headline())
        self._line.setText(self._hardware())

    def _headline(self) -> str:
        if self._welcome is not None:
            return tr("Welcome to Duotail")
        match self._status.phase:
            case Phase.BROKEN:
                return tr("The engine did not start")
            case Phase.NO_MODEL:
                return tr("No model is loaded")
            case Phase.PREPARING | Phase.LOADING:
                return tr("One moment")
            case _ if self._continues:
                words = tr("{model} only continues text")
                return words.format(model=self._status.model_name)
            case _:
                return tr("{model} is ready").format(model=self._status.model_name)

    def _hardware(self) -> str:
        status = self._status
        if status.phase in {Phase.PREPARING, Phase.LOADING}:
            return status.words + "\u2026"
        if status.phase is Phase.BROKEN:
            return tr("The message below says why and how to fix it.")
        if self._welcome is not None and status.plan is None:
            return tr("With one model you can chat. Everything is computed on this computer.")
        if self._welcome is not None:
            words = tr("{model} is ready: write below and press Enter.")
            return words.format(model=status.model_name)
        if status.plan is None:
            return tr("Load a model to chat. You can also drop a model file here.")
        if status.plan.host:
            words = tr("What you write is sent to {host} and answered there.")
            return words.format(host=status.plan.host)
        if status.plan.continues:
            return tr(
                "It has no chat template: it was trained to go on with a text, not to answer. "
                "Begin a text, and it writes what may come next."
            )
        return f"{_draft_words(status.plan, status.machine)}\n{machine_words(status.machine)}"


def _centred(widget: QWidget) -> QHBoxLayout:
    """Centre the offer at its greatest width, with the height that its texts need there."""
    return hbox(1, (widget, 1000), 1)


def _draft_words(plan: PlanSummary, machine: Machine | None) -> str:
    if plan.caveat:
        return plan.caveat
    if plan.layers_on_gpu or plan.draft_device not in (None, "CPU"):
        return f"{run_words(plan, machine)}."
    device = tr("the CPU")
    if not plan.draft:
        return tr("Runs on {device}, without a draft.").format(device=device)
    words = tr("Runs on {device}, drafting with {drafts}.")
    return words.format(device=device, drafts=joined(draft_words(plan.draft).split(" + ")))
