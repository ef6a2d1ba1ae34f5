"""A whole model as one segment that runs on its class in the transformers library.

For families without a decoder of ours. It takes chains, not trees. How far a family can be trusted
to go on from what it has kept is tried out when it is loaded: some take one token at a time only,
some keep nothing.
"""

from __future__ import annotations

import copy
import inspect
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from enum import Enum
from math import prod
from pathlib import Path
from types import EllipsisType
from typing import Any

import numpy as np
import torch
import transformers
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from engine.backend.ledger import Account, Purpose, unlimited
from engine.backend.segment import Segment, SegmentCache, SegmentOutput, own_cache
from engine.backend.step import Step
from engine.errors import Cancelled, UserFixable
from engine.machine.cores import default_threads
from engine.model.other_family import OtherConfig, not_loadable
from engine.model.weights.readable import Floats, Readable
from engine.model.weights.stored import not_finite


class TransformersCache(SegmentCache):
    """Keys and values, or whatever else the family carries from token to token.

    A forward that is told of fewer tokens goes back by itself; nothing can be kept to go back to.
    `tokens` are those that it has taken in. `kept` is None where nothing can be carried.

    Args:
        empty: makes an empty cache of the family; None where nothing can be carried.
        slots: most tokens.
        per_token: bytes that each takes.
        account: where that is entered.
    """

    def __init__(
        self,
        empty: Callable[[], DynamicCache] | None,
        slots: int,
        per_token: int,
        account: Account,
    ) -> None:
        self._empty = empty
        self._nbytes = slots * per_token
        here = weakref.ref(self)
        entry = account.take(Purpose.KV, self._nbytes, lambda: _taken_in(here()) * per_token)
        entry.lasts_as_long_as(self)
        self.tokens: list[int] = []
        self.kept = empty() if empty else None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes at most."""
        return self._nbytes

    def reusable(self, slots: int) -> int:
        """Return how many of the first `slots` tokens it can go back to.

        Recurrent memory cannot go back: all of its tokens, or none.
        """
        return slots if slots == len(self.tokens) or self._can_go_back else 0

    def go_back(self, slots: int) -> list[int]:
        """Forget all tokens but the first `slots`; those to be taken in again for that."""
        before, self.tokens = self.tokens, self.tokens[:slots]
        if slots == len(before) or self.kept is None or self._empty is None:
            return []
        if self._can_go_back and slots:
            self.kept.crop(slots - len(before))
            return []
        self.kept = self._empty()
        again, self.tokens = self.tokens, []
        return again

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` tokens of another cache."""
        source = own_cache(other, TransformersCache)
        if source.reusable(slots) != slots:
            raise ValueError("the cache cannot go back to that token")
        self.tokens, self.kept = list(source.tokens), copy.deepcopy(source.kept)
        self.go_back(slots)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Do nothing: tokens come in chains and never move."""
        raise ValueError(f"{len(sources)} tokens cannot move to {target}: chains only")

    @property
    def _can_go_back(self) -> bool:
        """Tell whether every layer keeps each token's keys separately."""
        return self.kept is None or all(map(_can_go_back, self.kept.layers))


def _taken_in(cache: TransformersCache | None) -> int:
    """Tokens that it holds something for."""
    return 0 if cache is None or cache.kept is None else len(cache.tokens)


def _can_go_back(layer: object) -> bool:
    if isinstance(layer, DynamicSlidingWindowLayer):
        return layer.get_seq_length() < layer.sliding_window  # nothing has left it yet
    return type(layer) is DynamicLayer


def filled_model(
    folder: Path, config: OtherConfig, weights: Readable, names: Sequence[str], dtype: torch.dtype
) -> transformers.PreTrainedModel:
    """The model of a folder, ready to run.

    Nothing is fetched, and no code of the folder is executed.

    Raises:
        Cancelled: the reader was told to stop.
        UserFixable: the weights are damaged or do not fit.
    """
    logging: Any = transformers.utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    reader = _Reader(weights, dtype)
    try:
        described = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        model, report = getattr(transformers, config.architecture).from_pretrained(
            None,
            config=described,
            state_dict={name: _Tensor(reader, name) for name in names},
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except MemoryError:
        raise
    except Exception as error:
        details = "".join(traceback.format_exception(error))[-4000:]
        raise reader.trouble or not_loadable(config.family, details) from error
    if reader.trouble is not None:
        raise reader.trouble
    wrong = [*report["missing_keys"], *report["mismatched_keys"], *report["unexpected_keys"]]
    if wrong or report["error_msgs"]:
        raise not_loadable(config.family, str(report)[:2000])
    filled: transformers.PreTrainedModel = model.eval()
    return filled


class _Reader:
    """Reads one tensor at a time, whichever of transformers' threads asks.

    transformers goes on after an error, so the first one is kept and ends all that follows.
    """

    def __init__(self, weights: Readable, dtype: torch.dtype) -> None:
        self._weights, self._dtype = weights, dtype
        self._one_at_a_time = threading.Lock()
        self.trouble: Cancelled | UserFixable | None = None

    def read(self, name: str) -> torch.Tensor:
        with self._one_at_a_time:
            if self.trouble is not None:
                raise self.trouble
            try:
                return self._read(name)
            except (Cancelled, UserFixable) as error:
                self.trouble = error
                raise

    def _read(self, name: str) -> torch.Tensor:
        shape = self._weights.shape(name)
        if len(shape) != 2:
            return torch.from_numpy(self._weights.float32(name)).to(self._dtype)
        tensor, first = torch.empty(shape, dtype=self._dtype), 0
        for stretch in self._weights.stretches(name):
            bits = torch.from_numpy(stretch)
            part = bits.view(torch.bfloat16) if bits.dtype is torch.uint16 else bits
            if not torch.isfinite(part).all():
                raise not_finite(name)
            tensor[first : first + len(part)] = part
            first += len(part)
        return tensor


class _Tensor:
    """Stands for a tensor until it is read, as slices of safetensors do."""

    def __init__(self, reader: _Reader, name: str) -> None:
        self._reader, self._name = reader, name

    def __getitem__(self, _all: EllipsisType) -> torch.Tensor:
        return self._reader.read(self._name)


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
