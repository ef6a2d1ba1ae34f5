"""Decoder blocks in the native backend: one call per forward, of one sequence or of several."""

from __future__ import annotations

import ctypes as c
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.backend.ledger import Account, unlimited
from engine.backend.native.blocks import BlockPacker, pack_fusion
from engine.backend.native.cache import NativeCache
from engine.backend.native.calls import DraftCall, ExpandCall, StepArrays
from engine.backend.native.library import (
    Activation,
    BlockStruct,
    Format,
    NativeKv,
    SegmentStruct,
    library,
    refusal,
)
from engine.backend.native.matrix import EMPTY, Packed
from engine.backend.native.pool import CancelFlag, ThreadPool, shared_pool
from engine.backend.native.sampling import NativeDraws
from engine.backend.native.workspace import PREFILL_ROWS, ROWS, ForwardScratch, RopeTables
from engine.backend.round import (
    Drafted,
    DraftRequest,
    Expanded,
    Ranking,
    Verified,
    VerifyRequest,
)
from engine.backend.segment import (
    Segment,
    SegmentCache,
    SegmentOutput,
    check_head,
    features_are_own,
    own_cache,
)
from engine.backend.shared import NO_LOAN, Loan, Shared
from engine.backend.step import Step
from engine.commands import KvType
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING, FINAL_NORM, HEAD, HEAD_IDS, segment_tensors
from engine.model.weights.readable import Floats, Weights


