"""A segment's native calls: their arguments and results, at addresses that stay."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account
from engine.backend.native.library import (
    CANCELLED,
    DraftingStruct,
    SamplingStruct,
    StepStruct,
    library,
    pointer,
    refusal,
)
from engine.backend.native.memory import reserve, reserve_rows
from engine.backend.native.pool import CancelFlag
from engine.backend.native.sampling import MOST_WIDTH, NativeDraws
from engine.backend.native.workspace import DEPTH, PENDING, ROWS, VERIFIED_ROWS, WIDTH, TapRows
from engine.backend.round import Candidates, Drafted, DraftRequest, Ranking, Verified
from engine.backend.segment import SegmentOutput, features_are_own
from engine.backend.step import Step
from engine.backend.tree import TokenTree
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats


class StepArrays:
    """Arguments and results of a segment's forwards; memory is touched as far as it is used.

    Args:
        config: of the model.
        blocks: the segment's blocks.
        rows: most rows of a forward.
        logit_rows: most rows whose logits are wanted.
        vocab: width of the logits; None for a segment without a head.
        account: where they are entered.
    """

    def __init__(
        self,
        config: ModelConfig,
        blocks: range,
        rows: int,
        logit_rows: int,
        vocab: int | None,
        account: Account,
    ) -> None:
        width = config.hidden_size
        self._config, self._rows = config, rows
        self._taps = TapRows(blocks, width, account)
        ints: NDArray[np.int32] = np.zeros((3, rows), dtype=np.int32)
        self._tokens, self._some_rows, self._all_rows = ints
        self._all_rows[:] = range(rows)
        self._which_rows = pointer(self._some_rows), pointer(self._all_rows)
        self._hidden_rows, self._hidden = reserve_rows(account, rows, width)
        self._logits: Floats | None = None
        if vocab is not None:
            self._logits_rows, self._logits = reserve_rows(account, logit_rows, vocab)
        self._struct = StepStruct(
            tokens=pointer(self._tokens),
            hidden_out=pointer(self._hidden),
            logits=pointer(self._logits),
        )
        self._argument = c.byref(self._struct)
        self._reserve_parents(rows)

    def _reserve_parents(self, nodes: int) -> None:
        self._parents = np.zeros(nodes, dtype=np.int32)
        self._parents_at = pointer(self._parents)

    def prepare(
        self, step: Step, hidden: Floats | None, cancel: CancelFlag | None = None
    ) -> SegmentOutput:
        """Put the arguments in place; what is returned is filled by the native call.

        `hidden` and `cancel`, which gives the forward up, have to stay alive until then.

        Raises:
            ValueError: a feature head was not given the features of its rows.
        """
        rows, nodes, native = len(step.tokens), len(step.parents), self._struct
        if nodes > len(self._parents):
            self._reserve_parents(nodes)
        self._hidden_rows.extend(rows)
        if self._config.fusion is not None:
            native.own = features_are_own(self._config, hidden, rows)
        if hidden is None or self._config.fusion is not None:
            self._tokens[:rows] = step.tokens
        self._parents[:nodes] = step.parents
        native.rows, native.hidden_in = rows, pointer(hidden)
        native.cancel = None if cancel is None else cancel.address
        logits = None if self._logits is None else self._logits[: self._prepare_logits(step)]
        taps = self._taps.prepare(native, step.taps, rows, self._rows)
        self.arguments = self._argument, step.committed, nodes - rows, self._parents_at
        """What dt_forward_tree takes after the cache."""
        return SegmentOutput(self._hidden[:rows], logits, taps)

    def _prepare_logits(self, step: Step) -> int:
        some, every = self._which_rows
        if step.logit_rows is None:
            count, self._struct.logit_rows = len(step.tokens), every
        else:
            count, self._struct.logit_rows = len(step.logit_rows), some
            self._some_rows[:count] = step.logit_rows
        self._struct.logit_count = count
        self._logits_rows.extend(count)
        return count


class _RankingArgument:
    """How candidates rank, as the library is told; written anew for another ranking only."""

    def __init__(self) -> None:
        self._struct, self._ranking = SamplingStruct(), Ranking(0.0, 0, share_noise=False)
        self._reference = c.byref(self._struct)

    def told(self, ranking: Ranking) -> Any:  # noqa: ANN401 (ctypes has no name for it)
        """Return a reference to the structure, which says this ranking."""
        if ranking is not self._ranking:
            self._ranking, struct = ranking, self._struct
            struct.temperature, struct.seed = ranking.temperature, ranking.seed
            struct.share_noise, struct.shift = ranking.share_noise, ranking.shift
        return self._reference


class DraftCall:
    """dt_draft for one segment.

    Args:
        pool: handle of the thread pool.
        segment: a reference to the segment's structure.
        account: where its memory is entered.
    """

    def __init__(self, pool: int, segment: Any, account: Account) -> None:  # noqa: ANN401 (ctypes has no name for it)
        self._account = account
        self._ranking, self._struct = _RankingArgument(), DraftingStruct()
        self._before = pool, segment
        self._call = c.byref(self._struct)
        self._scratch: NDArray[np.uint8] | None = None
        self._reserve(64, 64, 64)

    def __call__(
        self,
        cache: int,
        committed: int,
        slots: int,
        request: DraftRequest,
        cancel: CancelFlag | None = None,
    ) -> Drafted | None:
        """See `engine.backend.segment.Segment.draft`; `cache` is a handle."""
        pending, budget = request.pending, request.budget
        count, nodes, depth, width = len(pending), budget.nodes, budget.depth, budget.width
        room = self._room
        if count > room[0] or nodes > room[1] or (depth - 1) * width > room[2]:
            self._reserve(count, nodes, (depth - 1) * width)
        native = self._struct
        native.committed, native.pending, native.slots = committed, count, slots
        native.nodes, native.depth, native.width = nodes, depth, width
        native.floor, native.cancel = budget.floor, None if cancel is None else cancel.address
        native.features = pointer(request.features)
        self._tokens[:count] = list(pending)
        told, scratch = self._ranking.told(request.ranking), self._room_to_work()
        result = library().dt_draft(*self._before, cache, told, scratch, self._call)
        if result == CANCELLED:
            return None
        if result:
            raise refusal(result)
        nodes, staged = native.tree_nodes, native.staged
        tree = TokenTree(
            tuple(self._tree_tokens[:nodes]),
            tuple(self._parents[:nodes]),
            tuple(self._scores[:nodes]),
        )
        return Drafted(tree, self._staged_tokens[:staged], self._staged_parents[:staged])

    def _room_to_work(self) -> int | None:
        """Address of scratch memory for the call, however small it is this time."""
        native = self._struct
        own = native.pending, native.depth, native.width
        native.pending, native.depth, native.width = map(max, own, (PENDING, DEPTH, WIDTH))
        needed = library().dt_draft_bytes(self._before[1], self._call)
        native.pending, native.depth, native.width = own
        if self._scratch is None or needed > self._scratch.nbytes:
            self._scratch = None  # the old one goes first
            self._scratch = reserve(self._account, (needed,))
        return pointer(self._scratch)

    def _reserve(self, pending: int, nodes: int, staged: int) -> None:
        """Room for so many pending tokens, nodes and staged nodes, and for some more."""
        self._room = pending, nodes, staged = 2 * pending, 2 * nodes, 2 * staged
        self._tokens = (c.c_int32 * pending)()
        self._tree_tokens, self._parents = (c.c_int32 * (nodes + 1))(), (c.c_int32 * (nodes + 1))()
        self._scores = (c.c_double * (nodes + 1))()
        self._staged_tokens, self._staged_parents = (c.c_int32 * staged)(), (c.c_int32 * staged)()
        native = self._struct
        native.tokens, native.tree_scores = c.addressof(self._tokens), c.addressof(self._scores)
        native.tree_tokens = c.addressof(self._tree_tokens)
        native.tree_parents = c.addressof(self._parents)
        native.staged_tokens = c.addressof(self._staged_tokens)
        native.staged_parents = c.addressof(self._staged_parents)


class ExpandCall:
    """dt_expand for one segment.

    Args:
        pool: handle of the thread pool.
        segment: a reference to the segment's structure.
    """

    def __init__(self, pool: int, segment: Any) -> None:  # noqa: ANN401 (ctypes has no name for it)
        self._before = pool, segment
        self._ranking = _RankingArgument()
        self._reserve(ROWS * 4)

    def __call__(
        self, cache: int, arguments: tuple[Any, ...], step: Step, ranking: Ranking, width: int
    ) -> list[Candidates] | None:
        """See `engine.backend.segment.Segment.expand`.

        Args:
            cache: a handle.
            arguments: what `StepArrays` has prepared of the step.
            step: it.
            ranking: how candidates rank.
            width: most candidates of a row.
        """
        if not 0 < width <= MOST_WIDTH:
            raise ValueError(f"{width} candidates per node")
        wanted = step.logit_rows if step.logit_rows is not None else range(len(step.tokens))
        count = len(wanted) * width
        if count > len(self._tokens):
            self._reserve(2 * count)
        result = library().dt_expand(
            *self._before, cache, *arguments, self._ranking.told(ranking), width, self._found_at
        )
        if result == CANCELLED:
            return None
        if result:
            raise refusal(result)
        tokens, weights = self._tokens[:count].tolist(), self._weights[:count].tolist()
        pairs: Candidates = list(zip(tokens, weights, strict=True))
        rows = [pairs[first : first + width] for first in range(0, count, width)]
        if -1 in tokens:  # rows with fewer numbers than that
            rows = [[pair for pair in row if pair[0] >= 0] for row in rows]
        return rows

    def _reserve(self, count: int) -> None:
        found = np.zeros((count, 2), dtype=np.int32)
        self._found_at = pointer(found)
        self._tokens, self._weights = found[:, 0], found.view(np.float32)[:, 1]


class VerifyCall:
    """dt_verify_tree for one segment.

    Args:
        pool: handle of the thread pool.
        segment: a reference to the segment's structure.
        config: of the model.
        blocks: the segment's.
        account: where its memory is entered.
    """

    def __init__(
        self,
        pool: int,
        segment: Any,  # noqa: ANN401 (ctypes has no name for it)
        config: ModelConfig,
        blocks: range,
        account: Account,
    ) -> None:
        self._before, self._account = (pool, segment), account
        self._width, self._vocab = config.hidden_size, config.vocab_size
        self._step = StepStruct()
        self._argument = c.byref(self._step)
        self._taps = TapRows(blocks, config.hidden_size, account)
        self._reserve(VERIFIED_ROWS)

    def __call__(
        self,
        cache: int,
        committed: int,
        draws: NativeDraws,
        cancel: CancelFlag | None,
        hidden: Floats | None,
        taps: tuple[int, ...] | None,
    ) -> tuple[Verified, SegmentOutput | None]:
        """Verify the tree that `draws` was asked about.

        Args:
            cache: handle of the sequence's.
            committed: tokens of it whose keys the cache holds.
            draws: the target's, and the tree.
            cancel: gives the verification up.
            hidden: what the segment before made of the tree; None where there is none.
            taps: blocks whose outputs are wanted beside the hidden states; None: nothing is.
        """
        asked, step = draws.asked, self._step
        count = asked.nodes
        if count > self._rows:
            self._reserve(2 * count)
        self._hidden_rows.extend(count)
        self._logits_rows.extend(count)
        step.rows = step.logit_count = count
        step.hidden_in = pointer(hidden)
        step.cancel = None if cancel is None else cancel.address
        step.tokens, asked.logits = asked.tokens, self._logits_at
        tapped = self._taps.prepare(step, taps or (), count, self._rows)
        after = cache, self._argument, committed, draws.handle, draws.argument
        verified = draws.answer(library().dt_verify_tree(*self._before, *after))
        if taps is None:
            return verified, None
        return verified, SegmentOutput(self._hidden[:count], None, tapped)

    def _reserve(self, rows: int) -> None:
        """Room for trees of so many nodes; memory is touched as far as it is used."""
        hidden = reserve_rows(self._account, rows, self._width)
        logits = reserve_rows(self._account, rows, self._vocab)
        # From here on nothing is refused, which would leave the call with half of its room.
        self._rows, self._all_rows = rows, np.arange(rows, dtype=np.int32)
        (self._hidden_rows, self._hidden), (self._logits_rows, self._logits) = hidden, logits
        self._logits_at = pointer(self._logits)
        self._step.logit_rows, self._step.logits = pointer(self._all_rows), self._logits_at
        self._step.hidden_out = pointer(self._hidden)
