"""A segment's blocks as lists of dispatches, at most twelve for each dense block.

Every list is made once: what changes from forward to forward are numbers on the device, and how many
rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.backend.ledger import Account, Purpose
from engine.backend.webgpu.gpu import Buffer, Gpu, Group, Kernel, Region
from engine.backend.webgpu.loading import GpuLoader
from engine.backend.webgpu.matrix import GpuMatrix
from engine.backend.webgpu.memory import GpuCache
from engine.backend.webgpu.sizes import (
    SPAN,
    buffers,
    input_offsets,
    padded_head,
    parts_of,
    pass_rows,
    up,
)
from engine.model.config import BlockConfig, ModelConfig, RopeConfig
from engine.model.tensors import EMBEDDING, FINAL_NORM, HEAD

_BLOCK = 32
_KINDS = {"silu": 0, "gelu_tanh": 1, "swiglu_oai": 2}


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of a pass.

    Attributes:
        rows: that are computed.
        wanted: rows whose logits are wanted.
        keys: that its last row may look at.
        largest: rows that products take together at most.
    """

    rows: int
    wanted: int
    keys: int
    largest: int


def tile_of(rows: int, largest: int) -> int:
    """Return how many of the rows a product takes together: 1, 2, 4, ..."""
    tile = 1
    while tile < min(rows, largest):
        tile *= 2
    return tile


Grid = Callable[[Extent], tuple[int, int, int]]
Tile = Callable[[Extent], int]


