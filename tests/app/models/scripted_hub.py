"""The Models page of a window whose hub, disk and keyring follow a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from desk import Desk
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QPushButton, QWidget

from app.models.models_page import ModelsPage
from app.models.search_bar import ModelsTab
from app.shell.banner import Banner
from app.shell.page_names import PageName
from app.showcase import hub_story as story
from app.showcase.hub import HubScript, ScriptedHub
from engine.commands import Load
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.messages import FoundRepository, Job


def told(script: HubScript) -> HubScript:
    """The script of the usual story."""
    script.found, script.repositories = story.RESULTS, dict(story.REPOSITORIES)
    script.suggestions, script.fits = story.SUGGESTIONS, story.fits
    script.kept, script.elsewhere = story.KEPT, story.ELSEWHERE
    script.candidates = story.CANDIDATES
    return script


@dataclass
class Visitor:
    """Somebody on the Models page."""

    desk: Desk
    page: ModelsPage

    @classmethod
    def of(cls, desk: Desk) -> Visitor:
        """The page is opened."""
        desk.assembly.window.pages.open(PageName.MODELS)
        page = desk.assembly.window.pages.page(PageName.MODELS)
        assert isinstance(page, ModelsPage)
        return cls(desk, page)

    @property
    def script(self) -> HubScript:
        return self.desk.script.hub

    @property
    def hub(self) -> ScriptedHub:
        self.desk.bot.waitUntil(lambda: self.desk.script.scripted_hub is not None)
        assert self.desk.script.scripted_hub is not None
        return self.desk.script.scripted_hub

    def click(self, button: QAbstractButton) -> None:
        self.desk.bot.waitUntil(lambda: button.isVisible() and button.isEnabled())
        self.desk.bot.mouseClick(button, Qt.MouseButton.LeftButton)

    def go_to(self, tab: ModelsTab) -> None:
        self.click(self.page.search.tabs[tab])

    def find(self, words: str) -> None:
        """Type words, press Return, wait for the list."""
        self.go_to(ModelsTab.SEARCH)
        self.page.search.field.setText(words)
        self.desk.bot.keyClick(self.page.search.field, Qt.Key.Key_Return)
        self.until(lambda: not self.page._services.hub.searching)

    def choose(self, found: FoundRepository) -> None:
        self.page.searching.view.choose(found.repo)
        self.until(lambda: self.page.searching.remote.repository is not None)

    def tell(self, *reports: JobReport) -> None:
        """The hub says how far downloads are; wait until the window knows."""
        self.hub.tell(*reports)
        self.until(lambda: self.page._services.hub.reports == reports)

    def until(self, holds: object) -> None:
        self.desk.bot.waitUntil(holds)  # type: ignore[arg-type]

    def did(self, *what: object) -> None:
        """Wait until this was done on the disk or in the queue."""
        self.until(lambda: what in self.script.done)

    def titles(self, entries: Sequence[object]) -> list[str]:
        return [str(getattr(each, "name", each)) for each in entries]

    def asked(self) -> QMessageBox:
        """The question on show."""
        box: list[QMessageBox] = []

        def there() -> bool:
            window = self.desk.assembly.window
            box[:] = [each for each in window.findChildren(QMessageBox) if each.isVisible()]
            return bool(box)

        self.until(there)
        return box[0]


def loads(visitor: Visitor) -> list[Load]:
    """What the engine was asked to load, in order."""
    return [each for each in visitor.desk.script.commands if isinstance(each, Load)]


def banner(visitor: Visitor, words: str) -> Banner:
    """The message that says this, once it is there."""
    found: list[Banner] = []

    def there() -> bool:
        window = visitor.desk.assembly.window
        found[:] = [each for each in window.findChildren(Banner) if words in each.text]
        return bool(found) and found[0].isVisible()

    visitor.until(there)
    return found[0]


def button(where: QWidget, words: str) -> QPushButton:
    """The button below a widget that says this."""
    return next(each for each in where.findChildren(QPushButton) if each.text() == words)


def arrived(job: Job) -> JobReport:
    """The report of a job that is done."""
    return JobReport(job, JobState.DONE, job.nbytes, model=f"/models/{job.variant}.gguf")
