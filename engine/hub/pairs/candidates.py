"""Which models can draft for a target: each one that is here or listed, with the reason.

Nothing is left out silently: who misses a draft in a list wants to know why it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.advice import DraftCandidate, Verdict
from engine.hub.pairs.curated import Curated, CuratedModel, curated
from engine.hub.pairs.vocabularies import Vocabularies, tokens_of
from engine.hub.shelf.kept_model import KeptModel
from engine.language import number, sentences, tr
from engine.model.config import ModelConfig
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import real_path
from engine.model.other_family import OtherConfig
from engine.model.text.vocabulary.same_tokens import fingerprint
from engine.plan.footprint import weight_count

Speedup = Callable[[LocalModel, LocalModel], float | None]
"""Target and draft -> predicted tokens/s over those without a draft."""

_ORDER = (Verdict.FITS, Verdict.LIKELY, Verdict.NO)


def candidates(
    target: Path,
    kept: Iterable[KeptModel],
    vocabularies: Vocabularies,
    speedup: Speedup | None = None,
    known: Curated | None = None,
) -> list[DraftCandidate]:
    """Return every model and head that is here or published for the target; best first.

    Reads files: a second or so for every vocabulary that was not compared before.

    Args:
        target: what is to answer.
        kept: the models on this disk.
        vocabularies: what was compared before.
        speedup: predicts what a draft that fits brings.
        known: published pairs; None: the list that ships with Duotail.

    Raises:
        UserFixable: the target itself cannot be used.
        SeveralModels: it is a folder with more than one.
    """
    own = LocalModel.inspect(target)
    judge = _Judge(own, vocabularies, speedup)
    place = real_path(target)
    others = [model for model in kept if real_path(model.path) != place]
    found = [judge.judged(model) for model in others]
    listed = curated() if known is None else known
    here = {(model.repo or "").lower() for model in others}
    entry = None
    if isinstance(own.config, ModelConfig):
        entry = listed.of_config(own.config)
    found += published(entry, listed, here) if entry is not None else ()
    vocabularies.forget()
    return sorted(found, key=_rank)


def published(
    target: CuratedModel, known: Curated, here: Iterable[str] = ()
) -> Iterator[DraftCandidate]:
    """Yield what could be fetched for a target; `here`: repositories (lower case) to leave out."""
    there = set(here)
    for draft, _ in known.drafts_for(target):
        if there & {repo.lower() for repo in draft.repositories}:
            continue
        said = tr("A smaller model that speaks the same tokens, with {share} of the parameters.")
        yield DraftCandidate(
            name=draft.name,
            verdict=Verdict.LIKELY,
            reason=said.format(share=_percent(draft.parameters / target.parameters)),
            repo=draft.gguf[0] if draft.gguf else draft.safetensors,
        )
    for head in known.heads_for(target):
        if head.repo.lower() in there:
            continue
        said = tr("A feature head ({kind}) that was published for {target}.")
        yield DraftCandidate(
            name=head.repo.rpartition("/")[2],
            verdict=Verdict.LIKELY,
            reason=said.format(kind=head.kind, target=target.name),
            repo=head.repo,
            head=True,
        )


class _Judge:
    """Tells of one model after the other whether it can draft for a target."""

    def __init__(
        self, target: LocalModel, vocabularies: Vocabularies, speedup: Speedup | None
    ) -> None:
        self._target, self._vocabularies, self._speedup = target, vocabularies, speedup

    def judged(self, model: KeptModel) -> DraftCandidate:
        """Return what speaks for or against a model as a draft."""
        said = DraftCandidate(
            name=model.name,
            verdict=Verdict.NO,
            reason=model.problem,
            path=model.path,
            repo=model.repo,
            nbytes=model.weight_bytes,
            head=model.head,
        )
        if model.problem:
            return said
        try:
            draft = LocalModel.inspect(model.path)
            return self._compared(said, draft)
        except UserFixable as error:
            return replace(said, reason=error.cause)
        except OSError:
            return replace(said, reason=tr("Its files cannot be read."))

    def _compared(self, said: DraftCandidate, draft: LocalModel) -> DraftCandidate:
        target = self._target
        if isinstance(target.config, DraftOnly):
            return replace(said, reason=tr("A draft head cannot answer, so nothing drafts for it."))
        if isinstance(draft.config, DraftOnly) and draft.config.is_head:
            return self._head(said, draft, draft.config, target.config)
        if isinstance(target.config, OtherConfig):
            return replace(said, reason=_runs_elsewhere(target.config, draft=False))
        if isinstance(draft.config, OtherConfig):
            return replace(said, reason=_runs_elsewhere(draft.config, draft=True))
        if isinstance(draft.config, DraftOnly):
            return self._reduced(said, draft, draft.config)
        share = weight_count(draft.config) / weight_count(target.config)
        if share >= 1:
            return replace(said, reason=tr("It is not smaller than the model that would answer."))
        compared = self._vocabularies.compare(target, draft)
        if not compared.same:
            return replace(said, reason=compared.words)
        size = tr("It has {share} of the parameters.").format(share=_percent(share))
        return self._fits(said, draft, sentences(compared.words, size))

    def _head(
        self,
        said: DraftCandidate,
        draft: LocalModel,
        head: DraftOnly,
        its: ModelConfig | OtherConfig,
    ) -> DraftCandidate:
        """Judge a feature head by the shapes of both; `its`: the target's config."""
        target = self._target
        config = head.for_target(its, draft.name, target.name)
        if isinstance(its, ModelConfig):
            draft.draft_weights(config, target.own_weights(its), its.tie_word_embeddings)
        words = tr("It is a feature head for models of this shape.")
        if head.target:
            words = tr("It is a feature head, made for {target}.").format(target=head.target)
        return self._fits(said, draft, words)

    def _reduced(
        self, said: DraftCandidate, draft: LocalModel, reduced: DraftOnly
    ) -> DraftCandidate:
        """Judge a stand-alone draft with few output rows by its target's fingerprint."""
        if reduced.vocabulary != fingerprint(tokens_of(self._target).ids):
            return replace(said, reason=tr("It has another vocabulary."))
        return self._fits(said, draft, tr("It has the same vocabulary."))

    def _fits(self, said: DraftCandidate, draft: LocalModel, reason: str) -> DraftCandidate:
        gain = self._speedup(self._target, draft) if self._speedup is not None else None
        return replace(said, verdict=Verdict.FITS, reason=reason, speedup=gain)


def _runs_elsewhere(config: OtherConfig, *, draft: bool) -> str:
    """Return why a model that transformers runs takes no part."""
    said = tr("“{family}” models run through the transformers library, where nothing can draft.")
    if draft:
        said = tr("Duotail has no decoder of its own for “{family}” models, so they cannot draft.")
    return said.format(family=config.family)


def _percent(share: float) -> str:
    return number(share, ".0%" if share >= 0.015 else ".1%")


def _rank(each: DraftCandidate) -> tuple[int, float, bool, int, str]:
    """Return the order: what fits first, the faster first; what does not fit by name."""
    gain = each.speedup or 0.0
    size = each.nbytes or 0 if each.verdict is Verdict.FITS else 0
    return (_ORDER.index(each.verdict), -gain, not each.head, size, each.name)