def _alone(_extent: Extent) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A kernel, what it is bound to, its workgroups, and how many rows each takes together."""

    kernel: Kernel
    group: Group
    grid: Grid
    tile: Tile = _alone

    def encode(self, gpu: Gpu, work: Any, extent: Extent) -> None:  # noqa: ANN401
        """Append it to a compute pass."""
        work.set_pipeline(self.kernel.pipeline(self.tile(extent)))
        work.set_bind_group(0, self.group)
        work.dispatch_workgroups(*self.grid(extent))
        counts = gpu.counts.dispatches
        counts[self.kernel.name] = counts.get(self.kernel.name, 0) + 1


class GpuRoom:
    """A segment's buffers beside its weights, for sequences with so many slots.

    Attributes:
        slots: of the longest sequence.
        rows: that are computed together at most.
        tables: rotations, by how they are made.
    """

    def __init__(
        self,
        gpu: Gpu,
        account: Account,
        config: ModelConfig,
        slots: int,
        tables: dict[RopeConfig, Buffer],
        *,
        blocks: int,
        head: bool,
    ) -> None:
        self.slots, self.rows = slots, pass_rows(config, slots)
        self.tables, self._gpu, self._account = tables, gpu, account
        turns = sum(table.size for table in tables.values())
        sizes = buffers(config, blocks, slots, head=head)
        account.take(Purpose.WORKSPACE, turns + sum(sizes.values())).lasts_as_long_as(self)
        self._buffers = {
            name: gpu.buffer(size, readable=name == "results") for name, size in sizes.items()
        }
        wanted, paths, end = input_offsets(self.rows)
        inputs = self["inputs"]
        self.row_facts = Region(inputs, 0, wanted)
        self.wanted = Region(inputs, wanted, paths - wanted)
        self.paths = Region(inputs, paths, end - paths)

    def __getitem__(self, name: str) -> Buffer:
        """Return a buffer by its name in `sizes.buffers`."""
        return self._buffers[name]

    def results(self, nbytes: int) -> Buffer:
        """Return the buffer that the host reads, with room for so many bytes."""
        more = nbytes - self["results"].size
        if more > 0:
            self._account.take(Purpose.WORKSPACE, more).lasts_as_long_as(self)
            self._buffers["results"] = self._gpu.buffer(nbytes, readable=True)
        return self["results"]

    @property
    def activations(self) -> tuple[Buffer, Buffer, Buffer]:
        """What kernels write for the next product."""
        return self["floats"], self["codes"], self["factors"]


@dataclass(frozen=True, slots=True)
class Linear:
    """Matrices with one input, side by side, and a bias over all of their outputs."""

    matrices: list[GpuMatrix]
    bias: Buffer | None

    @property
    def outputs(self) -> int:
        """Numbers that it gives for each row."""
        return sum(matrix.rows for matrix in self.matrices)


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
        self.gate_up = linear(["mlp.gate_proj", "mlp.up_proj"], bias=config.mlp_bias)
        self.down = linear(["mlp.down_proj"], bias=config.mlp_bias)
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


class GpuNetwork:
    """Weights of a segment, and the dispatches of its forwards.

    Attributes:
        kinds: how its matrices are stored.
        weight_bytes: of all weights.
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
        self._config, self._gpu, self._account = config, gpu, account
        self._held = loader.held
        account.take(Purpose.WORKSPACE, 16).lasts_as_long_as(self)
        self._nothing = gpu.buffer(16)
        self._blocks = [_BlockWeights(config, loader, index) for index in blocks]
        self._head: GpuMatrix | None = None
        self._norm: Buffer | None = None
        self._embedding: GpuMatrix | None = None
        if head:
            self._head = loader.matrix(EMBEDDING if config.tie_word_embeddings else HEAD)
            self._norm = loader.vector(FINAL_NORM)
        if embed:
            self._embedding = loader.matrix(EMBEDDING)
        self.kinds = {matrix.kind for matrix in loader.matrices}
        self.weight_bytes = loader.vector_bytes + sum(each.nbytes for each in loader.matrices)

    @property
    def embeds(self) -> bool:
        """Tell whether it begins with tokens."""
        return self._embedding is not None

    @property
    def heads(self) -> bool:
        """Tell whether it ends with logits."""
        return self._head is not None

    def enter(self, room: GpuRoom) -> list[Dispatch]:
        """Return the dispatches that turn tokens into hidden states."""
        matrix = self._embedding
        if matrix is None:
            return []
        config = self._config
        entry = self._uniform(config.hidden_size, float(config.embedding_scale))
        widen = "widen_floats" if matrix.form.floats else "widen_codes"
        kernel = self._gpu.kernel("matrix", *matrix.form.files, widen, "embed")
        groups = -(-matrix.blocks // 64)
        found = []
        for piece in matrix.pieces:
            shape = self._shape(matrix, piece.rows, piece.planes, piece.first, 0, 0)
            bound = shape, piece.codes, piece.scales, entry, room.row_facts, room["hidden"]
            group = kernel.group(*bound)
            found.append(Dispatch(kernel, group, lambda extent: (groups, extent.rows, 1)))
        return found

    def blocks(self, room: GpuRoom) -> list[tuple[list[Dispatch], list[Dispatch]]]:
        """Return, for each block, the dispatches before its keys are kept and behind its attention."""
        every, before = [], None
        for block in self._blocks:
            first = [self._normed(room, block.before_attention, before, added=before is not None)]
            first += self._products(room, block.qkv, room["qkv"])
            behind = [self._combined(room, block), *self._products(room, block.out, room["added"])]
            behind.append(self._normed(room, block.before_feed_forward, block, attention=True))
            behind += self._products(room, block.gate_up, room["gates"])
            behind.append(self._activated(room))
            behind += self._products(room, block.down, room["added"])
            every.append((first, behind))
            before = block
        return every

    def end(self, room: GpuRoom) -> list[Dispatch]:
        """Return the dispatches that end the hidden states: the last sum, and the final norm."""
        before = self._blocks[-1] if self._blocks else None
        if self._norm is None and before is None:
            return []
        return [self._normed(room, self._norm, before, added=before is not None, last=True)]

    def logits(self, room: GpuRoom) -> list[Dispatch]:
        """Return the dispatches from normed rows to logits of the wanted ones."""
        if self._head is None:
            return []
        config = self._config
        hidden = config.hidden_size
        blocks = -(-hidden // _BLOCK)
        shape = self._uniform(hidden, up(hidden, 8), blocks)
        pick = self._gpu.kernel("quantise", "pick")
        group = pick.group(shape, room.wanted, room["normed"], *room.activations)
        groups = -(-blocks // 64)
        found = [Dispatch(pick, group, lambda extent: (groups, extent.wanted, 1))]
        linear = Linear([self._head], None)
        found += self._products(room, linear, room["logits"], rows=lambda extent: extent.wanted)
        if config.logit_softcap:
            rows = config.head_rows
            cap = self._gpu.kernel("softcap")
            bound = self._uniform(rows, rows, float(config.logit_softcap)), room["logits"]
            many = -(-rows // 64)
            found.append(Dispatch(cap, cap.group(*bound), lambda extent: (many, extent.wanted, 1)))
        return found

    def attention(self, room: GpuRoom, cache: GpuCache) -> list[tuple[Dispatch, Dispatch]]:
        """Return, for each block, what puts keys and values in their places, and what looks at them."""
        config, found = self._config, []
        heads, kv_heads, padded = config.num_heads, config.num_kv_heads, padded_head(config)
        rotate, attend = self._gpu.kernel("rotate"), self._gpu.kernel("attend")
        every = heads + 2 * kv_heads
        for block, keys, values in zip(self._blocks, cache.keys, cache.values, strict=True):
            rope, window = block.config.rope, block.config.window
            shape = self._uniform(
                heads, kv_heads, config.head_dim, padded, 0 if rope is None else rope.dim,
                int(config.qk_norm), float(config.rms_norm_eps), float(config.attention_scale),
            )  # fmt: skip
            group = rotate.group(
                shape, room.row_facts, room["qkv"], self._or_nothing(block.head_norms),
                self._or_nothing(None if rope is None else room.tables[rope]),
                room["queries"], keys, values,
            )  # fmt: skip
            placed = Dispatch(rotate, group, lambda extent: (every, extent.rows, 1))
            shape = self._uniform(
                heads, kv_heads, padded, parts_of(room.slots), window,
                float(config.attention_softcap),
            )  # fmt: skip
            group = attend.group(
                shape, room.row_facts, room.paths, room["queries"], keys, values, room["mixed"]
            )
            looked = Dispatch(
                attend, group, lambda extent: (-(-extent.keys // SPAN), heads, extent.rows)
            )
            found.append((placed, looked))
        return found

    # ---- kernels ---------------------------------------------------------------------------------

    def _normed(
        self,
        room: GpuRoom,
        weight: Buffer | None,
        block: _BlockWeights | None,
        *,
        added: bool = True,
        attention: bool = False,
        last: bool = False,
    ) -> Dispatch:
        """The sum with what `block` has added, by its attention or its feed-forward, normed."""
        config, hidden = self._config, self._config.hidden_size
        after = None
        if block is not None:
            after = block.after_attention if attention else block.after_feed_forward
        shape = self._uniform(
            hidden, -(-hidden // _BLOCK), up(hidden, 8), int(added), int(after is not None),
            int(weight is not None), float(config.rms_norm_eps),
        )  # fmt: skip
        kernel = self._gpu.kernel("quantise", "norm")
        floats = room["normed"] if last and self._norm is not None else room["floats"]
        group = kernel.group(
            shape, room["hidden"], room["added"], self._or_nothing(after),
            self._or_nothing(weight), floats, room["codes"], room["factors"],
        )  # fmt: skip
        return Dispatch(kernel, group, lambda extent: (extent.rows, 1, 1))

    def _products(
        self,
        room: GpuRoom,
        linear: Linear,
        result: Buffer,
        rows: Callable[[Extent], int] = lambda extent: extent.rows,
    ) -> Iterator[Dispatch]:
        """Products of the activations with all pieces of matrices side by side."""
        column = 0
        floats, codes, factors = room.activations

        def tile(extent: Extent) -> int:
            return tile_of(rows(extent), extent.largest)

        for matrix in linear.matrices:
            floating = matrix.form.floats
            own = "of_floats" if floating else "of_codes"
            given = (floats,) if floating else (codes, factors)
            kernel = self._gpu.kernel("matrix", *matrix.form.files, own, "product")
            for piece in matrix.pieces:
                begin, count = column + piece.first, -(-piece.rows // 16)
                biased = linear.bias is not None
                shape = self._shape(
                    matrix, piece.rows, piece.planes, begin, begin, linear.outputs, biased=biased
                )
                bias = self._or_nothing(linear.bias)
                group = kernel.group(shape, piece.codes, piece.scales, *given, bias, result)

                def grid(extent: Extent, count: int = count) -> tuple[int, int, int]:
                    return count, -(-rows(extent) // tile(extent)), 1

                yield Dispatch(kernel, group, grid, tile)
            column += matrix.rows

    def _combined(self, room: GpuRoom, block: _BlockWeights) -> Dispatch:
        """The parts of attention together, for the next product."""
        config = self._config
        size = config.num_heads * config.head_dim
        shape = self._uniform(
            config.num_heads, config.head_dim, padded_head(config), parts_of(room.slots),
            block.config.window, int(config.sinks), -(-size // _BLOCK), up(size, 8),
        )  # fmt: skip
        kernel = self._gpu.kernel("quantise", "combine")
        bound = shape, room.row_facts, room["mixed"], self._or_nothing(block.sinks)
        group = kernel.group(*bound, *room.activations)
        return Dispatch(kernel, group, lambda extent: (extent.rows, 1, 1))

    def _activated(self, room: GpuRoom) -> Dispatch:
        """The gated numbers of a feed-forward, for the next product."""
        config = self._config
        size = config.intermediate_size
        blocks = -(-size // _BLOCK)
        shape = self._uniform(size, blocks, up(size, 8), _KINDS[config.activation])
        kernel = self._gpu.kernel("quantise", "activate")
        groups = -(-blocks // 64)
        group = kernel.group(shape, room["gates"], *room.activations)
        return Dispatch(kernel, group, lambda extent: (groups, extent.rows, 1))

    def _shape(
        self,
        matrix: GpuMatrix,
        rows: int,
        planes: Sequence[int],
        first: int,
        column: int,
        stride: int,
        *,
        biased: bool = False,
    ) -> Buffer:
        four = (*planes, 0, 0, 0, 0)[:4]
        return self._uniform(rows, matrix.blocks, column, stride, *four, first, int(biased))

    def _uniform(self, *fields: float) -> Buffer:
        return self._gpu.uniform(self._account, fields)

    def _or_nothing(self, buffer: Buffer | None) -> Buffer:
        return self._nothing if buffer is None else buffer
