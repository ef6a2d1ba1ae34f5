"""A segment's blocks as lists of dispatches, at most twelve for each dense block.

Every list is made once: what changes from forward to forward are numbers on the device, and how
many rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from engine.backend.ledger import Account
from engine.backend.webgpu.fusion import GpuFuser
from engine.backend.webgpu.gpu import Buffer, Gpu
from engine.backend.webgpu.loading import GpuLoader
from engine.backend.webgpu.matrix import GpuMatrix
from engine.backend.webgpu.memory import GpuCache
from engine.backend.webgpu.room import GpuRoom
from engine.backend.webgpu.sizes import (
    LOGIT_ROWS,
    SPAN,
    input_offsets,
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

_BLOCK = 32
_KINDS = {"silu": 0, "gelu_tanh": 1, "swiglu_oai": 2}


class _BlockWeights:
    """Weights of a block."""

    def __init__(self, config: ModelConfig, loader: GpuLoader, index: int) -> None:
        prefix = f"model.layers.{index}."

        def linear(layers: Sequence[str], *, bias: bool) -> Linear:
            names = [prefix + layer for layer in layers]
            biases = loader.vector(*(f"{name}.bias" for name in names)) if bias else None
            return Linear(loader.side_by_side([f"{name}.weight" for name in names]), biases)

        def norm(name: str) -> Buffer:
            return loader.vector(f"{prefix}{name}.weight")

        self.config: BlockConfig = config.blocks[index]
        self.qkv = linear([f"self_attn.{part}_proj" for part in "qkv"], bias=config.qkv_bias)
        self.out = linear(["self_attn.o_proj"], bias=config.attention_out_bias)
        self.router: Linear | None = None
        experts = config.blocks[index].experts
        if experts is None:
            self.gate_up = linear(["mlp.gate_proj", "mlp.up_proj"], bias=config.mlp_bias)
            self.down = linear(["mlp.down_proj"], bias=config.mlp_bias)
        else:

            def of_all(*parts: str) -> Linear:
                every = [f"{prefix}mlp.experts.{{}}.{part}_proj" for part in parts]
                biases = (f"{each.format(i)}.bias" for i in range(experts.count) for each in every)
                matrices = loader.of_experts([f"{each}.weight" for each in every], experts.count)
                return Linear(matrices, loader.vector(*biases) if experts.bias else None)

            name = f"{prefix}mlp.router"
            bias = loader.vector(f"{name}.bias") if experts.bias else None
            self.router = Linear([loader.router(f"{name}.weight")], bias)
            self.gate_up, self.down = of_all("gate", "up"), of_all("down")
        self.before_attention = None
        if config.fusion is None or index > 0:  # a head's first block sees what its fusion gives
            self.before_attention = norm("input_layernorm")
        self.after_attention = self.after_feed_forward = None
        if config.output_norms:
            self.after_attention = norm("post_attention_layernorm")
            self.before_feed_forward = norm("pre_feedforward_layernorm")
            self.after_feed_forward = norm("post_feedforward_layernorm")
        else:
            self.before_feed_forward = norm("post_attention_layernorm")
        self.head_norms = None
        if config.qk_norm:
            names = (f"{prefix}self_attn.{part}_norm.weight" for part in "qk")
            self.head_norms = loader.vector(*names)
        self.sinks = loader.vector(f"{prefix}self_attn.sinks") if config.sinks else None


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
        self._blocks = [_BlockWeights(config, loader, index) for index in blocks]
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
        """Return, for each block, the dispatches before its keys are kept and behind its attention.

        The first dispatch of all but the first block ends the hidden states of the block before.
        """
        every, before = [], None
        for block in self._blocks:
            stages, first = self._stages, list[Dispatch]()
            if before is not None or self.fuser is None or not self.fuser.feeds_attention:
                after = None if before is None else before.after_feed_forward
                weight, adds = block.before_attention, before is not None
                first.append(
                    stages.normed(room, room["hidden"], weight, added=adds, added_weight=after)
                )
            first += stages.products(room, block.qkv, room["qkv"])
            behind = [self._combined(room, block)]
            behind += stages.products(room, block.out, room["added"])
            weight, after = block.before_feed_forward, block.after_attention
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

    def attention(self, room: GpuRoom, cache: GpuCache) -> list[tuple[Dispatch, Dispatch]]:
        """Return, for each block, what puts keys and values in place, and what looks there."""
        config, stages, found = self._config, self._stages, []
        heads, kv_heads, padded = config.num_heads, config.num_kv_heads, padded_head(config)
        rotate, attend = self._gpu.kernel("rotate"), self._gpu.kernel("attend")
        every = heads + 2 * kv_heads

        def spread(extent: Extent) -> tuple[int, int, int]:
            return -(-extent.keys // SPAN), heads, -(-extent.rows // rows_that_look(extent))

        for block, keys, values in zip(self._blocks, cache.keys, cache.values, strict=True):
            rope, window = block.config.rope, block.config.window
            shape = stages.uniform(
                heads, kv_heads, config.head_dim, padded, 0 if rope is None else rope.dim,
                int(config.qk_norm), float(config.rms_norm_eps), float(config.attention_scale),
            )  # fmt: skip
            group = rotate.group(
                shape, room.row_facts, room["qkv"], stages.or_nothing(block.head_norms),
                stages.or_nothing(None if rope is None else room.tables[rope]),
                room["queries"], keys, values,
            )  # fmt: skip
            placed = Dispatch(rotate, group, lambda extent: (every, extent.rows, 1))
            shape = stages.uniform(
                heads, kv_heads, padded, parts_of(room.slots), window,
                float(config.attention_softcap),
            )  # fmt: skip
            group = attend.group(
                shape, room.row_facts, room.paths, room["queries"], keys, values, room["mixed"]
            )
            found.append((placed, Dispatch(attend, group, spread, rows_that_look)))
        return found

    def _combined(self, room: GpuRoom, block: _BlockWeights) -> Dispatch:
        """The parts of attention together, for the next product."""
        config, stages = self._config, self._stages
        size = config.num_heads * config.head_dim
        shape = stages.uniform(
            config.num_heads, config.head_dim, padded_head(config), parts_of(room.slots),
            block.config.window, int(config.sinks), -(-size // _BLOCK), up(size, 8),
        )  # fmt: skip
        kernel = self._gpu.kernel("quantise", "combine")
        bound = shape, room.row_facts, room["mixed"], stages.or_nothing(block.sinks)
        group = kernel.group(*bound, *room.activations)
        return Dispatch(kernel, group, lambda extent: (extent.rows, 1, 1))

    def _feed_forward(self, room: GpuRoom, block: _BlockWeights) -> Iterator[Dispatch]:
        """Yield the dispatches from normed rows to what is added to the hidden states."""
        stages, experts = self._stages, block.config.experts
        if block.router is None or experts is None:
            yield from stages.products(room, block.gate_up, room["gates"])
            yield self._activated(room, self._config.intermediate_size)
            yield from stages.products(room, block.down, room["added"])
            return
        used, hidden, places = experts.used, self._config.hidden_size, room.rows * experts.used
        tiles = most_tiles(experts, room.rows)
        yield from stages.products(room, block.router, room["router"])
        route, mix = self._gpu.kernel("route"), self._gpu.kernel("mix")
        shape = stages.uniform(experts.count, used, int(experts.normalise), tiles, places)
        group = route.group(shape, room["router"], room["routes"])
        yield Dispatch(
            route, group, lambda extent: (extent.rows, 1, 1), partial(expert_tile, experts)
        )
        yield from stages.expert_products(room, experts, block.gate_up, room["gates"], used)
        yield self._activated(room, experts.intermediate_size, used)
        yield from stages.expert_products(room, experts, block.down, room["parts"], 1)
        shape = stages.uniform(hidden, used, 3 * tiles + 2 * places)
        group = mix.group(shape, room["routes"], room["parts"], room["added"])
        yield Dispatch(mix, group, lambda extent: (-(-hidden // 64), extent.rows, 1))

    def _activated(self, room: GpuRoom, size: int, places: int = 1) -> Dispatch:
        """Return the dispatch that gates a feed-forward; `places`: experts a row has, or 1."""
        blocks = -(-size // _BLOCK)
        shape = self._stages.uniform(size, blocks, up(size, 8), _KINDS[self._config.activation])
        kernel = self._gpu.kernel("quantise", "activate")
        groups = -(-blocks // 64)
        group = kernel.group(shape, room["gates"], *room.activations)
        return Dispatch(kernel, group, lambda extent: (groups, extent.rows * places, 1))
