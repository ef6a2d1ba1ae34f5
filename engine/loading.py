"""From a `Load` command to a model ready to answer.

Files are checked before anything large is allocated, so an unusable model costs nothing and the
one in memory can stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.backend.cpu import NATIVE_FORMATS, choose_format, cpu_backend, threads_for
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.segment import Floats, Readable, Stretch, Weights
from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.decode.controller import Controller
from engine.draft.combined import CombinedDrafter
from engine.draft.drafter import Drafter
from engine.draft.lookup import LookupDrafter
from engine.draft.standalone import StandaloneDrafter
from engine.errors import Cancelled, NotPossible, UserFixable
from engine.events import PlanSummary
from engine.hub.local import ModelFolder
from engine.language import tr
from engine.model.chat_template import ChatTemplate
from engine.model.decoder import Decoder
from engine.model.model_weights import ModelWeights
from engine.model.pool import StatePool
from engine.model.tensors import EMBEDDING, HEAD
from engine.model.tokenizer import Tokenizer
from engine.plan.footprint import footprint, weight_count
from engine.plan.planner import KV_SHARE, ModelFacts, Wish, plan

Progress = Callable[[str, float], None]

WORTH_KEEPING = 50 << 20
"""Bytes of packed weights from which on they are kept on disk; smaller models load in a moment."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A model whose files are known to be usable, nothing large in memory yet."""

    folder: ModelFolder
    weights: ModelWeights
    format: WeightFormat

    @property
    def facts(self) -> ModelFacts:
        """What the planner wants to know."""
        config = self.folder.config
        return ModelFacts(self.folder.name, footprint(config, self.format), config.max_positions)


@dataclass(frozen=True, slots=True)
class CheckedPair:
    """Target and draft, checked and planned."""

    command: Load
    target: Checked
    draft: Checked | None
    lookup: bool
    forced: bool
    tokenizer: Tokenizer
    template: ChatTemplate
    plan: PlanSummary
    memory_available: int

    @property
    def nbytes(self) -> int:
        """Memory that the loaded pair will take."""
        return self.plan.target_bytes + self.plan.draft_bytes + self.plan.kv_bytes


@dataclass(slots=True)
class LoadedPair:
    """Everything an answer needs; `own_bytes` of weights lie in memory of this process alone."""

    path: Path
    name: str
    target: Decoder
    tokenizer: Tokenizer
    template: ChatTemplate
    states: StatePool
    drafter: Drafter | None
    controller: Controller
    plan: PlanSummary
    own_bytes: int

    @property
    def nbytes(self) -> int:
        """Memory that comes back when the pair goes.

        Weights mapped from a file are not in it: the system counts their memory as available.
        """
        return self.own_bytes + self.states.nbytes


def check(command: Load, memory_available: int) -> CheckedPair:
    """Read and check all files but the weights themselves, and plan.

    Args:
        command: what to load.
        memory_available: bytes free once the present model is gone.

    Raises:
        UserFixable: in words for the user.
    """
    try:
        return _check(command, memory_available)
    except OSError as error:  # a folder one may not look into, a drive that is gone
        raise UserFixable(
            tr("The model's files cannot be read."),
            tr("Check that the drive is connected and that you may read the folder."),
            str(error),
        ) from error


def _check(command: Load, memory_available: int) -> CheckedPair:
    target = _check_model(command.model, command.weights)
    tokenizer = Tokenizer.open(target.folder.path)
    template = ChatTemplate.open(target.folder.path)
    wish_draft = command.draft
    if command.mode is Mode.PLAIN or wish_draft is DraftChoice.NONE:
        draft, lookup = None, False
    else:
        draft = _draft_of(target, wish_draft)
        lookup = wish_draft in (DraftChoice.AUTO, DraftChoice.LOOKUP)
    if draft is not None:
        _check_vocabulary(target, tokenizer, draft)
    forced = command.mode is Mode.CPU or wish_draft is not DraftChoice.AUTO
    wish = Wish(command.mode, command.context, lookup, forced)
    facts = draft.facts if draft else None
    summary = plan(target.facts, facts, wish, memory_available, signature="")
    summary = replace(summary, can_think=template.can_think)
    return CheckedPair(
        command=command,
        target=target,
        draft=draft,
        lookup=lookup,
        forced=forced,
        tokenizer=tokenizer,
        template=template,
        plan=summary,
        memory_available=memory_available,
    )


