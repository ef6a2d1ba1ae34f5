"""The simulated accelerator: native segments on one thread, which keep declared time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from engine.backend.cpu import NATIVE_FORMATS, native_is_built
from engine.backend.device import Device
from engine.backend.ledger import Account, Ledger, Purpose
from engine.backend.native.cache import NativeCache
from engine.backend.native.pool import CancelFlag, ThreadPool
from engine.backend.native.sampling import NativeDraws
from engine.backend.native.segment import NativeBackend, NativeSegment
from engine.backend.round import Drafted, DraftRequest, Verified, VerifyRequest
from engine.backend.segment import Segment, SegmentCache, SegmentOutput, features_are_own, own_cache
from engine.backend.shared import NO_LOAN, Loan
from engine.backend.simulated.processor import Processor, Work, work_of
from engine.backend.simulated.spec import (
    DEVICE,
    SimulatedSpec,
    simulated_accelerator,
    simulated_name,
)
from engine.backend.step import Step
from engine.commands import KvType, WeightFormat
from engine.errors import Absent
from engine.language import tr
from engine.machine.cores import default_threads
from engine.machine.facts import Accelerator
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats, Weights

_TOKEN, _NODE = 4, 16
"""Bytes that cross the link: a token's id; a drafted node's token, parent and score."""


class SimulatedBackend:
    """Compiles simulated segments.

    Args:
        backend: compiles the native ones inside.
        processor: what computes.
    """

    def __init__(self, backend: NativeBackend, processor: Processor) -> None:
        self._native, self._processor = backend, processor

    @property
    def kept(self) -> Mapping[Hashable, object]:
        """Matrices of the model compiled last."""
        return self._native.kept

    def compile(
        self, config: ModelConfig, weights: Weights, blocks: range, *, embed: bool, head: bool
    ) -> SimulatedSegment:
        """Build the segment `blocks`, with the embedding before and the head after it if asked."""
        self._processor.check()
        native = self._native.compile(config, weights, blocks, embed=embed, head=head)
        return SimulatedSegment(native, self._processor)


class SimulatedCache(SegmentCache):
    """Keys and values of one sequence on the device."""

    def __init__(self, native: NativeCache, work: Work, processor: Processor) -> None:
        self.native = native
        self._per_token, self._processor = work.kv_bytes, processor

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return self.native.nbytes

    @property
    def most_staged(self) -> int | None:
        """Nodes that may be staged at a time."""
        return self.native.most_staged

    def crop(self, slots: int) -> None:
        """Go back to the first `slots` slots."""
        self.native.crop(slots)

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of `nbytes` that snapshots take."""
        return self.native.snapshot_bytes

    def snapshot(self, slots: int, budget: int) -> None:
        """Keep what it takes to come back to this many slots."""
        self.native.snapshot(slots, budget)

    def reusable(self, slots: int) -> int:
        """Return how many of the first `slots` slots the native cache can go back to."""
        return self.native.reusable(slots)

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        """Take over the first `slots` slots of another cache."""
        with self._processor:
            self.native.copy_prefix(own_cache(other, SimulatedCache).native, slots)
            self._copies(slots)

    def move(self, sources: Sequence[int], target: int) -> None:
        """Copy the slots `sources` to target, target + 1, ..."""
        if self.nbytes:  # an embedding or a head alone keeps nothing
            with self._processor:
                self.native.move(sources, target)
                self._copies(len(sources))

    def _copies(self, slots: int) -> None:
        """Read and write so many slots."""
        processor = self._processor
        processor.computes(2 * slots * self._per_token / processor.speeds.read_bytes_per_s)


