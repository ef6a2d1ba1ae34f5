"""Fetches one model for the command line, with a line that tells how far it is."""

from __future__ import annotations

import queue
import tempfile
from dataclasses import replace
from pathlib import Path

from engine.cli.output import show_progress
from engine.errors import UserFixable
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.download.queue import Downloads
from engine.hub.messages import Access, Job, Repository, Variant
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.shelf import ModelShelf
from engine.language import number, sentences, tr
from engine.language.units import duration, file_size

_Reports = tuple[JobReport, ...]


def download(repository: Repository, variant: Variant, access: Access, data: Path) -> Path:
    """Fetch a variant; what to open. It is on the shelf then, too.

    What was fetched by a call that was stopped is not fetched again: it lies in the cache. The
    window's own list of downloads is not touched.

    Raises:
        UserFixable: it cannot be fetched.
    """
    job = Job(
        key=f"{repository.found.repo}/{variant.name}",
        repo=repository.found.repo,
        revision=repository.revision,
        variant=variant.name,
        packaging=variant.packaging,
        files=variant.files,
        licence=repository.found.licence,
    )
    told = queue.SimpleQueue[_Reports]()
    with tempfile.TemporaryDirectory(prefix="duotail-") as folder:
        downloads = Downloads(Path(folder), told.put)
        try:
            downloads.add((job,), access)
            path = _wait(told)
        finally:
            downloads.close()
            show_progress("")
    _keep(path, job, data)
    return path


def _wait(told: queue.SimpleQueue[_Reports]) -> Path:
    """Wait until the model is here; return what to open."""
    while True:
        for report in told.get():
            if report.state is JobState.DONE and report.model is not None:
                return Path(report.model)
            if report.state is JobState.FAILED or (
                report.state is JobState.WAITING and report.cause
            ):
                raise UserFixable(report.cause, report.remedy, report.details)
            _show(report)


def _show(report: JobReport) -> None:
    total = report.job.nbytes
    line = tr("{share} of {size}").format(
        share=number(report.done / total if total else 0.0, ".0%"), size=file_size(total)
    )
    if report.state is JobState.CHECKING:
        line = sentences(line, tr("checking"))
    elif report.bytes_per_second is not None:
        speed = file_size(round(report.bytes_per_second))
        line = sentences(line, tr("{size}/s").format(size=speed))
        if report.seconds_left is not None:
            line = sentences(line, tr("{time} left").format(time=duration(report.seconds_left)))
    show_progress(line)


def _keep(path: Path, job: Job, data: Path) -> None:
    """Remember where it came from; it is usable without that, too."""
    shelf = ModelShelf(data)
    model = replace(
        shelf.describe(path),
        origin=ModelOrigin.DOWNLOADED,
        repo=job.repo,
        revision=job.revision,
    )
    shelf.keep(model if model.licence else replace(model, licence=job.licence or ""))