def load(checked: CheckedPair, progress: Progress, cancelled: Callable[[], bool]) -> LoadedPair:
    """Read the weights and build both decoders.

    Raises:
        Cancelled: the user stopped it; nothing stays in memory.
        UserFixable: damaged weights.
    """
    context = checked.plan.context
    sizes = [checked.target.weights.nbytes, checked.draft.weights.nbytes if checked.draft else 0]
    total = max(sum(sizes), 1)

    vocab = checked.target.folder.config.vocab_size
    threads = threads_for(checked.plan.target_bytes)  # of the pool that both models share

    def build(model: Checked, before: int) -> Decoder:
        stage = tr("Loading {model}").format(model=model.folder.name)
        reader = _ProgressingWeights(
            model.weights, lambda done: progress(stage, (before + done) / total), cancelled
        )
        config = replace(model.folder.config, vocab_size=vocab)
        with _cached(_SameVocabulary(reader, vocab), model, reader.skip) as weights:
            return Decoder.build(config, weights, cpu_backend(model.format, threads))

    target = build(checked.target, 0)
    left = checked.memory_available - checked.plan.target_bytes - checked.plan.draft_bytes
    kv_budget = int(max(left, 0) * KV_SHARE)
    states = StatePool(target, context, kv_budget)
    own_bytes = target.weight_bytes - target.mapped_bytes
    drafters: list[Drafter] = [LookupDrafter()] if checked.lookup else []
    if checked.draft is not None:
        model = build(checked.draft, sizes[0])
        own_bytes += model.weight_bytes - model.mapped_bytes
        draft_context = min(context, checked.draft.folder.config.max_positions)
        pool = StatePool(model, draft_context, kv_budget // 4)
        drafters.append(StandaloneDrafter(checked.draft.folder.name, model, pool))
    progress(tr("Warming up"), 1.0)
    _warm_up(states)
    return LoadedPair(
        path=checked.command.model,
        name=checked.target.folder.name,
        target=target,
        tokenizer=checked.tokenizer,
        template=checked.template,
        states=states,
        drafter=CombinedDrafter(drafters) if drafters else None,
        controller=Controller(forced=checked.forced),
        plan=replace(checked.plan, signature=target.signature),
        own_bytes=own_bytes,
    )


def _check_model(path: Path, weights: WeightFormat = WeightFormat.AUTO) -> Checked:
    folder = ModelFolder.inspect(path)
    chosen = choose_format(weights, weight_count(folder.config))
    return Checked(folder, ModelWeights.of_folder(folder.config, folder.path), chosen)


def _draft_of(target: Checked, choice: Path | DraftChoice) -> Checked | None:
    if choice is DraftChoice.LOOKUP:
        return None
    if isinstance(choice, Path):
        return _check_model(choice)
    return _check_model(target.folder.draft) if target.folder.draft else None


def _check_vocabulary(target: Checked, tokenizer: Tokenizer, draft: Checked) -> None:
    """A stand-alone draft must speak the target's tokens."""
    theirs = Tokenizer.open(draft.folder.path)
    if tokenizer.vocabulary == theirs.vocabulary:
        return
    raise NotPossible(
        tr("{draft} cannot draft for {target}: the two models have different vocabularies.").format(
            draft=draft.folder.name, target=target.folder.name
        ),
        tr("Choose a draft of the same model family, or the lookup draft."),
    )


def _warm_up(states: StatePool) -> None:
    """One forward, so that the first answer does not pay for first touches."""
    state = states.take([0])
    states.decoder.forward(state, [0])
    state.discard()


def _cached(
    weights: Readable, model: Checked, skip: Callable[[Sequence[str]], None]
) -> AbstractContextManager[Weights]:
    """The weights, with a cache on disk of what is quantised at load if that takes a while."""
    fmt = NATIVE_FORMATS.get(model.format)
    nbytes = model.facts.footprint.weight_bytes
    if fmt is None or nbytes < WORTH_KEEPING:
        return nullcontext(weights)
    return CachedWeights(weights, model.weights.files, fmt, nbytes, skip=skip)


class _SameVocabulary:
    """Weights with as many rows for tokens as the target has.

    Models of one family share a tokenizer and round its size up in different ways (Qwen2.5: 151936
    rows up to 3B, 152064 from 7B on). The rows in question belong to no token.
    """

    def __init__(self, weights: Readable, rows: int) -> None:
        self._weights = weights
        self._rows = rows

    def float32(self, name: str) -> Floats:
        tensor = self._weights.float32(name)
        if not self._differs(name):
            return tensor
        missing = max(self._rows - len(tensor), 0)
        return np.pad(tensor[: self._rows], ((0, missing), (0, 0)))

    def shape(self, name: str) -> tuple[int, ...]:
        shape = self._weights.shape(name)
        return (self._rows, *shape[1:]) if self._differs(name) else shape

    def kind(self, name: str) -> str:
        return "F32" if self._differs(name) else self._weights.kind(name)

    def stretches(self, name: str) -> Iterator[Stretch]:
        if self._differs(name):
            yield self.float32(name)
        else:
            yield from self._weights.stretches(name)

    def _differs(self, name: str) -> bool:
        return name in (EMBEDDING, HEAD) and self._weights.shape(name)[0] != self._rows


class _ProgressingWeights:
    """Weights that report how many bytes were read and obey a cancellation in between."""

    def __init__(
        self,
        weights: ModelWeights,
        report: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._weights = weights
        self._report = report
        self._cancelled = cancelled
        self._done = 0

    def float32(self, name: str) -> Floats:
        tensor = self._weights.float32(name, check_finite=True)
        self._advance(self._weights.stored_bytes(name))
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        return self._weights.shape(name)

    def kind(self, name: str) -> str:
        return self._weights.kind(name)

    def stretches(self, name: str) -> Iterator[Stretch]:
        for part in self._weights.stretches(name):
            yield part
            self._advance(part.nbytes)

    def skip(self, names: Sequence[str]) -> None:
        """These are there without being read."""
        self._advance(sum(self._weights.stored_bytes(name) for name in names))

    def _advance(self, nbytes: int) -> None:
        if self._cancelled():
            raise Cancelled
        self._done += nbytes
        self._report(self._done)
