"""The tab with what suits this computer, known without asking anybody."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.models.detail.recommended_detail import RecommendedDetail
from app.models.list_tab import EmptyTexts, ListTab
from app.models.model_texts import suggestion_row
from app.models.rows_view import RowsView
from app.models.services import ModelServices
from engine.hub.advice import Recommendation
from engine.language import tr


class RecommendedTab(ListTab[Recommendation]):
    """The best is on top and chosen: its button is one click away."""

    def __init__(self, services: ModelServices, parent: QWidget) -> None:
        self._services = services
        self.suggested = detail = RecommendedDetail(parent)
        view = RowsView[Recommendation](
            tr("Models that suit this computer"),
            suggestion_row,
            lambda each: (each.repo, each.variant),
            parent,
        )
        super().__init__(view, detail, parent)
        self._texts = EmptyTexts(
            tr("Checking what this computer can run…"),
            tr("No matching suggestion. “Search” asks the hub."),
            tr("No suggested model fits into this computer's memory."),
        )
        view.chosen.connect(self._show_chosen)
        view.opened.connect(lambda _entry: detail.download_button.setFocus())
        services.shelf.suggested.connect(self.show_list)
        services.ordering.changed.connect(self._show_busy)
        services.serve(detail)

    def opened(self) -> None:
        """Memory and disks fill and empty: look again."""
        self._services.shelf.look_for_suggestions()
        self.show_list()

    def show_list(self) -> None:
        """Show the suggestions."""
        shelf = self._services.shelf
        entries = [each for each in shelf.suggestions if self.says(each.name, each.repo)]
        self.show_entries(entries, self._texts, known=shelf.advised)

    def _show_chosen(self, suggestion: Recommendation | None) -> None:
        if suggestion is not None:
            self.suggested.show_suggestion(suggestion)
            self._show_busy()

    def _show_busy(self) -> None:
        suggestion = self.suggested.suggestion
        if suggestion is not None:
            self.suggested.show_busy(busy=self._services.ordering.waits_for(suggestion.repo))
