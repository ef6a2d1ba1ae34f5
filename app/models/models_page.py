"""The Models page: what is on this computer, what would suit it, and what the hub has."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QMenu, QPushButton, QSplitter, QStackedWidget, QWidget

from app.models.download_bar import DownloadsBar
from app.models.file_chooser import ask_for_model, dropped_model
from app.models.installed_tab import InstalledTab
from app.models.job_row import JobActions
from app.models.list_tab import ListTab
from app.models.model_actions import ModelActions
from app.models.notices import DownloadNotices
from app.models.recommended_tab import RecommendedTab
from app.models.search_bar import ModelsTab, SearchBar
from app.models.search_tab import SearchTab
from app.models.services import ModelServices
from app.models.token_dialog import ask_for_token
from app.notices import offer, report
from app.theme.fonts import scaled
from app.theme.icons import IconButton
from app.widgets.boxes import fill, vbox
from app.widgets.page_frame import PageFrame
from engine.language import tr

_SIDE_BY_SIDE = 620
"""Narrower, the detail is below the list."""
_LOW, _LEAST = 580, 540
"""In a page lower than the first, where neither would show much, that much width is enough."""
_LEAST_LIST, _LEAST_DETAIL = 90, 150
"""Heights, where both are above one another."""


class ModelsPage(PageFrame):
    """Shows one tab at a time.

    Args:
        services: the objects behind the page.
        fetched: tells of downloads that are done.
        used_before: whether the user has models of their own already.
    """

    def __init__(
        self,
        services: ModelServices,
        fetched: DownloadNotices,
        *,
        used_before: bool,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(tr("Models"), parent)
        self._services, self._fetched = services, fetched
        self.search = SearchBar(self)
        actions = ModelActions(services, self, self.closed.emit)
        self.installed = InstalledTab(services, actions, self)
        self.recommended = RecommendedTab(services, self)
        self.searching = SearchTab(services, self)
        self.tabs: dict[ModelsTab, ListTab[Any]] = {
            ModelsTab.INSTALLED: self.installed,
            ModelsTab.RECOMMENDED: self.recommended,
            ModelsTab.SEARCH: self.searching,
        }
        self.downloads = DownloadsBar(JobActions(services.hub, self._use, self._free_space), self)
        self.add_button = QPushButton(tr("Add model\N{HORIZONTAL ELLIPSIS}"), self)
        self.token_button = IconButton("lock", tr("Access token for Hugging Face"), self)
        self._lists, self._details = QStackedWidget(self), QStackedWidget(self)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self.setAcceptDrops(True)
        self._build()
        self._connect()
        self.show_tab(ModelsTab.INSTALLED if used_before else ModelsTab.RECOMMENDED)

    # -- tabs -----------------------------------------------------------------------------

    @property
    def tab(self) -> ListTab[Any]:
        """The one on show."""
        return self.tabs[self.search.tab]

    @property
    def body(self) -> QWidget:
        """List and detail: the tabs and the field above them are never covered."""
        return self._splitter

    def show_tab(self, tab: ModelsTab) -> None:
        """Show another tab."""
        self.search.show_tab(tab)
        shown = self.tabs[tab]
        self._lists.setCurrentWidget(shown.side)
        self._details.setCurrentWidget(shown.detail_side)
        if self.isVisible():
            shown.opened()

    def look_for(self, words: str) -> None:
        """Search the hub, as if the user had typed the words and pressed the button."""
        self.show_tab(ModelsTab.SEARCH)
        self.search.field.setText(words)
        self._search()

    def take_keyboard(self) -> None:
        """The field is what one comes for."""
        self.search.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Lists are those of the moment."""
        super().showEvent(event)
        self._services.hub.look()
        self.tab.opened()
        if self.search.tab is not ModelsTab.INSTALLED:
            self._services.shelf.look()  # drafts that are here count for all tabs

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """List and detail side by side, or one above the other."""
        super().resizeEvent(event)
        self.downloads.fit_page(self.height())
        enough = _LEAST if self.height() < scaled(_LOW) else _SIDE_BY_SIDE
        narrow = self.width() - 2 * self.side < scaled(enough)
        way = Qt.Orientation.Vertical if narrow else Qt.Orientation.Horizontal
        self._lists.setMinimumHeight(_LEAST_LIST if narrow else 0)
        self._details.setMinimumHeight(_LEAST_DETAIL if narrow else 0)
        if way is not self._splitter.orientation():
            self._splitter.setOrientation(way)
            self._share_out()

    # -- adding ----------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Accept a folder or a file with a model."""
        if dropped_model(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """Ask what shall become of it."""
        path = dropped_model(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            self.offer(path)

    def offer(self, path: Path) -> None:
        """Use a model where it lies, or copy it."""
        offer(
            tr("Add {name} to your models?").format(name=path.name),
            tr("“In place” uses the files where they are; a copy stays if they are deleted."),
            choices=[
                (tr("Use in place"), lambda: self._adopt(path, copy=False)),
                (tr("Copy"), lambda: self._adopt(path, copy=True)),
            ],
        )

    def _adopt(self, path: Path, *, copy: bool) -> None:
        self.show_tab(ModelsTab.INSTALLED)
        self.installed.actions.adopt(path, copy=copy)

    # -- building --------------------------------------------------------------------------

    def _build(self) -> None:
        self.keep_whole()  # while it is empty: whatever moves to another place is styled anew
        menu = QMenu(self.add_button)
        menu.addAction(tr("Model file…"), partial(ask_for_model, self, self.offer, folder=False))
        menu.addAction(tr("Model folder…"), partial(ask_for_model, self, self.offer, folder=True))
        self.add_button.setMenu(menu)
        self.add_to_header(self.add_button)
        self.add_to_header(self.token_button)
        fill(self.column, self.search, (self._splitter, 1))
        self.foot.addWidget(self.downloads)
        for stack, margin in ((self._lists, 5), (self._details, 1)):
            box = QFrame(self._splitter)
            box.setProperty("look", "section")
            vbox(stack, to=box, margins=margin)
            self._splitter.addWidget(box)
        for tab in self.tabs.values():
            self._lists.addWidget(tab.side)
            self._details.addWidget(tab.detail_side)
            for first, second in pairwise((self.search.stops[-1], tab.view, tab.action)):
                self.setTabOrder(first, second)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setHandleWidth(12)
        self._splitter.setProperty("look", "open")
        self._share_out()

    def _share_out(self) -> None:
        across = self._splitter.orientation() is Qt.Orientation.Horizontal
        self._splitter.setSizes([400, 560] if across else [240, 320])
        self._splitter.setStretchFactor(0, 2)
        self._splitter.setStretchFactor(1, 3)

    def _connect(self) -> None:
        hub, search = self._services.hub, self.search
        search.tab_chosen.connect(self.show_tab)
        search.filtered.connect(self._filter)
        search.search_asked.connect(self._search)
        search.left.connect(self._go_to_list)
        self.searching.counted.connect(search.count.setText)
        self.token_button.clicked.connect(lambda: ask_for_token(hub, self))
        self.installed.action.clicked.connect(lambda: self.show_tab(ModelsTab.RECOMMENDED))
        hub.jobs_changed.connect(self._show_jobs)
        self._show_jobs()
        hub.problem.connect(report)

    def _show_jobs(self) -> None:
        self.downloads.show_reports(self._services.hub.reports)

    def _filter(self, words: str) -> None:
        self.tab.filter(words)

    def _go_to_list(self) -> None:
        self.tab.take_keyboard()

    def _search(self) -> None:
        search = self.search
        self.searching.search(search.words, search.packaging, search.order)

    def _use(self, key: str) -> None:
        self._fetched.use(key)
        self.closed.emit()

    def _free_space(self) -> None:
        self.show_tab(ModelsTab.INSTALLED)
