"""Drafting a tree on a device: one round is a handful of launches and one wait.

Recorded are the catch-up with the first level's ranking, by the number of pending tokens, and one
level, which serves them all because its number lies on the device. A recording of whole trees would
save the launches between the levels, some ten microseconds each, but there would have to be one for
every depth that the controller thinks of, and recording takes longer than a thousand launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from engine.backend.accelerator.attention import MetadataMaker
from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.graphs import Graphs
from engine.backend.accelerator.input_buffers import (
    InputBuffers,
    SegmentInputs,
    chunks_seen,
    doubled,
    passes,
)
from engine.backend.accelerator.memory import DeviceAllocator, DeviceCache
from engine.backend.accelerator.network import Network
from engine.backend.accelerator.sizes import (
    FEWEST_CHUNKS,
    RECORDED_ROWS,
    TILE_ROWS,
    drafting_bytes,
)
from engine.backend.accelerator.tree_state import (
    FACTORS,
    KEYS,
    RankingManner,
    TreeState,
    round_keys,
)
from engine.backend.drafted_levels import DRAFT_LEVELS, read_levels
from engine.backend.ledger import Purpose
from engine.backend.ranking import COLDEST, HOTTEST
from engine.backend.round import Drafted, DraftRequest
from engine.backend.step import CHUNK, Step
from engine.model.config import ModelConfig


@dataclass(frozen=True, slots=True)
class DraftResources:
    """The parts of a segment that drafting uses."""

    config: ModelConfig
    driver: Driver
    memory: DeviceAllocator
    network: Network
    metadata: MetadataMaker
    inputs: SegmentInputs
    graphs: Graphs


class _Table:
    """The state of a tree, and the place of its result on the host."""

    def __init__(self, resources: DraftResources, width: int) -> None:
        config, driver = resources.config, resources.driver
        resources.memory.enter(Purpose.WORKSPACE, drafting_bytes(config, width))
        with resources.memory.in_words():
            self.tree = TreeState(driver, width, config.hidden_size)
            length = len(self.tree.result)
            self.result = torch.zeros(length, dtype=torch.int32, pin_memory=driver.computes_apart)
        self.arrived = driver.mark()


class Drafting:
    """Drafts for `Segment.draft`.

    The levels' number is settled beforehand, by the budget and the room in the cache: with a dozen
    levels of a small model at most, the user's stop does not wait long for them.
    """

    def __init__(self, resources: DraftResources) -> None:
        self._resources = resources
        self._tables: dict[int, _Table] = {}

    def draft(
        self, cache: DeviceCache, committed: int, slots: int, request: DraftRequest
    ) -> Drafted:
        """See `engine.backend.segment.Segment.draft`."""
        pending, ranking, budget = request.pending, request.ranking, request.budget
        resources = self._resources
        width = min(budget.width, TILE_ROWS, resources.config.head_rows)
        start = committed + len(pending)
        if not pending or width < 1 or budget.depth < 1 or start > slots:
            raise ValueError("there is nothing to draft, or no room for it")
        depth = min(budget.depth, DRAFT_LEVELS, 1 + (slots - start) // width)
        table = self._table(width)
        tree = table.tree
        manner = RankingManner(
            tempered=ranking.temperature != 0,
            noisy=ranking.temperature != 0 and ranking.share_noise,
        )
        if manner.noisy:
            tree.take_noise(resources.driver, resources.config.head_rows)
        self._tell(tree, cache, start, request)
        self._catch_up(tree, cache, committed, request, manner)
        chunks = min(
            doubled(-(-(start + (depth - 1) * width) // CHUNK), FEWEST_CHUNKS), cache.chunks
        )
        known = width, manner, resources.metadata.positions
        for _ in range(depth - 1):
            work = partial(self._level, tree, chunks, cache, manner)
            resources.graphs.run(cache.recordings, ("level", chunks, known), work)
        resources.driver.copy(table.result, tree.result)
        table.arrived.set()
        table.arrived.wait()
        whole, nodes = DRAFT_LEVELS * width, DRAFT_LEVELS * width * width
        expanded, tokens, scores = np.split(table.result.numpy(), [whole, whole + nodes])
        return read_levels(
            pending[-1], tokens, scores.view(np.float32), expanded.reshape(-1, width), budget.nodes
        )

    def _table(self, width: int) -> _Table:
        table = self._tables.get(width)
        if table is None:
            table = self._tables[width] = _Table(self._resources, width)
        return table

    def _tell(self, tree: TreeState, cache: DeviceCache, start: int, request: DraftRequest) -> None:
        """Send the round's parameters to the device."""
        ranking = request.ranking
        host = tree.given.write().numpy()
        # A head's first token is the sequence's second.
        position = start + (self._resources.config.fusion is not None) + ranking.shift
        host[:KEYS] = start, position, cache.chunks * CHUNK
        keys = np.array(round_keys(ranking.seed), dtype=np.uint32)
        host[KEYS:FACTORS] = keys.view(np.int32)
        temperature = min(max(ranking.temperature, COLDEST), HOTTEST)
        host[FACTORS:].view(np.float32)[:] = temperature, request.budget.floor
        tree.given.send()

    def _catch_up(
        self,
        tree: TreeState,
        cache: DeviceCache,
        committed: int,
        request: DraftRequest,
        manner: RankingManner,
    ) -> None:
        """Run the pending tokens through the network and rank the first level's candidates."""
        pending, features = request.pending, request.features
        resources, count = self._resources, len(pending)
        step = Step(pending, range(-1, count - 1), committed)
        for some in passes(step):
            last = some.stop == count
            inputs = resources.inputs.buffers(step, len(some))
            wanted = [len(some) - 1] if last else []
            inputs.send(step, some, wanted, cache.chunks * CHUNK, features)
            chunks = chunks_seen(step, some, cache.chunks)
            given = None if features is None else inputs.hidden
            begun = (tree, manner) if last else None
            work = partial(self._begin, inputs, given, chunks, cache, begun)
            if last and count <= RECORDED_ROWS:
                known = tree.width, manner, resources.metadata.positions
                key = "begin", inputs.shape, chunks, features is None, known
                resources.graphs.run(cache.recordings, key, work)
            else:
                work()

    def _begin(
        self,
        inputs: InputBuffers,
        given: torch.Tensor | None,
        chunks: int,
        cache: DeviceCache,
        begun: tuple[TreeState, RankingManner] | None,
    ) -> None:
        network = self._resources.network
        x, seen = network.enter(inputs.tokens, given, own=False)
        metadata = self._resources.metadata.of_inputs(inputs, chunks)
        network.advance(x, seen, inputs.shape.bucket, metadata, cache, _no_tap)
        if begun is None:
            return
        tree, manner = begun
        x, last = network.end(x)
        root = inputs.wanted[:TILE_ROWS]
        tree.open(x.index_select(0, root))
        if manner.noisy:
            tree.make_noise(network.ids, self._resources.config.vocab_size)
        tree.rank(network.logits(last.index_select(0, root)), network.ids, manner)

    def _level(
        self, tree: TreeState, chunks: int, cache: DeviceCache, manner: RankingManner
    ) -> None:
        network = self._resources.network
        rows = tree.stage()
        metadata = self._resources.metadata.of_drafted(rows, chunks)
        given = None if self._resources.config.fusion is None else rows.hidden
        x, seen = network.enter(rows.tokens, given, own=True)
        network.advance(x, seen, tree.width, metadata, cache, _no_tap)
        x, last = network.end(x)
        tree.hidden.copy_(x)
        tree.rank(network.logits(last), network.ids, manner)


def _no_tap(block: int, x: torch.Tensor) -> None:
    """Ignore a block's output: drafting needs no taps."""
    del block, x
