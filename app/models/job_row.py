"""One download: what, how far, how fast, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QProgressBar, QPushButton, QWidget

from app.models.hub_client import HubClient
from app.models.model_texts import joined, model_of
from app.models.token_dialog import ask_for_token
from app.theme.icons import IconButton
from app.widgets.boxes import hbox, vbox
from app.widgets.elided import ElidedLabel
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.remote.faults import NEED_TOKEN, Fault, may_work_later
from engine.language import number, sentences, tr, tr_count
from engine.language.units import file_size, minutes, seconds

_STEPS = 1000


@dataclass(frozen=True, slots=True)
class JobActions:
    """Receivers of the buttons of a download.

    Attributes:
        hub: pauses, resumes and cancels it, and keeps a token.
        use: loads the model that the job with this key has brought.
        free_space: shows what can be deleted.
    """

    hub: HubClient
    use: Callable[[str], object]
    free_space: Callable[[], object]


class JobRow(QWidget):
    """Shows a `JobReport`; the buttons that make sense now are there."""

    def __init__(
        self, report: JobReport, actions: JobActions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.report = report
        name = title(report)
        self.setAccessibleName(name)
        self.name = ElidedLabel(self)
        self.name.setText(name)
        self.state = ElidedLabel(self)
        self.state.setProperty("look", "small")
        self.trouble = plain_label("", self, "danger")
        self.bar = QProgressBar(self, textVisible=False)
        self.bar.setRange(0, _STEPS)
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
        self._connect(actions)
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
        self.again_button.setVisible(stuck and may_work_later(report.fault, report.details))
        self.token_button.setVisible(failed and report.fault in NEED_TOKEN)
        self.space_button.setVisible(failed and report.fault == Fault.DISK_FULL)
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
        button = text_button(words, self, look="choice")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setAccessibleDescription(self.name.text())
        return button

    def _arrange(self) -> None:
        vbox(
            hbox(
                (vbox(self.name, self.state, spacing=1), 1),
                *(self.use_button, self.again_button, self.token_button, self.space_button),
                *(self.pause_button, self.resume_button, self.cancel_button),
                spacing=6,
            ),
            self.trouble,
            self.bar,
            to=self,
            spacing=4,
            margins=(0, 2, 0, 4),
        )

    def _connect(self, actions: JobActions) -> None:
        hub = actions.hub
        doings: tuple[tuple[QAbstractButton, Callable[[str], object]], ...] = (
            (self.pause_button, hub.pause),
            (self.resume_button, hub.resume),
            (self.again_button, hub.resume),
            (self.cancel_button, hub.cancel),
            (self.use_button, actions.use),
        )
        for button, do in doings:
            button.clicked.connect(lambda _=False, do=do: do(self.report.job.key))
        self.token_button.clicked.connect(lambda: ask_for_token(hub, self))
        self.space_button.clicked.connect(lambda _=False: actions.free_space())


UNDER_WAY = (JobState.FETCHING, JobState.CHECKING)
_HOUR = 3600.0


def title(report: JobReport) -> str:
    """Return the name of the model."""
    return joined(model_of(report.job.repo), report.job.variant)


def state_words(report: JobReport) -> str:
    """Return the progress in words."""
    done = tr("{done} of {all}").format(
        done=file_size(report.done), all=file_size(report.job.nbytes)
    )
    match report.state:
        case JobState.WAITING:
            return joined(tr("Waiting"), file_size(report.job.nbytes))
        case JobState.FETCHING:
            return joined(done, _speed(report.bytes_per_second), left_words(report.seconds_left))
        case JobState.CHECKING:
            return joined(tr("Verifying"), done)
        case JobState.PAUSED:
            return joined(tr("Paused"), done)
        case JobState.FAILED:
            return tr("Failed")
        case JobState.DONE:
            return joined(tr("Downloaded"), file_size(report.job.nbytes))


def left_words(left: float | None) -> str:
    """The time that it still takes."""
    if left is None:
        return ""
    if left < 60:
        time = seconds(max(left, 1), ".0f")
    elif left < 2 * _HOUR:
        time = minutes(left / 60, ".0f")
    else:
        time = tr("{n} h").format(n=number(left / _HOUR, ".0f")).replace(" ", "\N{NO-BREAK SPACE}")
    return tr("{time} left").format(time=time)


def summary(reports: Sequence[JobReport]) -> str:
    """Return the state of all downloads in a line."""
    states = [each.state for each in reports]
    running = sum(states.count(state) for state in UNDER_WAY)
    speed = sum(each.bytes_per_second or 0.0 for each in reports)
    left = [each.seconds_left for each in reports if each.seconds_left is not None]
    order = (JobState.WAITING, JobState.PAUSED, JobState.FAILED, JobState.DONE)
    told = _counted([running, *(states.count(state) for state in order)])
    return joined(*told, _speed(speed or None), left_words(max(left) if running and left else None))


def _counted(counts: Sequence[int]) -> list[str]:
    running, waiting, paused, failed, done = counts
    texts = (
        (running, tr_count("{n} running", "{n} running", running)),
        (waiting, tr_count("{n} waiting", "{n} waiting", waiting)),
        (paused, tr_count("{n} paused", "{n} paused", paused)),
        (failed, tr_count("{n} failed", "{n} failed", failed)),
        (done, tr_count("{n} done", "{n} done", done)),
    )
    return [text for count, text in texts if count]


def _speed(speed: float | None) -> str:
    return tr("{size}/s").format(size=file_size(round(speed))) if speed else ""
