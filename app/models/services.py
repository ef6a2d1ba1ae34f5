"""Services behind the Models page, made once a window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.models.advice import ModelAdvice
from app.models.choice import ModelChoice
from app.models.download_orders import DownloadOrders
from app.models.hub import HubMaker, LazyHub
from app.models.hub_client import HubClient
from app.models.kept_models import KeptModels
from app.models.token_dialog import ask_for_token
from engine.hub.download.jobs import JobState
from engine.hub.messages import Access

if TYPE_CHECKING:
    from app.models.detail.recommended_detail import RecommendedDetail
    from app.models.detail.remote_detail import RemoteDetail


class ModelServices(QObject):
    """Search, downloads, advice and the models here share a hub, made when it is needed.

    Args:
        make: makes the hub.
        models: which model answers.
        access: how to get to the hub, without a token.
    """

    def __init__(
        self,
        make: HubMaker,
        models: ModelChoice,
        access: Callable[[], Access] = Access,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._hub = LazyHub(make)
        self.models = models
        self.hub = HubClient(self._hub, access, self)
        self.shelf = KeptModels(self._hub, models.running.name_read, self)
        self.advising = ModelAdvice(self._hub, self)
        self.ordering = DownloadOrders(self.hub, self)
        self._listed: set[str] = set()
        self._here: set[Path] = set()
        """Models that were on this computer when drafts were last looked for."""
        self.hub.jobs_changed.connect(self._list)
        self.shelf.changed.connect(self._find_drafts)

    def _list(self) -> None:
        """Put finished downloads onto the shelf, also where the last run had no time for it."""
        for each in self.hub.reports:
            if each.state is JobState.DONE and each.job.key not in self._listed:
                self._listed.add(each.job.key)
                self.shelf.keep(each)

    def _find_drafts(self) -> None:
        """Look for drafts of the model in use again where other models are here now."""
        here = {each.path for each in (*self.shelf.kept, *self.shelf.elsewhere)}
        if here != self._here:
            self._here = here
            self.models.running.find_drafts()

    def serve(self, detail: RecommendedDetail | RemoteDetail) -> None:
        """Have the buttons of a model on the hub order it, and let the user put in a token."""

        def order(*, with_draft: bool) -> None:
            wanted = detail.wanted(with_draft=with_draft)
            if wanted is not None:
                self.ordering.order(wanted)

        detail.download_button.clicked.connect(lambda: order(with_draft=True))
        detail.alone_button.clicked.connect(lambda: order(with_draft=False))
        detail.licence.token_button.clicked.connect(lambda: ask_for_token(self.hub, detail))

    def close(self) -> None:
        """The window closes: nothing is asked or fetched any more."""
        self._hub.close()