class NativeBackend:
    """Compiles native segments.

    Args:
        fmt: of all matrices; None leaves every matrix as it is stored.
        pool: the threads that compute.
        account: where everything is entered that its segments and their caches hold.
        loan: what a feature head has of its target.
        kv: type of keys and values.
    """

    def __init__(
        self,
        fmt: Format | None,
        pool: ThreadPool | None = None,
        account: Account | None = None,
        loan: Loan = NO_LOAN,
        kv: KvType = KvType.F16,
    ) -> None:
        self._format, self._loan, self._kv = fmt, loan, kv
        self._pool = pool or shared_pool()
        self._account = account or unlimited()
        self._shared: Shared[Packed] = Shared()

    @property
    def kept(self) -> Mapping[Hashable, Packed]:
        """The matrices of the model compiled last, by their names and format."""
        return self._shared.kept

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> NativeSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked."""
        packer = BlockPacker(
            config, weights, self._format, self._pool, self._account, self._shared, self._loan
        )
        return NativeSegment(
            config, packer, blocks, self._pool, self._account, self._kv, embed=embed, head=head
        )


class NativeSegment(Segment):
    """See `engine.backend.segment.Segment`."""

    def __init__(
        self,
        config: ModelConfig,
        packer: BlockPacker,
        blocks: range,
        pool: ThreadPool,
        account: Account,
        kv: KvType,
        *,
        embed: bool,
        head: bool,
    ) -> None:
        check_head(config, blocks, embed=embed, head=head)
        super().__init__(blocks)
        self._kv = kv
        self._config, self._pool, self._account = config, pool, account
        self._packed, self._vectors, self._experts = packer.packed, packer.vectors, packer.experts
        self._borrowed = packer.borrowed
        self._structs = (BlockStruct * len(blocks))(*map(packer.block, blocks))
        self._ropes = RopeTables(packer.ropes, account)
        self._struct = SegmentStruct(
            blocks=len(blocks),
            hidden=config.hidden_size,
            activation=Activation[config.activation.upper()],
            kv_type=NativeKv[kv.name],
            norm_eps=config.rms_norm_eps,
            attention_softcap=config.attention_softcap,
            logit_softcap=config.logit_softcap,
            embedding_scale=config.embedding_scale,
            block=self._structs,
            rope=self._ropes.struct,
            embedding=EMPTY,
            head=EMPTY,
        )
        if head:
            self._struct.head = packer.matrix(EMBEDDING if config.tie_word_embeddings else HEAD)
            if FINAL_NORM in segment_tensors(config, blocks, embed=embed, head=head):
                self._struct.final_norm = packer.vector(FINAL_NORM)
        if head and config.rows is not None:
            self._struct.ids = packer.token_ids(HEAD_IDS)
        if embed:
            tied = head and config.tie_word_embeddings
            self._struct.embedding = self._struct.head if tied else packer.matrix(EMBEDDING)
        if config.fusion is not None:
            self._fusion = pack_fusion(config.fusion, packer)
            self._struct.fusion = c.pointer(self._fusion)
        self._argument = c.byref(self._struct)
        self._scratch = ForwardScratch(self._struct, account)
        self._arrays = self._new_arrays(PREFILL_ROWS, ROWS)
        self._draft_call: DraftCall | None = None
        self._expand_call = ExpandCall(pool.handle, self._argument)

    def _new_arrays(self, rows: int, logit_rows: int) -> StepArrays:
        vocab = self._config.head_rows if self._struct.head.data else None
        return StepArrays(self._config, self.blocks, rows, logit_rows, vocab, self._account)

    @property
    def config(self) -> ModelConfig:
        """Config of the model that it is a part of."""
        return self._config

    @property
    def struct(self) -> SegmentStruct:
        """Weights as the library sees them; valid while the segment lives."""
        return self._struct

    @property
    def signature(self) -> str:
        """Everything that the arithmetic depends on; the instruction set is not part of it."""
        formats = sorted({packed.struct.format for packed in self._packed})
        return f"cpu:{'+'.join(Format(fmt).name.lower() for fmt in formats)}/kv-{self._kv}"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held, but for what an earlier segment holds already."""
        held = sum(packed.nbytes for packed in self._packed)
        held += sum(vector.nbytes for vector in self._vectors)
        return held - sum(packed.nbytes for packed in self._borrowed)

    @property
    def mapped_bytes(self) -> int:
        """Bytes of weights mapped from files."""
        mapped = sum(packed.nbytes for packed in self._packed if packed.mapped)
        return mapped - sum(packed.nbytes for packed in self._borrowed if packed.mapped)

    @property
    def drafts(self) -> bool:
        """Tell whether `draft` is available; a whole model drafts in one call."""
        return True

    @property
    def expands(self) -> bool:
        """Tell whether `expand` is available: it is."""
        return True

    def new_cache(self, slots: int) -> NativeCache:
        """An empty cache with room for `slots` tokens."""
        self._ropes.reach(slots)
        return NativeCache(self._struct, slots, self._pool, self._account)

    def draft(
        self,
        cache: SegmentCache,
        committed: int,
        slots: int,
        request: DraftRequest,
        cancel: CancelFlag | None = None,
    ) -> Drafted | None:
        """See `engine.backend.segment.Segment`."""
        handle = own_cache(cache, NativeCache).handle
        features, rows = request.features, len(request.pending)
        if features_are_own(self._config, features, rows):
            raise ValueError("drafting begins with the target's features")
        if features is not None:
            features = np.ascontiguousarray(features, dtype=np.float32)
            request = replace(request, features=features)
        if self._draft_call is None:
            self._draft_call = DraftCall(self._pool.handle, self._argument, self._account)
        self._scratch.use(max(rows, request.budget.width))
        return self._draft_call(handle, committed, slots, request, cancel)

    def verify(
        self,
        cache: SegmentCache,
        committed: int,
        draws: NativeDraws,
        request: VerifyRequest,
        *,
        hidden: Floats | None = None,
        taps: tuple[int, ...] | None = None,
    ) -> tuple[Verified, SegmentOutput | None]:
        """See `engine.backend.segment.Segment`; one native call."""
        handle, arrays = own_cache(cache, NativeCache).handle, self._room_for(len(request.nodes))
        if arrays.logits_at is None:
            raise ValueError("the last segment has no head")
        draws.ask(request, arrays.logits_at)
        found = arrays.prepare_tree(draws.asked, taps or (), hidden, request.cancel)
        handles = self._pool.handle, self._argument, handle
        result = library().dt_verify_tree(
            *handles, arrays.step, committed, draws.handle, draws.argument
        )
        verified = draws.answer(result)
        return verified, None if taps is None else replace(found, logits=None)

    def expand(
        self,
        step: Step,
        cache: SegmentCache,
        ranking: Ranking,
        width: int,
        features: Floats | None = None,
    ) -> Expanded | None:
        """See `engine.backend.segment.Segment`."""
        handle = own_cache(cache, NativeCache).handle
        if features is not None:
            features = np.ascontiguousarray(features, dtype=np.float32)
        arrays = self._room_for(len(step.tokens), step.logit_rows)
        outputs = arrays.prepare(step, features).hidden
        found = self._expand_call(handle, arrays.arguments, step, ranking, width)
        return None if found is None else Expanded(found, outputs)

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward, one native call."""
        handle = own_cache(cache, NativeCache).handle
        if hidden is not None:
            hidden = np.ascontiguousarray(hidden, dtype=np.float32)
        arrays = self._room_for(len(step.tokens), step.logit_rows)
        output = arrays.prepare(step, hidden)
        handles = self._pool.handle, self._argument, handle
        if result := library().dt_forward_tree(*handles, *arrays.arguments):
            raise refusal(result)
        return output

    def forward_rows(self, cache: NativeCache, step: object, rows: int) -> int:
        """A forward whose rows say themselves where they lie; `step`: a reference to a dt_step."""
        self._scratch.use(rows)
        found: int = library().dt_forward(self._pool.handle, self._argument, cache.handle, step)
        return found

    def _room_for(self, rows: int, logit_rows: Sequence[int] | None = None) -> StepArrays:
        """Room for a forward's arguments and results; None: with the logits of all rows."""
        self._scratch.use(rows)
        wanted = rows if logit_rows is None else len(logit_rows)
        if rows > PREFILL_ROWS or wanted > ROWS:
            return self._new_arrays(rows, wanted)
        return self._arrays