class SimulatedSegment(Segment):
    """See `engine.backend.segment.Segment`."""

    def __init__(self, native: NativeSegment, processor: Processor) -> None:
        super().__init__(native.blocks)
        self._native, self._processor = native, processor
        self._work = work_of(native.struct)
        self._products: dict[tuple[int, int, bool], float] = {}

    @property
    def signature(self) -> str:
        """Everything that the arithmetic depends on."""
        return f"sim:{self._native.signature.removeprefix('cpu:')}"

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held."""
        return self._native.weight_bytes

    @property
    def mapped_bytes(self) -> int:
        """Bytes of weights mapped from files."""
        return self._native.mapped_bytes

    @property
    def drafts(self) -> bool:
        """Tell whether `draft` is available; a whole model drafts in one call."""
        return True

    def new_cache(self, slots: int) -> SimulatedCache:
        """An empty cache with room for `slots` tokens."""
        self._processor.check()
        return SimulatedCache(self._native.new_cache(slots), self._work, self._processor)

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        """One forward; tokens or hidden states go in, hidden states or logits and taps come out.

        A feature head gets both, and gives both where logits are wanted.
        """
        rows, native = len(step.tokens), self._native
        own = features_are_own(native.config, hidden, rows)
        with self._processor as device:
            device.receives(self._given(rows, hidden))
            output = native.run(step, own_cache(cache, SimulatedCache).native, hidden)
            logits, head = output.logits, native.config.fusion is not None
            count = 0 if logits is None else len(logits)
            self._computes(rows, count, step.first_slot + rows, own=own)
            wants_hidden = logits is None or step.feeds or (head and count)
            results = [output.hidden] if wants_hidden else []
            results += [] if logits is None else [logits]
            for result in (*results, *output.taps.values()):
                if result.nbytes:
                    device.sends(result.nbytes)
        return output

    def draft(
        self,
        cache: SegmentCache,
        committed: int,
        slots: int,
        request: DraftRequest,
        cancel: CancelFlag | None = None,
    ) -> Drafted | None:
        """One call: only the tree comes back."""
        rows, features = len(request.pending), request.features
        with self._processor as device:
            device.receives(self._given(rows, features))
            kept = own_cache(cache, SimulatedCache).native
            drafted = self._native.draft(kept, committed, slots, request, cancel)
            if drafted is None:
                return None
            tokens = committed + rows
            self._computes(rows, 1, tokens)
            for level in _levels(drafted.staged_parents):
                tokens += level
                self._computes(level, level, tokens, own=features is not None)
            device.sends(_NODE * len(drafted.tree))
        return drafted

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
        """One call: the path and the draws come back, and what a head needs of all nodes."""
        native, rows = self._native, len(request.nodes)
        with self._processor as device:
            device.receives(_TOKEN * rows if hidden is None else hidden.nbytes)
            kept = own_cache(cache, SimulatedCache).native
            verified, output = native.verify(
                kept, committed, draws, request, hidden=hidden, taps=taps
            )
            self._computes(rows, rows, committed + rows)
            device.sends(_TOKEN * (len(verified.path) + len(verified.tokens)))
            if output is not None:
                for result in output.taps.values() if taps else (output.hidden,):
                    device.sends(result.nbytes)
        return verified, output

    def _given(self, rows: int, hidden: Floats | None) -> int:
        """Bytes that a forward gets."""
        tokens = _TOKEN * rows
        if hidden is None:
            return tokens
        return hidden.nbytes + (tokens if self._native.config.fusion else 0)

    def _computes(self, rows: int, logit_rows: int, tokens: int, *, own: bool = False) -> None:
        device, work = self._processor, self._work
        products = self._products.get((rows, logit_rows, own))
        if products is None:
            products = work.products(rows, logit_rows, device.speeds, own=own)
            self._products[rows, logit_rows, own] = products
        device.computes(products + work.attention(rows, tokens, device.speeds))


def _levels(parents: Sequence[int]) -> list[int]:
    """Count the nodes on each level below the root; a parent comes before its children."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    counts = Counter(depths)
    return [counts[depth] for depth in range(len(counts))]


class SimulatedDevice(Device):
    """See `engine.backend.device.Device`. Everything it holds goes with its models and itself.

    Its memory and its core are the host's: it shows how the modes work, and is no faster.

    Args:
        spec: what it declares.
        budget: most bytes that our process may hold on it; None: all of its memory.

    Attributes:
        processor: what computes: its turns, its clock, its copies.
    """

    def __init__(self, spec: SimulatedSpec, budget: int | None = None) -> None:
        self.spec = spec
        self.processor = Processor(spec)
        self._ceiling = spec.memory if budget is None else min(budget, spec.memory)
        self._others = 0
        ledger = Ledger(DEVICE, simulated_name(), self._ceiling)
        super().__init__(ledger, self.processor.transfers)
        declared = spec.runtime_bytes  # and nothing of it is really there
        self._runtime = self.ledger.take("device", Purpose.RUNTIME, declared, lambda: 0)

    @property
    def accelerator(self) -> Accelerator:
        """The device's current facts."""
        facts = simulated_accelerator(self.spec.memory)
        return replace(facts, memory_free=max(self.spec.memory - self._others, 0))

    def backend(
        self,
        weights: WeightFormat,
        owner: str,
        loan: Loan = NO_LOAN,
        kv: KvType = KvType.F16,
    ) -> SimulatedBackend:
        """Compiles segments whose allocations are entered for `owner`.

        Raises:
            Absent: the native library is not built, or torch's fp32 was asked for.
        """
        if weights is WeightFormat.F32 or not native_is_built():
            raise Absent(
                tr("The simulated GPU needs Duotail's native CPU backend."),
                tr("Choose a format other than f32; a C compiler builds the backend."),
            )
        account = Account(self.ledger, owner)
        native = NativeBackend(NATIVE_FORMATS.get(weights), ThreadPool(1), account, loan, kv)
        return SimulatedBackend(native, self.processor)

    def close(self) -> None:
        """Give all memory back; segments and caches must be dropped before."""
        self._runtime.release()

    def lose(self) -> None:
        """Vanish, as a card that is unplugged: every call raises `DeviceLost` from now on."""
        self.processor.lose()

    def take_by_others(self, nbytes: int) -> None:
        """Other programs take so much of its memory; a negative number gives it back."""
        self._others += nbytes
        self.ledger.budget = max(min(self._ceiling, self.spec.memory - self._others), 0)


def threads_beside_it() -> int:
    """Threads for the CPU where both compute at the same time: the device has a core of its own."""
    return max(default_threads() - 1, 1)
