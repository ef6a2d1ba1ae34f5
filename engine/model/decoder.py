"""Decoder: embedding, segments and head as one forward over one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backend.segment import Backend, Floats, Segment, Weights
from engine.model.config import ModelConfig
from engine.model.sequence import SequenceState

MAX_TREE = 64
"""Most nodes a state can stage behind a full context."""


@dataclass(frozen=True, slots=True)
class Forward:
    """What a forward over n tokens gives, valid until the decoder's next forward.

    Attributes:
        hidden: fp32 [n, d], after the final norm (the "feature" of Dovetail's draft).
        logits: fp32 [m, vocab] for the asked rows.
        taps: block index -> fp32 [n, d], that block's output.
    """

    hidden: Floats
    logits: Floats
    taps: dict[int, Floats]


class Decoder:
    """A dense decoder-only model, split into segments that may lie on different devices."""

    def __init__(self, config: ModelConfig, segments: Sequence[Segment]) -> None:
        self.config = config
        self.segments = tuple(segments)

    @classmethod
    def build(cls, config: ModelConfig, weights: Weights, backend: Backend) -> Decoder:
        """The whole model as a single segment of one backend."""
        blocks = range(config.num_layers)
        return cls(config, [backend.compile(config, weights, blocks, embed=True, head=True)])

    @property
    def signature(self) -> str:
        """Numeric signature: the text is a function of it, the ids, the sampler and the seed."""
        return "+".join(dict.fromkeys(segment.signature for segment in self.segments))

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held on all devices."""
        return sum(segment.weight_bytes for segment in self.segments)

    def new_state(self, context: int) -> SequenceState:
        """An empty sequence with room for `context` committed tokens and a tree behind them."""
        caches = [segment.new_cache(context + MAX_TREE) for segment in self.segments]
        return SequenceState(caches, context, MAX_TREE)

    def forward(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        logit_rows: Sequence[int] | None = None,
        taps: tuple[int, ...] = (),
    ) -> Forward:
        """Stage n tokens behind what is staged in `state` and compute them; see `stage`."""
        step = state.stage(tokens, parents, logit_rows=logit_rows, taps=taps)
        hidden: Floats | None = None
        logits: Floats | None = None
        tapped: dict[int, Floats] = {}
        for segment, cache in zip(self.segments, state.caches, strict=True):
            output = segment.run(step, cache, hidden)
            hidden, logits = output.hidden, output.logits
            tapped.update(output.taps)
        if hidden is None or logits is None:
            raise ValueError("the last segment has no head")
        return Forward(hidden, logits, tapped)
