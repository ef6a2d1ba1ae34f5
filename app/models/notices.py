"""Tells of downloads that are done, wherever in the window the user is, with "Use now"."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from app.models.choice import ModelChoice
from app.models.download_orders import DownloadOrders
from app.models.hub_client import HubClient
from app.models.model_texts import model_of
from app.notices import offer
from engine.hub import starter
from engine.hub.download.jobs import JobReport, JobState
from engine.language import tr

_NO_MORE = (JobState.DONE, JobState.FAILED)


class DownloadNotices(QObject):
    """A model is told of when its draft is there too, or will not come."""

    def __init__(self, hub: HubClient, ordering: DownloadOrders, models: ModelChoice) -> None:
        super().__init__(hub)
        self._hub, self._ordering, self._models = hub, ordering, models
        self._awaited: set[str] = set()
        hub.fetched.connect(self._arrived)
        hub.jobs_changed.connect(self._tell)

    def use(self, key: str) -> None:
        """Load what a job has brought, with its draft."""
        report = self._report(key)
        if report is not None and report.model is not None:
            self._models.load(Path(report.model), self._draft(key))

    def _arrived(self, report: JobReport) -> None:
        self._awaited.add(report.job.draft_of or report.job.key)
        self._tell()

    def _tell(self) -> None:
        for key in list(self._awaited):
            report = self._report(key)
            if report is None:
                self._awaited.discard(key)
            elif self._is_whole(key):
                self._awaited.discard(key)
                self._offer(report)

    def _is_whole(self, key: str) -> bool:
        group = [each for each in self._hub.reports if key in (each.job.key, each.job.draft_of)]
        target = [each for each in group if each.job.key == key and each.state is JobState.DONE]
        return bool(target) and all(each.state in _NO_MORE for each in group)

    def _offer(self, report: JobReport) -> None:
        if report.job.key == starter.KEY and self._models.bridge.status.plan is None:
            self.use(report.job.key)  # it was wanted in order to begin
            return
        name = model_of(report.job.repo)
        draft = self._draft(report.job.key)
        words = (
            tr("{model} and its draft were downloaded.") if draft else tr("{model} was downloaded.")
        )
        key = report.job.key
        offer(words.format(model=name), choices=[(tr("Use now"), lambda: self.use(key))])

    def _report(self, key: str) -> JobReport | None:
        return next((each for each in self._hub.reports if each.job.key == key), None)

    def _draft(self, key: str) -> Path | None:
        for each in self._hub.reports:
            if each.job.draft_of == key and each.model is not None:
                return Path(each.model)
        return self._ordering.drafts_here.get(key)
