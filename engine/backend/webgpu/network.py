"""A segment's blocks as lists of dispatches, at most twelve for each dense block that attends.

Every list is made once: what changes from forward to forward are numbers on the device, and how
many rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from engine.backend.ledger import Account
from engine.backend.webgpu.block_weights import (
    GpuAttention,
    GpuBlock,
    GpuDelta,
    GpuFeedForward,
    GpuMixture,
)
from engine.backend.webgpu.fusion import GpuFuser
from engine.backend.webgpu.gpu import Buffer, Gpu
from engine.backend.webgpu.loading import GpuLoader
from engine.backend.webgpu.matrix import GpuMatrix
from engine.backend.webgpu.memory import GpuCache, LayerState
from engine.backend.webgpu.room import GpuRoom
from engine.backend.webgpu.sizes import (
    LOGIT_ROWS,
    SPAN,
    STATE_COLUMNS,
    input_offsets,
    kept_numbers,
    most_tiles,
    padded_head,
    parts_of,
    slices_of,
    up,
)
from engine.backend.webgpu.stages import (
    Dispatch,
    Extent,
    GpuRows,
    Linear,
    Stages,
    expert_tile,
    rows_that_look,
)
from engine.model.config import BlockConfig, ModelConfig
from engine.model.tensors import EMBEDDING, FINAL_NORM, HEAD, HEAD_IDS, segment_tensors

_BLOCK, _LANES = 32, 64
_KINDS = {"silu": 0, "gelu_tanh": 1, "swiglu_oai": 2}


@dataclass(frozen=True, slots=True)
class TreeSteps:
    """Steps of a drafted tree.

    Attributes:
        grow: from a level's logits to the next level's rows.
        follow: brings what a head has put out for these rows' parents to them; None: no head.
    """

    grow: list[Dispatch]
    follow: Dispatch | None


class GpuNetwork:
    """Weights of a segment, and the dispatches of its forwards.

    Attributes:
        kinds: how its matrices are stored.
        weight_bytes: of all weights.
        fuser: of a feature head.
    """

    def __init__(
        self,
        config: ModelConfig,
        loader: GpuLoader,
        gpu: Gpu,
        account: Account,
        blocks: range,
        *,
        embed: bool,
        head: bool,
    ) -> None:
        self._config, self._gpu = config, gpu
        self._stages = Stages(gpu, account, config)
        self._blocks = [GpuBlock(config, loader, index) for index in blocks]
        self.fuser: GpuFuser | None = None
        if config.fusion is not None:
            self.fuser = GpuFuser(config, config.fusion, loader, self._stages)
        self._head: GpuMatrix | None = None
        self._norm: Buffer | None = None
        self._names: Buffer | None = None
        self._embedding: GpuMatrix | None = None
        if head:
            self._head = loader.matrix(EMBEDDING if config.tie_word_embeddings else HEAD)
            if FINAL_NORM in segment_tensors(config, blocks, embed=embed, head=head):
                self._norm = loader.vector(FINAL_NORM)
            if config.rows is not None:
                self._names = loader.vector(HEAD_IDS)
        if embed:
            self._embedding = loader.matrix(EMBEDDING)
        self.kinds = loader.kinds
        self.weight_bytes = loader.vector_bytes + sum(each.nbytes for each in loader.matrices)
        self._held = loader.held

    @property
    def embeds(self) -> bool:
        """Tell whether it begins with tokens."""
        return self._embedding is not None

    @property
    def heads(self) -> bool:
        """Tell whether it ends with logits."""
        return self._head is not None

    @property
    def returns_normed(self) -> bool:
        """Tell whether hidden states that leave it went through the final norm."""
        return self.heads and (self.fuser is None or self.fuser.returns_normed)

    def enter(self, room: GpuRoom, *, own: bool = False) -> list[Dispatch]:
        """Return the dispatches that turn tokens, and a head's features, into hidden states.

        `own`: a head is given its own outputs in place of features.
        """
        if self._embedding is None:
            return []
        place = room["hidden"] if self.fuser is None else room["embedded"]
        found = list(self._stages.embedded(room, self._embedding, place))
        if self.fuser is not None:
            found += self.fuser.steps(room, own=own)
        return found

    def blocks(self, room: GpuRoom) -> list[tuple[list[Dispatch], list[Dispatch]]]:
        """Return, for each block, the dispatches before its mixer and behind it; see `mixers`.

        The first dispatch of all but the first block ends the hidden states of the block before.
        """
        every, before = [], None
        for block in self._blocks:
            stages, first = self._stages, list[Dispatch]()
            if before is not None or self.fuser is None or not self.fuser.feeds_attention:
                after = None if before is None else before.after_feed_forward
                weight, adds = block.before_mixer, before is not None
                first.append(
                    stages.normed(room, room["hidden"], weight, added=adds, added_weight=after)
                )
            first += stages.products(room, block.mixer.given, room["qkv"])
            behind = list(stages.products(room, block.mixer.out, room["added"]))
            weight, after = block.before_feed_forward, block.after_mixer
            behind.append(
                stages.normed(room, room["hidden"], weight, added=True, added_weight=after)
            )
            behind += self._feed_forward(room, block)
            every.append((first, behind))
            before = block
        return every

    def end(self, room: GpuRoom) -> list[Dispatch]:
        """Return the dispatches that end the hidden states: the last sum, and the final norm."""
        before = self._blocks[-1] if self._blocks else None
        if not self.heads and before is None:
            return []
        after = None if before is None else before.after_feed_forward
        return [
            self._stages.normed(
                room,
                room["hidden"],
                self._norm,
                added=before is not None,
                added_weight=after,
                result=room["normed"] if self.heads else None,
            )
        ]

    def logits(self, room: GpuRoom) -> list[Dispatch]:
        """Return the dispatches from normed rows to logits of the wanted ones."""
        if self._head is None:
            return []
        config, stages = self._config, self._stages
        normed = GpuRows(room["normed"], config.hidden_size, up(config.hidden_size, 8))
        found = [stages.gathered(room, normed, wanted=room.wanted)]
        linear = Linear([self._head], None)
        found += stages.products(room, linear, room["logits"], rows=lambda extent: extent.wanted)
        if config.logit_softcap:
            rows = config.head_rows
            cap = self._gpu.kernel("softcap")
            bound = stages.uniform(rows, rows, float(config.logit_softcap)), room["logits"]
            many = -(-rows // 64)
            found.append(Dispatch(cap, cap.group(*bound), lambda extent: (many, extent.wanted, 1)))
        return found

    def draws(self, room: GpuRoom) -> list[Dispatch]:
        """Return the dispatches from logits to drawn tokens: where filters cut, and the draws."""
        if self._head is None:
            return []
        shape = self._stages.uniform(self._config.head_rows, LOGIT_ROWS)
        bound = room.wanted, room["logits"], room["drawn"], room["heard"]
        cut = self._gpu.kernel("penalise", "filter")
        draw = self._gpu.kernel("penalise", "gumbel", "draw")
        groups = (cut, cut.group(shape, *bound)), (draw, draw.group(shape, room.row_facts, *bound))
        return [Dispatch(*each, lambda extent: (extent.wanted, 1, 1)) for each in groups]

    def growing(self, room: GpuRoom, width: int) -> TreeSteps:
        """Return the dispatches that grow a drafted tree so wide."""
        config, stages, gpu = self._config, self._stages, self._gpu
        slices, (wanted, paths, _) = slices_of(config), input_offsets(room.rows)
        named = self._names is not None
        shape = stages.uniform(config.head_rows, slices, width, LOGIT_ROWS, int(named))
        rank = gpu.kernel("gumbel", "best", "rank")
        group = rank.group(
            shape, room.row_facts, room.wanted, stages.or_nothing(self._names), room["logits"],
            room["ranked"],
        )  # fmt: skip
        ranked = Dispatch(rank, group, lambda extent: (slices, extent.wanted, 1))
        grow = gpu.kernel("best", "grow")
        shape = stages.uniform(slices, width, LOGIT_ROWS, wanted // 4, paths // 4)
        group = grow.group(shape, room["inputs"], room["ranked"], room["tree"])
        grown = Dispatch(grow, group, lambda _extent: (1, 1, 1))
        followed = None
        if self.fuser is not None:
            follow = gpu.kernel("follow")
            shape = stages.uniform(config.hidden_size, width, LOGIT_ROWS)
            group = follow.group(shape, room.wanted, self.fuser.own_place(room))
            columns = -(-config.hidden_size // 64)
            followed = Dispatch(follow, group, lambda _extent: (columns, 1, 1))
        return TreeSteps([ranked, grown], followed)

    def mixers(self, room: GpuRoom, cache: GpuCache) -> list[list[Dispatch]]:
        """Return, for each block, what mixes tokens: by keys and values, or by a state."""
        own, states = iter(zip(cache.keys, cache.values, strict=True)), iter(cache.states)
        found, kept = [], dict[int, tuple[Buffer, Buffer]]()
        for block in self._blocks:
            if isinstance(block.mixer, GpuDelta):
                found.append(self._by_state(room, block.mixer, next(states)))
                continue
            shared = block.config.shares_kv_with
            kept[block.index] = next(own) if shared is None else kept[shared]
            attended = self._attention(room, block.config, block.mixer, *kept[block.index])
            found.append(attended)
        return found

    def taking_in(self, mixers: Sequence[Sequence[Dispatch]]) -> list[Dispatch]:
        """Return those of all mixers' dispatches that change states."""
        pairs = zip(self._blocks, mixers, strict=True)
        both = (own[:2] for block, own in pairs if isinstance(block.mixer, GpuDelta))
        return list(chain.from_iterable(both))

    def _attention(
        self,
        room: GpuRoom,
        own: BlockConfig,
        weights: GpuAttention,
        keys: Buffer,
        values: Buffer,
    ) -> list[Dispatch]:
        """Put keys and values in place, look there, and join the parts for the next product."""
        config, stages = self._config, self._stages
        heads, kv_heads, dim = own.heads, own.kv_heads, own.head_dim
        padded, rope, parts = padded_head(own), own.rope, parts_of(room.slots)
        shape = stages.uniform(
            heads, kv_heads, dim, padded, 0 if rope is None else rope.dim, int(config.qk_norm),
            int(own.gated), weights.given.outputs, float(config.rms_norm_eps),
            float(own.attention_scale),
        )  # fmt: skip
        rotate, attend = self._gpu.kernel("rotate"), self._gpu.kernel("attend")
        group = rotate.group(
            shape, room.row_facts, room["qkv"], stages.or_nothing(weights.head_norms),
            stages.or_nothing(None if rope is None else room.tables[rope]),
            room["queries"], keys, values,
        )  # fmt: skip
        every = heads + (2 * kv_heads if own.stores_kv else 0)
        placed = Dispatch(rotate, group, lambda extent: (every, extent.rows, 1))

        def spread(extent: Extent) -> tuple[int, int, int]:
            return -(-extent.keys // SPAN), heads, -(-extent.rows // rows_that_look(extent))

        shape = stages.uniform(
            heads, kv_heads, padded, parts, own.window, float(config.attention_softcap)
        )
        group = attend.group(
            shape, room.row_facts, room.paths, room["queries"], keys, values, room["mixed"]
        )
        looked = Dispatch(attend, group, spread, rows_that_look)
        size = heads * dim
        shape = stages.uniform(
            heads, dim, padded, parts, own.window, int(config.sinks), -(-size // _BLOCK),
            up(size, 8), weights.given.outputs if own.gated else 0,
        )  # fmt: skip
        combine = self._gpu.kernel("quantise", "combine")
        bound = shape, room.row_facts, room["mixed"], stages.or_nothing(weights.sinks)
        group = combine.group(*bound, *room.activations, room["qkv"])
        return [placed, looked, Dispatch(combine, group, lambda extent: (extent.rows, 1, 1))]

    def _by_state(self, room: GpuRoom, weights: GpuDelta, layer: LayerState) -> list[Dispatch]:
        """Make rows ready, walk over the state with them, and leave what they have seen of it."""
        stages, gpu, delta = self._stages, self._gpu, weights.delta
        heads, keys, kept = delta.value_heads, delta.key_heads, kept_numbers(delta)
        shape = stages.uniform(keys, delta.key_dim, delta.channels, heads, delta.width, delta.mixed)
        convolve, walk = gpu.kernel("walk", "convolve"), gpu.kernel("walk", "delta")
        group = convolve.group(
            shape, room["walk"], room["qkv"], layer.rows, weights.layer, room["ready"]
        )
        spans = 2 * keys - (2 * keys * delta.key_dim - kept) // _LANES
        ready = Dispatch(convolve, group, lambda extent: (spans, extent.nodes, 1))
        shape = stages.uniform(
            keys, delta.key_dim, heads, delta.value_dim, delta.channels, int(delta.tiled)
        )
        group = walk.group(shape, room["walk"], room["ready"], layer.state, room["mixed"])
        columns = -(-delta.value_dim // STATE_COLUMNS)
        walked = Dispatch(walk, group, lambda _extent: (columns, heads, 1))
        shape = stages.uniform(
            heads, delta.value_dim, delta.channels, kept, -(-delta.mixed // _BLOCK),
            up(delta.mixed, 8), float(self._config.rms_norm_eps),
        )  # fmt: skip
        leave = gpu.kernel("walk", "quantise", "leave")
        bound = room["walk"], room["qkv"], room["mixed"], weights.norm, layer.rows
        group = leave.group(shape, *bound, *room.activations)
        return [ready, walked, Dispatch(leave, group, lambda extent: (extent.rows, 1, 1))]

    def _feed_forward(self, room: GpuRoom, block: GpuBlock) -> Iterator[Dispatch]:
        """Yield the dispatches from normed rows to what is added to the hidden states."""
        weights = block.feed_forward
        if isinstance(weights, GpuMixture):
            yield from self._mixture(room, weights)
            return
        yield from self._stages.products(room, weights.gate_up, room["gates"])
        yield from self._gated_down(room, weights, room["gates"], block.config.inner)

    def _gated_down(
        self, room: GpuRoom, weights: GpuFeedForward, gates: Buffer, size: int
    ) -> Iterator[Dispatch]:
        yield self._activated(room, gates, size)
        yield from self._stages.products(room, weights.down, room["added"])

    def _mixture(self, room: GpuRoom, weights: GpuMixture) -> Iterator[Dispatch]:
        stages, experts, shared = self._stages, weights.config, weights.shared
        used, hidden, places = experts.used, self._config.hidden_size, room.rows * experts.used
        tiles, logits = most_tiles(experts, room.rows), experts.count + experts.shared
        yield from stages.products(room, weights.router, room["router"])
        route, mix = self._gpu.kernel("route"), self._gpu.kernel("mix")
        shape = stages.uniform(experts.count, used, int(experts.normalise), tiles, places, logits)
        group = route.group(shape, room["router"], room["routes"])
        yield Dispatch(
            route, group, lambda extent: (extent.rows, 1, 1), partial(expert_tile, experts)
        )
        inner = experts.intermediate_size
        if shared is not None:  # while the rows lie where products read them
            yield from stages.products(room, shared.gate_up, room["shared"])
        both = weights.experts
        yield from stages.expert_products(room, experts, both.gate_up, room["gates"], used)
        yield self._activated(room, room["gates"], inner, used)
        yield from stages.expert_products(room, experts, both.down, room["parts"], 1)
        if shared is not None:
            yield from self._gated_down(room, shared, room["shared"], inner)
        shape = stages.uniform(
            hidden, used, 3 * tiles + 2 * places, int(shared is not None), logits
        )
        group = mix.group(shape, room["routes"], room["parts"], room["router"], room["added"])
        yield Dispatch(mix, group, lambda extent: (-(-hidden // 64), extent.rows, 1))

    def _activated(self, room: GpuRoom, gates: Buffer, size: int, places: int = 1) -> Dispatch:
        """Return the dispatch that gates a feed-forward; `places`: experts a row has, or 1."""
        blocks = -(-size // _BLOCK)
        shape = self._stages.uniform(size, blocks, up(size, 8), _KINDS[self._config.activation])
        kernel = self._gpu.kernel("quantise", "activate")
        groups = -(-blocks // 64)
        group = kernel.group(shape, gates, *room.activations)
        return Dispatch(kernel, group, lambda extent: (groups, extent.rows * places, 1))
