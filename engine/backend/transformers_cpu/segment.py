"""A whole model as one segment that runs on its class in the transformers library.

It takes chains, not trees. How far a family can be trusted to go on from what it has kept is
tried out when it is loaded: some take one token at a time only, some keep nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from enum import Enum
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from engine.backend.ledger import Account, Purpose, unlimited
from engine.backend.native.pool import default_threads
from engine.backend.segment import Segment, SegmentCache, SegmentOutput, own_cache
from engine.backend.step import Step
from engine.backend.transformers_cpu.cache import TransformersCache
from engine.backend.transformers_cpu.weights import filled_model
from engine.model.other_family import OtherConfig
from engine.model.weights.readable import Floats, Readable

_CHUNK = 64
"""Tokens taken in at once where an earlier point of the sequence is computed again."""
_TRIAL = 12
"""Tokens of the trial: more than any convolution of these families looks back."""


class _Goes(Enum):
    """Ways in which a family can continue from a cache."""

    IN_CHUNKS = "in chunks"
    ONE_BY_ONE = "one by one"
    NOT = "not at all"


class TransformersSegment(Segment):
    """See `engine.backend.segment.Segment`; what it holds is entered in `account`."""

    def __init__(
        self, folder: Path, config: OtherConfig, weights: Readable, names: Sequence[str],
        dtype: torch.dtype, account: Account | None = None,
    ) -> None:  # fmt: skip
        super().__init__(range(1))  # all of them, whatever they are made of
        self._config, self._account = config, account or unlimited()
        numbers = sum(prod(weights.shape(name)) for name in names)
        entry = self._account.take(Purpose.WEIGHTS, numbers * dtype.itemsize)
        entry.lasts_as_long_as(self)
        self._model: Any = filled_model(folder, config, weights, names, dtype)
        accepted = inspect.signature(self._model.forward).parameters
        caches = [name for name in ("past_key_values", "cache_params") if name in accepted]
        self._keyword = caches[0] if caches else ""
        self._options = {"use_cache", "logits_to_keep"} & set(accepted)
        self._goes = self._tried() if caches else _Goes.NOT

    @property
    def device(self) -> str:
        """Device name for people."""
        return "CPU"

    @property
    def signature(self) -> str:
        """Everything that the arithmetic depends on, as far as it is in our hands."""
        kind = str(self._model.dtype).removeprefix("torch.")
        return f"transformers:{transformers.__version__}/{self._config.family}/{kind}"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held; tied ones count once."""
        held = [*self._model.parameters(), *self._model.buffers()]
        return sum({tensor.data_ptr(): tensor.nbytes for tensor in held}.values())

    def new_cache(self, slots: int) -> TransformersCache:
        """An empty cache; its memory is taken as the sequence grows."""
        per_token = self._config.kv_numbers_per_token * self._model.dtype.itemsize
        empty = None if self._goes is _Goes.NOT else self._empty
        return TransformersCache(empty, slots, per_token, self._account)

    @torch.inference_mode()
    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward over a chain behind the committed tokens."""
        kept = own_cache(cache, TransformersCache)
        if hidden is not None or step.taps or step.tree is not None:
            raise ValueError("this model takes chains of tokens only, and shows nothing inside")
        _use_all_cores()
        again = kept.go_back(step.first_slot)
        for start in range(0, len(again), _CHUNK):
            self._take_in(again[start : start + _CHUNK], kept, 1)
        rows = range(len(step.tokens)) if step.logit_rows is None else step.logit_rows
        logits = self._take_in(step.tokens, kept, len(step.tokens) - rows[0] if rows else 1)
        chosen = [row - (len(step.tokens) - len(logits)) for row in rows]
        nothing = np.zeros((len(step.tokens), 0), dtype=np.float32)
        return SegmentOutput(nothing, np.ascontiguousarray(logits[chosen]), {})

    def _take_in(self, tokens: Sequence[int], cache: TransformersCache, rows: int) -> Floats:
        """Put tokens behind those of the cache; logits of the last `rows` of them at least."""
        if self._goes is _Goes.NOT:
            cache.tokens += tokens
            return self._forward(cache.tokens, None, rows)[-rows:]
        whole = self._goes is _Goes.IN_CHUNKS or not cache.tokens
        pieces = [list(tokens)] if whole else [[token] for token in tokens]
        outputs: list[Floats] = []
        for piece in pieces:
            outputs.append(self._forward(piece, cache.kept, rows if whole else 1))
            cache.tokens += piece
        return outputs[0] if whole else np.concatenate(outputs)

    def _forward(self, tokens: Sequence[int], kept: object, rows: int) -> Floats:
        wishes = {"use_cache": kept is not None, "logits_to_keep": rows}
        options: dict[str, Any] = {name: wishes[name] for name in self._options}
        if kept is not None:
            options[self._keyword] = kept
        output = self._model(torch.tensor([tokens]), **options)
        logits: Floats = output.logits[0].float().numpy()
        return logits

    def _empty(self) -> transformers.DynamicCache:
        return transformers.DynamicCache(config=self._model.config)

    @torch.inference_mode()
    def _tried(self) -> _Goes:
        """Find how tokens can be computed in pieces with the results that they have at once."""
        tokens = [1 + token % (self._config.vocab_size - 1) for token in range(_TRIAL)]
        last = len(tokens) - 1
        rounding = torch.finfo(self._model.dtype).eps ** 0.5
        try:
            wanted = self._forward(tokens, None, 1)[-1]
            for goes, cuts in ((_Goes.IN_CHUNKS, (5, last)), (_Goes.ONE_BY_ONE, (last - 1, last))):
                kept = self._empty()
                for start, end in zip((0, *cuts), (*cuts, len(tokens)), strict=True):
                    found = self._forward(tokens[start:end], kept, 1)[-1]
                if np.abs(found - wanted).max() <= rounding * np.ptp(wanted):
                    return goes
        except Exception:  # noqa: BLE001 - whatever it makes of a cache, it does without one
            return _Goes.NOT
        return _Goes.NOT


def _use_all_cores() -> None:
    """Give torch its threads back, which our own path on torch takes from it."""
    threads = default_threads()
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
