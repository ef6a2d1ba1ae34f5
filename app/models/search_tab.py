"""The tab with the hub: results of a search, and all of the one that is chosen."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.models.detail.remote_detail import RemoteDetail
from app.models.list_tab import ListTab
from app.models.model_texts import found_row
from app.models.rows_view import RowsView
from app.models.services import ModelServices
from app.models.token_dialog import ask_for_token
from app.models.variant_choice import draft_variant
from engine.hub.advice import DraftCandidate
from engine.hub.messages import (
    Describe,
    FoundRepository,
    Order,
    Packaging,
    Refused,
    Repository,
    Results,
    Search,
    Variant,
)
from engine.hub.remote.faults import NEED_TOKEN, may_work_later
from engine.language import sentences, tr, tr_count

_LINGER_MS = 250
"""Delay of the question about a model: none is asked while keys pass through the list."""


class SearchTab(ListTab[FoundRepository]):
    """List of models on the hub; nothing is sent before `search` is called."""

    counted = Signal(str)
    """The number of results, in words."""

    def __init__(self, services: ModelServices, parent: QWidget) -> None:
        self._services = services
        self.remote = RemoteDetail(parent)
        view = RowsView[FoundRepository](
            tr("Models on the hub"), found_row, lambda each: each.repo, parent
        )
        super().__init__(view, self.remote, parent)
        self._last: tuple[str, Packaging | None, Order] | None = None
        self._needs_token = False
        """True if the last search was refused to whom the token stands for."""
        self._linger = QTimer(self, singleShot=True, interval=_LINGER_MS)
        self._linger.timeout.connect(self._describe)
        self._connect()
        self.say(tr("Models by name or owner, or an address of the hub."))

    def _connect(self) -> None:
        hub, detail = self._services.hub, self.remote
        hub.results.connect(self._show_results)
        hub.described.connect(self._described)
        hub.refused.connect(self._refused)
        self.view.chosen.connect(self._show_chosen)
        self.view.opened.connect(lambda _entry: detail.download_button.setFocus())
        self.action.clicked.connect(self._act)
        self._services.advising.fits_known.connect(self._fits_known)
        self._services.advising.drafts_known.connect(self._drafts_known)
        self._services.ordering.changed.connect(self._show_busy)
        hub.token_kept.connect(self._token_kept)
        self._services.serve(detail)
        detail.drafts_asked.connect(self._ask_for_drafts)
        detail.draft_chosen.connect(self._ask_for_draft)
        detail.again_button.clicked.connect(self._describe_again)

    def search(self, words: str, packaging: Packaging | None, order: Order) -> None:
        """Ask the hub."""
        self._last = (words, packaging, order)
        self._services.hub.search(words, packaging, order)
        self.say(tr("Asking the hub\N{HORIZONTAL ELLIPSIS}"), busy=True)

    def _token_kept(self) -> None:
        """Ask again for what was refused: the token may allow it."""
        if self._needs_token:
            self._again()
        elif self.remote.found is not None:
            self._show_chosen(self.view.current)

    # -- results ---------------------------------------------------------------------------

    def _show_results(self, results: Results) -> None:
        self._needs_token = False
        found = results.found
        self.view.show_entries(found, choose_first=False)
        self.view.scrollToTop()
        if found:
            self.say("")
            self.counted.emit(tr_count("{n} model found.", "{n} models found.", len(found)))
        else:
            words = tr("No results for “{words}”.").format(words=results.asked.words)
            hint = tr("Try fewer words, or another format.")
            self.say(sentences(words, hint))
            self.counted.emit("")

    def _refused(self, refused: Refused) -> None:
        if isinstance(refused.asked, Search):
            self._needs_token = refused.kind in NEED_TOKEN
            words = f"{refused.cause}\n{refused.remedy}".strip()
            again = tr("Try again") if may_work_later(refused.kind, refused.details) else ""
            self.say(words, tr("Enter access token…") if self._needs_token else again)
            self.words.setToolTip(refused.details)
            self.counted.emit("")
        elif isinstance(refused.asked, Describe):
            found = self.remote.found
            if found is not None and found.repo == refused.asked.repo:
                self.remote.show_trouble(refused)

    def _act(self) -> None:
        if self._needs_token:
            ask_for_token(self._services.hub, self.side)
        else:
            self._again()

    def _again(self) -> None:
        if self._last is not None:
            self.search(*self._last)

    # -- the chosen one --------------------------------------------------------------------

    def _show_chosen(self, found: FoundRepository | None) -> None:
        self._linger.stop()
        if found is None:
            return
        self.remote.show_found(found)
        known = self._services.hub.known(found.repo)
        if known is not None:
            self._described(known)
        else:
            self._linger.start()

    def _describe(self) -> None:
        if self.remote.found is not None:
            self._services.hub.describe(self.remote.found.repo)

    def _describe_again(self) -> None:
        if self.remote.found is not None:
            self.remote.show_found(self.remote.found)
            self._describe()

    def _described(self, repository: Repository) -> None:
        found, draft = self.remote.found, self.remote.drafts.chosen
        if draft is not None and draft.repo == repository.found.repo:
            self._show_draft_size(draft, repository)
        if found is None or found.repo != repository.found.repo:
            return
        if self.remote.repository is not repository:
            self.remote.show_repository(repository)
            fits = self._services.advising.fits(repository)
            if fits is not None:
                self.remote.show_fits(fits)
        self._show_busy()

    def _fits_known(self, repo: str) -> None:
        shown = self.remote.repository
        if shown is not None and shown.found.repo == repo:
            fits = self._services.advising.fits(shown)
            if fits is not None:
                self.remote.show_fits(fits)

    def _ask_for_drafts(self, variant: Variant) -> None:
        repository = self.remote.repository
        if repository is not None:
            kept = self._services.shelf.kept
            candidates = self._services.advising.drafts_of_remote(repository, variant, kept)
            if candidates is not None:
                self.remote.show_drafts(candidates)

    def _drafts_known(self, whose: Path | tuple[str, str]) -> None:
        repository, variant = self.remote.repository, self.remote.variant
        if repository is None or variant is None:
            return
        if whose == (repository.found.repo, variant.name):
            self._ask_for_drafts(variant)

    def _ask_for_draft(self, draft: DraftCandidate | None) -> None:
        """Ask for the size of the draft that would be downloaded too."""
        if draft is not None and draft.repo is not None and draft.path is None:
            known = self._services.hub.known(draft.repo)
            if known is not None:
                self._show_draft_size(draft, known)
            else:
                self._services.hub.describe(draft.repo)

    def _show_draft_size(self, draft: DraftCandidate, repository: Repository) -> None:
        variant = self.remote.variant
        if variant is not None:
            smaller = draft_variant(repository, variant.packaging, nbytes=draft.nbytes)
            if smaller is not None:
                self.remote.show_draft_size(repository.found.repo, smaller.nbytes)

    def _show_busy(self) -> None:
        found = self.remote.found
        if found is not None:
            self.remote.show_busy(busy=self._services.ordering.waits_for(found.repo))
