"""A model that suits this computer: why, how fast, how large, and one button to have it."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.models.badge import BadgeLabel
from app.models.detail.frame import DetailFrame, Facts, breakable
from app.models.detail.licence import HUB, LicencePart, open_link
from app.models.download_orders import Wanted
from app.models.model_texts import ROLES, fit_mark, name_of, owner_of, speed_words
from app.widgets.boxes import fill, hbox
from app.widgets.labels import plain_label, say
from engine.hub.advice import Recommendation
from engine.language import sentences, tr
from engine.language.units import file_size


class RecommendedDetail(DetailFrame):
    """Detail of a suggestion, known without asking anybody; the tab takes the orders."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("The chosen model"), parent)
        self.suggestion: Recommendation | None = None
        self.badge = BadgeLabel(self)
        self.speed = plain_label("", self)
        self.column.addLayout(
            hbox((self.badge, 0, Qt.AlignmentFlag.AlignTop), (self.speed, 1), spacing=10)
        )
        self.reason = plain_label("", self)
        self.column.addWidget(self.reason)
        self.facts = Facts(self)
        self.column.addWidget(self.facts)
        self.licence = LicencePart(self)
        self.column.addWidget(self.licence)
        self._draft_title = self.section(tr("Draft"))
        self.draft = plain_label("", self)
        fill(self.column, self.draft, 1)
        self.download_button = self.add_button(tr("Download"), look="primary")
        self.alone_button = self.add_button(tr("Without draft"))
        self.page_button = self.add_button(tr("Open page"))
        self.page_button.clicked.connect(self._open_page)

    def show_suggestion(self, suggestion: Recommendation) -> None:
        """Show another suggestion."""
        self.suggestion = suggestion
        self.title.setText(suggestion.name)
        say(self.about, tr("by {owner}").format(owner=owner_of(suggestion.repo)))
        self.badge.show_mark(fit_mark(suggestion.fit))
        say(self.speed, speed_words(suggestion.fit))
        own = suggestion.fit.reason
        say(self.reason, sentences(suggestion.reason, own if own != suggestion.reason else ""))
        self.facts.show_facts(
            (
                (tr("Good for"), tr(ROLES[suggestion.role])),
                (tr("Variant"), suggestion.variant),
                (tr("To download"), file_size(suggestion.nbytes)),
                (tr("Source"), breakable(suggestion.repo)),
            )
        )
        self.licence.show_licence(suggestion.repo, suggestion.licence, None, gated=False)
        self._draft_title.setVisible(suggestion.draft_repo is not None)
        say(self.draft, self._draft_words(suggestion))
        self.show_busy(busy=False)

    def show_busy(self, *, busy: bool) -> None:
        """Show whether the hub is being asked for the files."""
        suggestion = self.suggestion
        if suggestion is None:
            return
        with_draft = suggestion.draft_repo is not None
        if busy:
            words = tr("Asking the hub\N{HORIZONTAL ELLIPSIS}")
        elif with_draft:
            words = tr("Download with draft ({size})").format(size=file_size(suggestion.nbytes))
        else:
            words = tr("Download ({size})").format(size=file_size(suggestion.nbytes))
        self.download_button.setText(words)
        self.download_button.setEnabled(not busy)
        self.alone_button.setVisible(with_draft)
        self.alone_button.setEnabled(not busy)

    def _draft_words(self, suggestion: Recommendation) -> str:
        if suggestion.draft_repo is None:
            return ""
        name = suggestion.draft or name_of(suggestion.draft_repo)
        about = tr("{draft} drafts: the answer stays the same and comes faster.")
        return about.format(draft=name)

    def wanted(self, *, with_draft: bool) -> Wanted | None:
        """Return what a click on a download button orders."""
        shown = self.suggestion
        if shown is None:
            return None
        order = Wanted(shown.repo, shown.variant)
        if not with_draft or shown.draft_repo is None:
            return order
        draft_variant = shown.draft_variant or ""
        return replace(order, draft_repo=shown.draft_repo, draft_variant=draft_variant)

    def _open_page(self) -> None:
        if self.suggestion is not None:
            open_link(f"{HUB}/{self.suggestion.repo}")
