"""Texts on downloads."""

from __future__ import annotations

from collections.abc import Sequence

from app.models.model_texts import joined, model_of
from engine.hub.download.jobs import JobReport, JobState
from engine.language import number, tr, tr_count
from engine.language.units import file_size, minutes, seconds

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
