"""Brings the starter model to whoever has no model: looks for it, fetches it, loads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from app.engine_link.status import Phase
from app.models.choice import ModelChoice
from app.models.desks import Desks
from app.models.models import Library
from app.models.starter_offer import StarterOffer
from engine.errors import UserFixable
from engine.hub.starter import KEY, starter_job


class StarterDesk(QObject):
    """Joins the offer in an empty chat with the downloads.

    Args:
        offer: the page that the user sees.
        models: which model answers.
        library: has the downloads; it is not made before somebody wants one.
        find: the starter model's file, where it is on this computer.
    """

    def __init__(
        self,
        offer: StarterOffer,
        models: ModelChoice,
        library: Library,
        find: Callable[[], Path | None],
    ) -> None:
        super().__init__(offer)
        self._offer, self._models, self._library, self._find = offer, models, library, find
        self._asked = False
        """True if the download was asked for here and has not begun yet."""
        self._problem: UserFixable | None = None
        """The reason why it did not even begin."""
        self._desks: Desks | None = None
        offer.load_asked.connect(self._load)
        offer.fetch_asked.connect(self._fetch)
        models.bridge.status_changed.connect(lambda _status: self._show())
        library.made = self._follow

    def _follow(self, desks: Desks) -> None:
        self._desks, offer = desks, self._offer
        offer.pause_asked.connect(desks.hub.pause)
        offer.resume_asked.connect(desks.hub.resume)
        offer.cancel_asked.connect(desks.hub.cancel)
        desks.hub.jobs_changed.connect(self._show)
        desks.hub.problem.connect(self._could_not)

    def _load(self) -> None:
        path = self._find()
        if path is not None:
            self._models.load(path)
        else:
            self._show()  # it was here a moment ago

    def _fetch(self) -> None:
        self._asked, self._problem = True, None
        self._library.desks.hub.fetch(starter_job())

    def _could_not(self, problem: UserFixable) -> None:
        if self._asked:
            self._asked, self._problem = False, problem
            self._show()

    def _show(self) -> None:
        if self._models.bridge.status.phase is not Phase.NO_MODEL:
            return
        reports = () if self._desks is None else self._desks.hub.reports
        report = next((each for each in reports if each.job.key == KEY), None)
        if report is not None:
            self._asked, self._problem = False, None
        here = self._find() is not None
        self._offer.show_state(here=here, report=report, problem=self._problem)
