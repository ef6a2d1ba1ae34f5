"""From a checked model to one that is ready to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from engine.backend.cpu import NATIVE_FORMATS, cpu_backend, threads_for
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.segment import Readable, Weights
from engine.checking import Checked, CheckedPair
from engine.commands import WeightFormat
from engine.decode.controller import Controller
from engine.draft.combined import CombinedDrafter
from engine.draft.drafter import Drafter
from engine.draft.lookup import LookupDrafter
from engine.draft.standalone import StandaloneDrafter
from engine.events import PlanSummary
from engine.language import tr
from engine.model.decoder import Decoder
from engine.model.other_family import OtherConfig
from engine.model.pool import StatePool
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.plan.planner import KV_SHARE
from engine.reading import ProgressingWeights, SameVocabulary

Progress = Callable[[str, float], None]

WORTH_KEEPING = 50 << 20
"""Bytes of packed weights from which on they are kept on disk; smaller models load in a moment."""


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


def load(checked: CheckedPair, progress: Progress, cancelled: Callable[[], bool]) -> LoadedPair:
    """Read the weights and build both decoders.

    Raises:
        Cancelled: the user stopped it; nothing stays in memory.
        UserFixable: damaged weights.
    """
    context = checked.plan.context
    build = _Builder(checked, progress, cancelled)
    target = build.decoder(checked.target, context)
    left = checked.memory_available - checked.plan.target_bytes - checked.plan.draft_bytes
    kv_budget = int(max(left, 0) * KV_SHARE)
    states = StatePool(target, context, kv_budget)
    own_bytes = target.weight_bytes - target.mapped_bytes
    drafters: list[Drafter] = [LookupDrafter()] if checked.lookup else []
    if checked.draft is not None:
        described = checked.draft.model
        draft_context = min(context, described.config.max_positions)
        model = build.decoder(checked.draft, draft_context)
        own_bytes += model.weight_bytes - model.mapped_bytes
        pool = StatePool(model, draft_context, kv_budget // 4)
        drafters.append(StandaloneDrafter(described.name, model, pool))
    progress(tr("Warming up"), 1.0)
    _warm_up(states)
    return LoadedPair(
        path=checked.command.model,
        name=checked.target.model.name,
        target=target,
        tokenizer=checked.tokenizer,
        template=checked.template,
        states=states,
        drafter=CombinedDrafter(drafters) if drafters else None,
        controller=Controller(forced=checked.forced),
        plan=replace(checked.plan, signature=target.signature),
        own_bytes=own_bytes,
    )


class _Builder:
    """Builds the decoders of one load, one after the other, with a common progress."""

    def __init__(
        self, checked: CheckedPair, progress: Progress, cancelled: Callable[[], bool]
    ) -> None:
        models = [checked.target, checked.draft] if checked.draft else [checked.target]
        self._total = max(sum(model.weights.nbytes for model in models), 1)
        self._before = 0
        self._vocabulary = checked.target.model.config.vocab_size
        self._threads = threads_for(checked.plan.target_bytes)  # of the pool that both share
        self._progress, self._cancelled = progress, cancelled

    def decoder(self, checked: Checked, context: int) -> Decoder:
        """Read one model's weights."""
        model, before = checked.model, self._before
        self._before += checked.weights.nbytes
        stage = tr("Loading {model}").format(model=model.name)

        def report(done: int) -> None:
            self._progress(stage, min((before + done) / self._total, 1.0))

        reader = ProgressingWeights(checked.weights, report, self._cancelled)
        if isinstance(model.config, OtherConfig):
            self._progress(tr("Preparing the transformers library"), 0.0)
            return _other_decoder(checked, model.config, reader)
        config = replace(model.config.for_context(context), vocab_size=self._vocabulary)
        weights = SameVocabulary(reader, self._vocabulary)
        with _cached(weights, checked, reader.skip) as cached:
            return Decoder.build(config, cached, cpu_backend(checked.format, self._threads))


def _other_decoder(checked: Checked, config: OtherConfig, weights: Readable) -> Decoder:
    """A model that runs through transformers; imports it, and torch."""
    import torch

    from engine.backend.transformers_cpu.segment import TransformersSegment

    dtype = torch.bfloat16 if checked.format is WeightFormat.BF16 else torch.float32
    names = checked.weights.names()
    return Decoder(config, [TransformersSegment(checked.model.path, config, weights, names, dtype)])


def _warm_up(states: StatePool) -> None:
    """One forward, so that the first answer does not pay for first touches."""
    state = states.take([0])
    states.decoder.forward(state, [0])
    state.discard()


def _cached(
    weights: Readable, checked: Checked, skip: Callable[[Sequence[str]], None]
) -> AbstractContextManager[Weights]:
    """The weights, with a cache on disk of what is quantised at load if that takes a while."""
    fmt = NATIVE_FORMATS.get(checked.format)
    nbytes = checked.facts.footprint.weight_bytes
    if fmt is None or nbytes < WORTH_KEEPING:
        return nullcontext(weights)
    return CachedWeights(weights, checked.weights.files, fmt, nbytes, skip=skip)
