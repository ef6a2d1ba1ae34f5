"""A run of decoder blocks in the native backend: one call per forward."""

from __future__ import annotations

import ctypes as c
import weakref
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.drafting import DraftCall
from engine.backend.native.library import (
    Block,
    Format,
    SegmentStruct,
    aligned,
    library,
    pointer,
    refusal,
)
from engine.backend.native.matrix import EMPTY, Packed, pack
from engine.backend.native.memory import WEIGHTS
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.backend.native.sampling import NativeDraws
from engine.backend.native.step import StepArrays
from engine.backend.native.verifying import VerifyCall
from engine.backend.segment import (
    DraftedTree,
    Draws,
    Floats,
    Ranking,
    SegmentCache,
    SegmentOutput,
    TreeBudget,
    Verified,
    Weights,
)
from engine.backend.step import Step
from engine.model.config import ModelConfig
from engine.model.rope import rotations

BLOCK = 32
KEPT_ROWS = 64
"""Forwards over more rows (prefill) get arrays of their own."""
_NAMES = {Format.Q4: "q4", Format.Q8: "q8", Format.BF16: "bf16", Format.F16: "f16"}


class NativeBackend:
    """Compiles native segments whose weights are held in one format."""

    def __init__(self, fmt: Format, pool: ThreadPool | None = None) -> None:
        self._format = fmt
        self._pool = pool or shared_pool()

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> NativeSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked."""
        return NativeSegment(
            config, weights, blocks, self._format, self._pool, embed=embed, head=head
        )


class NativeCache:
    """Keys and values of one sequence, fp16, owned by the library."""

    def __init__(self, segment: SegmentStruct, slots: int) -> None:
        self.handle: int = library().dt_cache_new(segment, slots)
        if not self.handle:
            raise MemoryError("no memory for keys and values")
        weakref.finalize(self, library().dt_cache_free, self.handle)

    @property
    def nbytes(self) -> int:
        """Bytes reserved; pages are touched as the sequence grows."""
        return int(library().dt_cache_bytes(self.handle))

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache."""
        if not isinstance(other, NativeCache):
            raise TypeError("the cache belongs to another backend")
        library().dt_cache_copy(self.handle, other.handle, slots)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ..."""
        if sources:
            slots = (c.c_int32 * len(sources))(*sources)
            library().dt_cache_move(self.handle, slots, len(slots), target)


class NativeSegment:
    """See `engine.backend.segment.Segment`."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        blocks: range,
        fmt: Format,
        pool: ThreadPool,
        *,
        embed: bool,
        head: bool,
    ) -> None:
        self._config, self._range, self._format, self._pool = config, blocks, fmt, pool
        WEIGHTS.begin()  # so that its memory goes back with it
        self._packed: list[Packed] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._rope: tuple[Floats, Floats] | None = None
        self._weights = weights
        self._blocks = (Block * len(blocks))(*(self._block(index) for index in blocks))
        self._struct = SegmentStruct(
            blocks=len(blocks),
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            norm_eps=config.rms_norm_eps,
            block=self._blocks,
            embedding=EMPTY,
            head=EMPTY,
        )
        if head:
            tied = config.tie_word_embeddings
            packed = self._pack("model.embed_tokens.weight" if tied else "lm_head.weight")
            self._struct.head = packed.struct
            self._struct.final_norm = self._vector("model.norm.weight", BLOCK)
            if embed and tied:
                self._struct.embedding = packed.struct
        if embed and not self._struct.embedding.data:
            self._struct.embedding = self._pack("model.embed_tokens.weight").struct
        del self._weights
        self._argument = c.byref(self._struct)
        self._arrays = self._new_arrays(KEPT_ROWS, KEPT_ROWS)
        self._draft_call: DraftCall | None = None
        self._verify_call: VerifyCall | None = None

    def _new_arrays(self, rows: int, logit_rows: int) -> StepArrays:
        vocab = self._config.vocab_size if self._struct.head.data else None
        return StepArrays(self._range, rows, self._config.hidden_size, logit_rows, vocab)

    def _block(self, index: int) -> Block:
        prefix = f"model.layers.{index}."
        qkv = [f"{prefix}self_attn.{part}_proj" for part in "qkv"]
        out, down = f"{prefix}self_attn.o_proj", f"{prefix}mlp.down_proj"
        gate_up = [f"{prefix}mlp.{part}_proj" for part in ("gate", "up")]
        config = self._config
        return Block(
            qkv=self._pack(*(f"{name}.weight" for name in qkv)).struct,
            out=self._pack(f"{out}.weight").struct,
            gate_up=self._pack(*(f"{name}.weight" for name in gate_up)).struct,
            down=self._pack(f"{down}.weight").struct,
            qkv_bias=self._bias(config.qkv_bias, *qkv),
            out_bias=self._bias(config.attention_out_bias, out),
            gate_up_bias=self._bias(config.mlp_bias, *gate_up),
            down_bias=self._bias(config.mlp_bias, down),
            input_norm=self._vector(f"{prefix}input_layernorm.weight", BLOCK),
            post_norm=self._vector(f"{prefix}post_attention_layernorm.weight", BLOCK),
        )

    def _pack(self, *names: str) -> Packed:
        packed = pack(self._pool, self._weights, names, self._format)
        self._packed.append(packed)
        return packed

    def _bias(self, present: bool, *names: str) -> int | None:
        return self._keep([self._weights.float32(f"{n}.bias") for n in names]) if present else None

    def _vector(self, name: str, multiple: int) -> int:
        vector = self._weights.float32(name)
        padding = np.zeros(-len(vector) % multiple, dtype=np.float32)
        return self._keep([vector, padding])

    def _keep(self, parts: Sequence[Floats]) -> int:
        joined = np.concatenate(parts)
        kept = aligned(len(joined), np.float32)
        kept[:] = joined
        self._vectors.append(kept)
        return kept.ctypes.data

    @property
    def struct(self) -> SegmentStruct:
        """Weights as the library sees them; valid while the segment lives."""
        return self._struct

    @property
    def blocks(self) -> range:
        """The decoder blocks it computes."""
        return self._range

    @property
    def device(self) -> str:
        """Device name for people."""
        return "CPU"

    @property
    def signature(self) -> str:
        """What the arithmetic depends on; the instruction set is not part of it."""
        return f"cpu:{_NAMES[self._format]}/kv-f16"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held."""
        arrays = [packed.data for packed in self._packed] + self._vectors
        return sum(array.nbytes for array in arrays)

    @property
    def mapped_bytes(self) -> int:
        """Those of them that lie in files."""
        return sum(packed.nbytes for packed in self._packed if packed.mapped)

    def new_cache(self, slots: int) -> NativeCache:
        """An empty cache with room for `slots` tokens."""
        if self._rope is None or slots > len(self._rope[0]):
            self._rope = rotations(self._config.rope, slots)
            self._struct.positions = slots
            self._struct.rope_cos, self._struct.rope_sin = map(pointer, self._rope)
        return NativeCache(self._struct, slots)

    def draft(
        self,
        cache: SegmentCache,
        committed: int,
        slots: int,
        pending: Sequence[int],
        ranking: Ranking,
        budget: TreeBudget,
    ) -> DraftedTree:
        """See `engine.backend.segment.TreeDrafting`."""
        if not isinstance(cache, NativeCache):
            raise TypeError("the cache belongs to another backend")
        if self._draft_call is None:
            self._draft_call = DraftCall(self._pool.handle, self._argument)
        return self._draft_call(cache.handle, committed, slots, pending, ranking, budget)

    def verify(
        self,
        cache: SegmentCache,
        committed: int,
        nodes: Sequence[int],
        parents: Sequence[int],
        draws: Draws,
        tokens: Sequence[int],
        *,
        limit: int,
        stop_ids: Collection[int],
    ) -> Verified:
        """See `engine.backend.segment.TreeVerifying`."""
        if not isinstance(cache, NativeCache) or not isinstance(draws, NativeDraws):
            raise TypeError("the cache or the draws belong to another backend")
        if self._verify_call is None:
            config = self._config
            size = config.hidden_size, config.vocab_size
            self._verify_call = VerifyCall(self._pool.handle, self._argument, *size)
        draws.ask(nodes, parents, tokens, limit=limit, stop_ids=stop_ids)
        return self._verify_call(cache.handle, committed, draws)

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward, one native call."""
        if not isinstance(cache, NativeCache):
            raise TypeError("the cache belongs to another backend")
        rows = len(step.tokens)
        arrays = self._arrays
        if rows > KEPT_ROWS:
            wanted = rows if step.logit_rows is None else len(step.logit_rows)
            arrays = self._new_arrays(rows, wanted)
        output = arrays.prepare(step, hidden)
        handles = self._pool.handle, self._argument, cache.handle
        if result := library().dt_forward_tree(*handles, *arrays.arguments):
            raise refusal(result)
        return output
