"""Fit of models and their drafts, from planner, files and the dated list."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from app.engine_link.background import numpy_whole
from app.models.hub import HubContext
from engine.errors import UserFixable
from engine.hub.advice import DraftCandidate, Fit, Recommendation, Verdict
from engine.hub.curated import CuratedModel, curated
from engine.hub.draft_candidates import Vocabularies, candidates, published
from engine.hub.messages import Repository, Variant
from engine.hub.predictions import Predictions
from engine.hub.recommendations import recommendations
from engine.hub.shelf.kept_model import KeptModel
from engine.hub.sketch import of_variant
from engine.language import tr
from engine.loading.devices import DeviceManager
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds

_FRESH_S = 20.0
"""Seconds for which memory is taken to be as free as it was."""


class DiskAdvice:
    """Looks at the machine and reads files; each call in a thread beside the window."""

    def __init__(self, around: HubContext) -> None:
        numpy_whole()
        self._around = around
        self._gate = threading.Lock()
        self._manager = DeviceManager()
        self._vocabularies = Vocabularies()
        self._seen: tuple[float, Machine, Speeds] | None = None

    def suggestions(self) -> Sequence[Recommendation]:
        """The best first; asks nobody."""
        with self._gate:
            return recommendations(*self._machine())

    def fit(self, repository: Repository, variant: Variant) -> Fit:
        """Return the fit of a model that is not here."""
        with self._gate:
            return Predictions(*self._machine()).variant(repository, variant)

    def drafts_of_kept(
        self, model: KeptModel, kept: Sequence[KeptModel], /
    ) -> Sequence[DraftCandidate]:
        """Compares vocabularies: every token with its id."""
        with self._gate:
            try:
                speedup = Predictions(*self._machine()).speedup
                return candidates(model.path, kept, self._vocabularies, speedup)
            except UserFixable:
                return ()  # the list says what is wrong with it

    def drafts_of_remote(
        self, repository: Repository, variant: Variant, kept: Sequence[KeptModel], /
    ) -> Sequence[DraftCandidate]:
        """Return the dated list's drafts, and those here; files cannot be compared yet."""
        known = curated()
        try:
            target = of_variant(repository, variant, known).listed
        except UserFixable:
            target = None
        repos = {each.repo.lower() for each in kept if each.repo}
        here = [_judged(each, repository, target) for each in kept if not each.head]
        more = list(published(target, known, repos)) if target is not None else []
        usable = [each for each in here if each.verdict is not Verdict.NO]
        return [*usable, *more, *(each for each in here if each.verdict is Verdict.NO)]

    def _machine(self) -> tuple[Machine, Speeds]:
        now = time.monotonic()
        if self._seen is None or now - self._seen[0] > _FRESH_S:
            machine = self._manager.look(self._around.simulate_gpu, self._around.device)
            self._seen = (now, machine, self._manager.speeds(machine))
        return self._seen[1:]


def _judged(
    model: KeptModel, repository: Repository, target: CuratedModel | None
) -> DraftCandidate:
    """A model that is here, for one that is not: its tokens cannot be compared yet."""
    verdict, reason = Verdict.NO, model.problem
    if not reason:
        own = curated().of_repo(model.repo)
        drafts = curated().drafts_for(target) if target is not None else ()
        if own is not None and any(own is draft for draft, _ in drafts):
            verdict, reason = Verdict.LIKELY, tr("A smaller model with the same vocabulary.")
        elif _not_smaller(model, repository):
            reason = tr("It is not smaller than the target.")
        else:
            reason = tr("Its vocabulary can be compared after the download.")
    return DraftCandidate(
        model.name, verdict, reason, path=model.path, repo=model.repo, nbytes=model.weight_bytes
    )


def _not_smaller(model: KeptModel, repository: Repository) -> bool:
    parameters = repository.found.parameters
    return bool(model.parameters and parameters and model.parameters >= parameters)
