"""Fit of models to this PC and their drafts, found out beside the window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_link.background import in_background
from app.models.hub import LazyHub
from app.models.hub_client import in_words
from app.notices import report
from app.signals import TypedSignal
from engine.hub.advice import DraftCandidate, Fit
from engine.hub.messages import Repository, Variant
from engine.hub.shelf.kept_model import KeptModel

Fits = dict[str, Fit]
"""Fits by the names of variants."""


class ModelAdvice(QObject):
    """Answers are kept as long as the window is open."""

    fits_known = Signal(str)
    """The repository whose variants have fits now."""
    drafts_known = TypedSignal[Path | tuple[str, str]]()
    """The subject of the drafts: a path, or a repository with the name of a variant."""

    def __init__(self, hub: LazyHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub = hub
        self._fits: dict[tuple[str, str], Fits] = {}
        self._drafts: dict[object, Sequence[DraftCandidate]] = {}

    def fits(self, repository: Repository) -> Fits | None:
        """Return how the variants would run; None: not known yet, `fits_known` tells."""
        key = (repository.found.repo, repository.revision)
        if key not in self._fits:

            def work() -> Fits:
                advice = self._hub().advice
                return {each.name: advice.fit(repository, each) for each in repository.variants}

            def found(fits: Fits) -> None:
                self._fits[key] = fits
                self.fits_known.emit(repository.found.repo)

            in_background(self, work, found, self._tell)
        return self._fits.get(key)

    def drafts_of_kept(
        self, model: KeptModel, kept: Sequence[KeptModel]
    ) -> Sequence[DraftCandidate] | None:
        """Return the drafts of a model that is here; None: not known yet, `drafts_known` tells."""
        key = (model.path, len(kept))
        if key not in self._drafts:

            def found(candidates: Sequence[DraftCandidate]) -> None:
                self._drafts[key] = candidates
                self.drafts_known.emit(model.path)

            in_background(
                self,
                lambda: self._hub().advice.drafts_of_kept(model, tuple(kept)),
                found,
                self._tell,
            )
        return self._drafts.get(key)

    def drafts_of_remote(
        self, repository: Repository, variant: Variant, kept: Sequence[KeptModel]
    ) -> Sequence[DraftCandidate] | None:
        """Return the drafts of a model on the hub; None: not known yet, `drafts_known` tells."""
        name = (repository.found.repo, variant.name)
        key = (*name, repository.revision, len(kept))
        if key not in self._drafts:

            def found(candidates: Sequence[DraftCandidate]) -> None:
                self._drafts[key] = candidates
                self.drafts_known.emit(name)

            in_background(
                self,
                lambda: self._hub().advice.drafts_of_remote(repository, variant, tuple(kept)),
                found,
                self._tell,
            )
        return self._drafts.get(key)

    def _tell(self, error: Exception) -> None:
        report(in_words(error))
