"""A model on the hub: what it is, its licence, its variants, its drafts, one button to have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtWidgets import QWidget

from app.models.advice import Fits
from app.models.detail.drafts import DraftChoices
from app.models.detail.frame import DetailFrame, Facts, breakable
from app.models.detail.licence import HUB, LicencePart, open_link
from app.models.download_orders import Wanted
from app.models.model_texts import (
    PACKAGINGS,
    date_words,
    fit_mark,
    name_of,
    owner_of,
    parameters_words,
    short_count,
    speed_words,
    variant_row,
)
from app.models.row_model import ModelRow
from app.models.rows_view import RowsView
from app.models.variant_choice import target_variant
from app.signals import TypedSignal
from app.widgets.boxes import fill
from app.widgets.labels import plain_label, say
from engine.hub.advice import DraftCandidate
from engine.hub.messages import FoundRepository, Refused, Repository, Variant
from engine.hub.remote.faults import may_work_later
from engine.language import sentences, tr
from engine.language.units import file_size

_VARIANTS_IN_SIGHT = 5


class RemoteDetail(DetailFrame):
    """Shows what a list says at once, and the rest when the hub has told it."""

    drafts_asked = TypedSignal[Variant]()
    """Drafts of this variant are of interest."""
    draft_chosen = TypedSignal[DraftCandidate | None]()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("The chosen model"), parent)
        self.found: FoundRepository | None = None
        self.repository: Repository | None = None
        self._fits: Fits = {}
        self._busy = False
        self._sizes: dict[str, int] = {}
        self.facts = Facts(self)
        self.column.addWidget(self.facts)
        self.licence = LicencePart(self)
        self.column.addWidget(self.licence)
        self.state = plain_label("", self, "muted")
        self.column.addWidget(self.state)
        self._variants_title = self.section(tr("Variants"))
        self.variants = RowsView[Variant](tr("Variants"), self._words, lambda each: each.name, self)
        self.variants.chosen.connect(self._variant_chosen)
        self.column.addWidget(self.variants)
        self.fit_words = plain_label("", self, "small")
        self.column.addWidget(self.fit_words)
        self._drafts_title = self.section(tr("Draft"))
        self.drafts = DraftChoices(self)
        self.drafts.changed.connect(self._draft_changed)
        self.column.addWidget(self.drafts)
        self.unusable = plain_label("", self, "small")
        fill(self.column, self.unusable, 1)
        self.download_button = self.add_button(tr("Download"), look="primary")
        self.drafts.followed_by = self.download_button
        self.alone_button = self.add_button("")
        self.again_button = self.add_button(tr("Try again"))
        self.page_button = self.add_button(tr("Open page"))
        self.page_button.clicked.connect(self._open_page)

    @property
    def variant(self) -> Variant | None:
        """The one that is chosen."""
        return self.variants.current

    def show_found(self, found: FoundRepository) -> None:
        """Show another model, of which no more is known than a list says."""
        self.found, self.repository, self._fits, self._busy = found, None, {}, False
        self._say_found(found, None)
        say(self.state, tr("Asking the hub for its files\N{HORIZONTAL ELLIPSIS}"))
        self._show_parts()

    def show_trouble(self, refused: Refused) -> None:
        """The hub did not tell more."""
        say(self.state, sentences(refused.cause, refused.remedy))
        self._show_parts(again=may_work_later(refused.kind, refused.details))

    def show_repository(self, repository: Repository) -> None:
        """Show all of a repository."""
        self.repository, self.found = repository, repository.found
        self._say_found(repository.found, repository)
        usable = bool(repository.variants)
        nothing = tr("It has no weights in GGUF or safetensors that Duotail could use.")
        say(self.state, "" if usable else nothing)
        say(self.unusable, "\n".join(repository.unusable))
        self.drafts.say(tr("Looking for drafts\N{HORIZONTAL ELLIPSIS}"))
        self.variants.show_entries(repository.variants)
        self._fit_height()
        self._show_parts()
        self._choose_variant()

    def show_fits(self, fits: Fits) -> None:
        """Show how the variants would run."""
        first = not self._fits
        self._fits = fits
        self.variants.rows.say_anew()
        if first:
            self._choose_variant()
        self._say_fit()

    def show_drafts(self, candidates: Sequence[DraftCandidate]) -> None:
        """Show the drafts for the chosen variant."""
        self.drafts.show_candidates(candidates)
        self._draft_changed()

    def show_draft_size(self, repo: str, nbytes: int) -> None:
        """Show the size of a draft's download."""
        self._sizes[repo] = nbytes
        self._show_button()

    def show_busy(self, *, busy: bool) -> None:
        """Show whether the hub is being asked for the files."""
        self._busy = busy
        self._show_button()

    def _draft_changed(self) -> None:
        self._show_button()
        self.draft_chosen.emit(self.drafts.chosen)

    def _say_found(self, found: FoundRepository, repository: Repository | None) -> None:
        self.title.setText(breakable(name_of(found.repo)))
        say(self.about, tr("by {owner}").format(owner=owner_of(found.repo)))
        context = repository.context if repository is not None else None
        base = found.base or ""
        self.facts.show_facts(
            (
                (tr("Size"), parameters_words(found.parameters) if found.parameters else ""),
                (tr("Format"), ", ".join(PACKAGINGS[each] for each in found.packagings)),
                (tr("Family"), found.architecture or ""),
                (
                    tr("Context"),
                    tr("{n} tokens").format(n=short_count(context)) if context else "",
                ),
                (tr("Base model"), base),
                (tr("Downloads"), short_count(found.downloads) if found.downloads else ""),
                (tr("Updated"), date_words(found.updated) if found.updated else ""),
            )
        )
        link = repository.licence_link if repository is not None else None
        self.licence.show_licence(found.repo, found.licence, link, gated=found.gated)

    def _choose_variant(self) -> None:
        if self.repository is not None:
            best = target_variant(self.repository, self._fits)
            if best is not None:
                self.variants.choose(best.name)

    def _variant_chosen(self, variant: Variant | None) -> None:
        self._say_fit()
        self._show_button()
        if variant is not None:
            self.drafts_asked.emit(variant)

    def _say_fit(self) -> None:
        fit = self._fits.get(self.variant.name) if self.variant is not None else None
        say(self.fit_words, fit_mark(fit).tip if fit is not None else "")

    def _words(self, variant: Variant) -> ModelRow:
        return variant_row(variant, self._fits.get(variant.name))

    def _fit_height(self) -> None:
        count = (self.repository and len(self.repository.variants)) or 1
        rows = min(max(count, 1), _VARIANTS_IN_SIGHT)
        self.variants.setFixedHeight(rows * self.variants.row_height + 4)

    def _show_parts(self, *, again: bool = False) -> None:
        there = self.repository is not None and bool(self.repository.variants)
        for part in (self._variants_title, self.variants, self._drafts_title, self.drafts):
            part.setVisible(there)
        if not there:
            say(self.fit_words, "")
        if self.repository is None:
            say(self.unusable, "")
        self.again_button.setVisible(again)
        self._show_button()

    def _show_button(self) -> None:
        variant, draft = self.variant, self.drafts.chosen
        self.download_button.setVisible(variant is not None)
        fetched = draft is not None and draft.repo is not None and draft.path is None
        self.alone_button.setVisible(variant is not None and fetched)
        if variant is None:
            return
        alone, size = file_size(variant.nbytes), self._draft_size()
        if self._busy:
            words = tr("Asking the hub\N{HORIZONTAL ELLIPSIS}")
        elif size is not None:
            whole = file_size(variant.nbytes + size)
            words = tr("Download with draft ({size})").format(size=whole)
        elif fetched:
            words = tr("Download with draft")
        else:
            words = tr("Download ({size})").format(size=alone)
        self.download_button.setText(words)
        self.download_button.setEnabled(not self._busy)
        self.alone_button.setText(tr("Without draft ({size})").format(size=alone))
        self.alone_button.setEnabled(not self._busy)
        speed = self._fits.get(variant.name)
        self.download_button.setToolTip(speed_words(speed) if speed is not None else "")

    def _draft_size(self) -> int | None:
        """Bytes to fetch of the chosen draft; None where none is to be fetched, or who knows."""
        draft = self.drafts.chosen
        if draft is None or draft.repo is None or draft.path is not None:
            return None
        return self._sizes.get(draft.repo, draft.nbytes)

    def wanted(self, *, with_draft: bool) -> Wanted | None:
        """Return what a click on a download button orders."""
        variant, draft = self.variant, self.drafts.chosen
        if self.found is None or variant is None:
            return None
        order = Wanted(self.found.repo, variant.name)
        if draft is None or not with_draft:
            return order
        if draft.path is not None:
            return replace(order, draft_path=draft.path)
        return replace(order, draft_repo=draft.repo, draft_nbytes=draft.nbytes)

    def _open_page(self) -> None:
        if self.found is not None:
            open_link(f"{HUB}/{self.found.repo}")
