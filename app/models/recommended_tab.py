"""The tab with what suits this computer, known without asking anybody."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.models.detail.recommended_detail import RecommendedDetail
from app.models.list.view import RowsView
from app.models.list_tab import ListTab, says
from app.models.model_texts import suggestion_row
from app.models.services import ModelServices
from engine.hub.advice import Recommendation
from engine.language import tr


class RecommendedTab(ListTab):
    """The best is on top and chosen: its button is one click away."""

    token_asked = Signal()

    def __init__(self, services: ModelServices, parent: QWidget) -> None:
        self._services = services
        self._filter = ""
        self.suggested = RecommendedDetail(parent)
        view = RowsView(
            tr("Models that suit this computer"),
            suggestion_row,
            lambda each: (each.repo, each.variant),
            parent,
        )
        super().__init__(view, self.suggested, parent)
        view.chosen.connect(self._show_chosen)
        view.entered.connect(lambda _entry: self.suggested.download_button.setFocus())
        services.shelf.suggested.connect(self._show)
        services.ordering.changed.connect(self._show_busy)
        self.suggested.order_asked.connect(services.ordering.order)
        self.suggested.token_asked.connect(self.token_asked)

    def opened(self) -> None:
        """Memory and disks fill and empty: look again."""
        self._services.shelf.look_for_suggestions()
        self._show()

    def filter(self, words: str) -> None:
        """Narrow the list down."""
        self._filter = words
        self._show()

    def _show(self) -> None:
        shelf = self._services.shelf
        entries = [each for each in shelf.suggestions if says(self._filter, each.name, each.repo)]
        self.view.show_entries(entries, choose_first=True)
        if entries:
            self.say("")
        elif not shelf.advised:
            self.say(tr("Checking what this computer can run…"), busy=True)
        elif self._filter:
            self.say(tr("No matching suggestion. “Search” asks the hub."))
        else:
            self.say(tr("No suggested model fits into this computer's memory."))

    def _show_chosen(self, entry: object) -> None:
        self.show_detail(shown=entry is not None)
        if entry is not None:
            self.suggested.show_suggestion(cast("Recommendation", entry))
            self._show_busy()

    def _show_busy(self) -> None:
        suggestion = self.suggested.suggestion
        if suggestion is not None:
            self.suggested.show_busy(busy=self._services.ordering.waits_for(suggestion.repo))
