"""One download: what, how far, how fast, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.models.detail.frame import say
from app.models.job_texts import UNDER_WAY, state_words, title
from app.theme.icons import IconButton
from app.widgets.elided import ElidedLabel
from app.widgets.labels import plain_label
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.remote.faults import Fault
from engine.language import sentences, tr

_STEPS = 1000
_ASK_FOR_TOKEN = (Fault.SIGN_IN, Fault.GATED)
_FREE_SPACE = (Fault.DISK_FULL,)


class JobRow(QWidget):
    """Shows a `JobReport`; the buttons that make sense now are there."""

    pause_asked = Signal(str)
    resume_asked = Signal(str)
    cancel_asked = Signal(str)
    use_asked = Signal(str)
    token_asked = Signal()
    space_asked = Signal()

    def __init__(self, report: JobReport, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.report = report
        name = title(report)
        self.setAccessibleName(name)
        self.name = ElidedLabel(self)
        self.name.setText(name)
        self.state = ElidedLabel(self)
        self.state.setProperty("look", "small")
        self.trouble = plain_label("", self, "danger")
        self.bar = QProgressBar(self)
        self.bar.setRange(0, _STEPS)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(4)
        self.bar.setAccessibleName(tr("Progress of {model}").format(model=name))
        self.use_button = self._button(tr("Use now"))
        self.again_button = self._button(tr("Try again"))
        self.token_button = self._button(tr("Enter access token…"))
        self.space_button = self._button(tr("Free space\N{HORIZONTAL ELLIPSIS}"))
        self.pause_button = IconButton("pause", tr("Pause {model}").format(model=name), self)
        self.resume_button = IconButton("play", tr("Resume {model}").format(model=name), self)
        self.cancel_button = IconButton("close", tr("Cancel {model}").format(model=name), self)
        self._arrange()
        self._connect()
        self.show_report(report)

    def show_report(self, report: JobReport) -> None:
        """Show the progress of the download."""
        self.report, state = report, report.state
        self.state.setText(state_words(report))
        failed = state is JobState.FAILED
        stuck = failed or (state is JobState.WAITING and bool(report.cause))
        say(self.trouble, sentences(report.cause, report.remedy) if stuck else "")
        self.trouble.setToolTip(report.details)
        whole = report.job.nbytes
        self.bar.setValue(round(report.done / whole * _STEPS) if whole else 0)
        self.bar.setVisible(state is not JobState.DONE and not failed)
        self.use_button.setVisible(state is JobState.DONE and report.job.draft_of is None)
        self.again_button.setVisible(stuck)
        self.token_button.setVisible(failed and report.fault in _ASK_FOR_TOKEN)
        self.space_button.setVisible(failed and report.fault in _FREE_SPACE)
        self._swap(state)
        over = state is JobState.DONE or failed
        words = tr("Remove {model} from this list") if over else tr("Cancel {model}")
        self.cancel_button.setToolTip(words.format(model=self.name.text()))
        self.cancel_button.setAccessibleName(words.format(model=self.name.text()))

    def _swap(self, state: JobState) -> None:
        """Pause or go on; the keyboard goes from one to the other."""
        pause = state in UNDER_WAY or state is JobState.WAITING
        resume = state is JobState.PAUSED
        shown, hidden = (self.pause_button, self.resume_button)
        if resume:
            shown, hidden = hidden, shown
        had = hidden.hasFocus()
        shown.setVisible(pause or resume)
        if had and shown.isVisible():
            shown.setFocus(Qt.FocusReason.OtherFocusReason)
        hidden.setVisible(False)

    def _button(self, words: str) -> QPushButton:
        button = QPushButton(words, self)
        button.setProperty("look", "choice")
        button.setAutoDefault(False)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setAccessibleDescription(self.name.text())
        return button

    def _arrange(self) -> None:
        words = QVBoxLayout()
        words.setSpacing(1)
        words.addWidget(self.name)
        words.addWidget(self.state)
        line = QHBoxLayout()
        line.setSpacing(6)
        line.addLayout(words, 1)
        for button in (
            *(self.use_button, self.again_button, self.token_button, self.space_button),
            *(self.pause_button, self.resume_button, self.cancel_button),
        ):
            line.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 2, 0, 4)
        column.setSpacing(4)
        column.addLayout(line)
        column.addWidget(self.trouble)
        column.addWidget(self.bar)

    def _connect(self) -> None:
        for button, signal in (
            (self.pause_button, self.pause_asked),
            (self.resume_button, self.resume_asked),
            (self.again_button, self.resume_asked),
            (self.cancel_button, self.cancel_asked),
            (self.use_button, self.use_asked),
        ):
            button.clicked.connect(lambda _=False, signal=signal: signal.emit(self.report.job.key))
        self.token_button.clicked.connect(self.token_asked)
        self.space_button.clicked.connect(self.space_asked)
