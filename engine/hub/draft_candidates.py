"""Which models can draft for a target: each one that is here or listed, with the reason.

Nothing is left out silently: who misses a draft in a list wants to know why it is not there. The
vocabularies of models on this disk are compared as loading does: every token with its id.
"""

from __future__ import annotations

import filecmp
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.advice import DraftCandidate, Verdict
from engine.hub.curated import Curated, CuratedModel, curated
from engine.hub.shelf.kept_model import KeptModel
from engine.language import number, sentences, tr, tr_count
from engine.model.config import ModelConfig
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState, real_path
from engine.model.other_family import OtherConfig
from engine.model.text.vocabulary.same_tokens import (
    TokenList,
    differing,
    fingerprint,
    most_odd,
)
from engine.plan.footprint import weight_count

_OTHER = 0.1
"""Share of all tokens: vocabularies that differ in more have little to do with each other."""


@dataclass(frozen=True, slots=True)
class VocabularyComparison:
    """Differences between the vocabularies of a draft and its target.

    Attributes:
        ours, theirs: tokens of the target and of the draft.
        different: tokens that one of them lacks or numbers in another way.
        control: those of them that control a conversation, as `<think>` does.
        example: one of them, a control token if there is any; "" where none differs.
    """

    ours: int
    theirs: int
    different: int = 0
    control: int = 0
    example: str = ""

    @property
    def same(self) -> bool:
        """Tell whether every token id means the same to both."""
        return not self.different

    @property
    def close(self) -> bool:
        """Tell whether so few differ that one model drafts for the other, but for those."""
        return self.different <= most_odd(self.ours, self.theirs)

    @property
    def unrelated(self) -> bool:
        """Tell whether the vocabularies have little in common."""
        return self.different > _OTHER * max(self.ours, self.theirs)

    @property
    def words(self) -> str:
        """Describe the differences in a sentence."""
        if self.same:
            return tr("It has the same vocabulary.")
        if self.unrelated:
            if self.ours != self.theirs:
                said = tr("It has another vocabulary: {theirs} tokens instead of {ours}.")
                return said.format(theirs=number(self.theirs, ",d"), ours=number(self.ours, ",d"))
            return tr("It has another vocabulary.")
        tokens = tr_count("{n} token", "{n} tokens", self.different)
        said = tr("Its vocabulary differs in {tokens}, such as “{example}”.")
        told = said.format(tokens=tokens, example=self.example[:40])
        return sentences(told, tr("It never drafts those.")) if self.close else told


def compared(target: TokenList, draft: TokenList) -> VocabularyComparison:
    """Compare two vocabularies, token by token."""
    odd = differing(target.ids, draft.ids)
    control = odd & (target.added | draft.added)
    example = min(control or odd, default="")
    return VocabularyComparison(len(target.ids), len(draft.ids), len(odd), len(control), example)


class Vocabularies:
    """Comparisons of models by their paths; each pair is read once, as long as its files stay.

    For one thread at a time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[FilesState, FilesState], VocabularyComparison] = {}
        self._last: tuple[FilesState, TokenList] | None = None

    def compare(self, target: LocalModel, draft: LocalModel) -> VocabularyComparison:
        """Compare the vocabularies of two models.

        Raises:
            UserFixable: one of the vocabularies cannot be read.
            OSError: the files are gone.
        """
        key = FilesState.of(real_path(target.path)), FilesState.of(real_path(draft.path))
        if key not in self._known:
            found = self._compare(key[0], target, draft)
            self._known[key] = found
        return self._known[key]

    def _compare(
        self, state: FilesState, target: LocalModel, draft: LocalModel
    ) -> VocabularyComparison:
        """Compare tokens; the target's are kept, since many drafts are compared with them."""
        if self._last is None or self._last[0] != state:
            self._last = state, target.tokens()
        ours = self._last[1]
        if _same_file(target, draft):
            return VocabularyComparison(len(ours.ids), len(ours.ids))
        found = compared(ours, draft.tokens())
        if found.same or found.unrelated:
            return found
        # Few differ: that may be a damaged file, in whose place a tokenizer takes another one.
        return compared(_as_loaded(target), _as_loaded(draft))

    def forget(self) -> None:
        """Give the last target's vocabulary back; results stay."""
        self._last = None


def _as_loaded(model: LocalModel) -> TokenList:
    tokenizer = model.tokenizer()
    return TokenList(tokenizer.vocabulary, frozenset(tokenizer.control_tokens))


def _same_file(one: LocalModel, other: LocalModel) -> bool:
    """Return whether both are folders with the same tokenizer.json, as siblings often are."""
    if one.gguf is not None or other.gguf is not None:
        return False
    files = [model.path / "tokenizer.json" for model in (one, other)]
    there = all(file.is_file() for file in files)
    return there and filecmp.cmp(files[0], files[1], shallow=False)


Speedup = Callable[[LocalModel, LocalModel], float | None]
"""Target and draft -> predicted tokens/s over those without a draft."""

_ORDER = (Verdict.FITS, Verdict.LIKELY, Verdict.NO)


def candidates(
    target: Path,
    kept: Iterable[KeptModel],
    vocabularies: Vocabularies,
    speedup: Speedup | None = None,
) -> list[DraftCandidate]:
    """Return every model and head that is here or published for the target; best first.

    Reads files: a second or so for every vocabulary that was not compared before.

    Args:
        target: what is to answer.
        kept: the models on this disk.
        vocabularies: what was compared before.
        speedup: predicts what a draft that fits brings.

    Raises:
        UserFixable: the target itself cannot be used.
        SeveralModels: it is a folder with more than one.
    """
    own = LocalModel.inspect(target)
    judge = _Judge(own, vocabularies, speedup)
    place = real_path(target)
    others = [model for model in kept if real_path(model.path) != place]
    found = [judge.judged(model) for model in others]
    listed = curated()
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
        said = tr("A smaller model with the same vocabulary and {share} of the parameters.")
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
            return replace(said, reason=tr("It is not smaller than the target."))
        compared = self._vocabularies.compare(target, draft)
        if not compared.close:
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
        if reduced.vocabulary != fingerprint(self._target.tokens().ids):
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
