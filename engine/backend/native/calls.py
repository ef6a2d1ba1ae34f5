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
    VerificationStruct,
    library,
    pointer,
    refusal,
)
from engine.backend.native.memory import reserve, reserve_rows
from engine.backend.native.pool import CancelFlag
from engine.backend.native.sampling import MOST_WIDTH
from engine.backend.native.workspace import DEPTH, PENDING, ROWS, WIDTH, TapRows
from engine.backend.round import Candidates, Drafted, DraftRequest, Ranking
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
        self._tokens, self._some_rows, all_rows = ints
        all_rows[:] = range(rows)
        self._tokens_at, self._some_rows_at, self._every_row = map(pointer, ints)
        self._hidden_rows, self._hidden = reserve_rows(account, rows, width)
        self._logits: Floats | None = None
        if vocab is not None:
            self._logits_rows, self._logits = reserve_rows(account, logit_rows, vocab)
        self.logits_at = pointer(self._logits)
        """Address of the logits; None of a segment without a head."""
        self._struct = StepStruct(hidden_out=pointer(self._hidden), logits=self.logits_at)
        self.step = c.byref(self._struct)
        """The structure, for native calls."""
        self._reserve_parents(rows)

    def _reserve_parents(self, nodes: int) -> None:
        self._parents = np.zeros(nodes, dtype=np.int32)
        self._parents_at = pointer(self._parents)

    def prepare(self, step: Step, hidden: Floats | None) -> SegmentOutput:
        """Put the arguments in place; what is returned is filled by the native call.

        `hidden` has to stay alive until then.

        Raises:
            ValueError: a feature head was not given the features of its rows.
        """
        rows, nodes, native = len(step.tokens), len(step.parents), self._struct
        if nodes > len(self._parents):
            self._reserve_parents(nodes)
        if self._config.fusion is not None:
            native.own = features_are_own(self._config, hidden, rows)
        if hidden is None or self._config.fusion is not None:
            self._tokens[:rows] = step.tokens
        self._parents[:nodes] = step.parents
        self.arguments = self.step, step.committed, nodes - rows, self._parents_at
        """What dt_forward_tree takes after the cache."""
        native.tokens, native.logit_rows = self._tokens_at, self._every_row
        wanted = rows
        if step.logit_rows is not None:
            wanted, native.logit_rows = len(step.logit_rows), self._some_rows_at
            self._some_rows[:wanted] = step.logit_rows
        return self._results(rows, wanted, step.taps, hidden, step.cancel)

    def prepare_tree(
        self,
        asked: VerificationStruct,
        taps: tuple[int, ...],
        hidden: Floats | None,
        cancel: CancelFlag | None,
    ) -> SegmentOutput:
        """Put the arguments in place for the tree that is verified, whose nodes are the rows."""
        native, rows = self._struct, asked.nodes
        native.tokens, native.logit_rows = asked.tokens, self._every_row
        return self._results(rows, rows, taps, hidden, cancel)

    def _results(
        self,
        rows: int,
        wanted: int,
        taps: tuple[int, ...],
        hidden: Floats | None,
        cancel: CancelFlag | None,
    ) -> SegmentOutput:
        native, logits = self._struct, self._logits
        native.rows, native.hidden_in = rows, pointer(hidden)
        native.cancel = None if cancel is None else cancel.address
        self._hidden_rows.extend(rows)
        if logits is not None:
            native.logit_count, logits = wanted, logits[:wanted]
            self._logits_rows.extend(wanted)
        tapped = self._taps.prepare(native, taps, rows, self._rows)
        return SegmentOutput(self._hidden[:rows], logits, tapped)


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
