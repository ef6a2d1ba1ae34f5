"""The steps that forwards are made of: kernels bound to buffers, and how much of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.backend.ledger import Account, Purpose
from engine.backend.webgpu.gpu import Buffer, BufferRegion, Gpu, Group, Kernel
from engine.backend.webgpu.matrix import GpuMatrix
from engine.backend.webgpu.room import GpuRoom
from engine.backend.webgpu.sizes import LARGEST_TILE, LARGEST_WIDE, PASS_ROWS, most_tiles, up
from engine.model.config import Experts, ModelConfig

_BLOCK, _LANES = 32, 64
_NARROW = 4
"""Devices whose tiles have no more rows than this also take narrower tiles of prompts."""
_LOOKING = 8
"""Rows whose attention shares what is read of the keys, at most."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of a pass.

    Attributes:
        rows: that are computed.
        wanted: rows whose logits are wanted.
        keys: that its last row may look at.
        largest: rows that products take together at most, but for prompts.
        chain: every row sees all rows before it.
        nodes: that states walk over: tokens to take in, staged ones, and the rows.
    """

    rows: int
    wanted: int
    keys: int
    largest: int
    chain: bool = False
    nodes: int = 0


def tile_of(rows: int, largest: int) -> int:
    """Return how many of the rows a product takes together: 1, 2, 4, ..., and 32 or 64 of many."""
    wide = LARGEST_WIDE if largest > _NARROW else LARGEST_WIDE // 2
    if rows > wide // 2:
        return wide
    tile = 1
    while tile < min(rows, largest):
        tile *= 2
    return tile


def expert_tile(experts: Experts, extent: Extent) -> int:
    """Return how many of the rows that chose an expert a product takes together."""
    usual = -(-extent.rows * experts.used // experts.count)
    return min(tile_of(usual, extent.largest), extent.largest, LARGEST_TILE)


def rows_that_look(extent: Extent) -> int:
    """Return how many rows look at the keys together: some of a long chain."""
    together = min(extent.largest, _LOOKING)
    return together if extent.chain and extent.rows > 2 * together else 1


Grid = Callable[[Extent], tuple[int, int, int]]
Tile = Callable[[Extent], int]


def _alone(_extent: Extent) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class GpuRows:
    """Rows of fp32 numbers in a buffer; `stride`: from one to the next, 0: as many as they have."""

    buffer: Buffer
    size: int
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A kernel, what it is bound to, its workgroups, and how many rows each takes together.

    `weights`: bytes that each row of workgroups reads of a matrix.
    """

    kernel: Kernel
    group: Group
    grid: Grid
    tile: Tile = _alone
    weights: int = 0

    def compile(self, largest: int) -> None:
        """Compile the kernel for whatever rows there will be, so that no answer waits for it."""
        for rows in (1, 2, 4, 8, 16, 32, PASS_ROWS):
            self.kernel.pipeline(self.tile(Extent(rows, rows, rows, largest, chain=True)))

    def encode(self, gpu: Gpu, work: Any, extent: Extent) -> None:  # noqa: ANN401
        """Append it to a compute pass."""
        work.set_pipeline(self.kernel.pipeline(self.tile(extent)))
        work.set_bind_group(0, self.group)
        grid = self.grid(extent)
        work.dispatch_workgroups(*grid)
        gpu.counts.weights += self.weights * grid[1]
        counts = gpu.counts.dispatches
        counts[self.kernel.name] = counts.get(self.kernel.name, 0) + 1


@dataclass(frozen=True, slots=True)
class Linear:
    """Matrices with one input, side by side, and a bias over all of their outputs."""

    matrices: list[GpuMatrix]
    bias: Buffer | None

    @property
    def outputs(self) -> int:
        """Numbers that it gives for each row."""
        return sum(matrix.rows for matrix in self.matrices)


class Stages:
    """Makes the steps that do not depend on what a model is.

    Args:
        gpu: the device.
        account: where shapes are entered.
        config: of the model.

    Attributes:
        nothing: bound where a kernel has a buffer that it does not read.
    """

    def __init__(self, gpu: Gpu, account: Account, config: ModelConfig) -> None:
        self.gpu, self._account, self._config = gpu, account, config
        account.take(Purpose.WORKSPACE, 16).lasts_as_long_as(self)
        self.nothing = gpu.buffer(16)

    def uniform(self, *fields: float) -> Buffer:
        """Return a buffer with numbers that a kernel reads."""
        return self.gpu.uniform(self._account, fields)

    def embedded(self, room: GpuRoom, matrix: GpuMatrix, result: Buffer) -> Iterator[Dispatch]:
        """Turn tokens into rows of the embedding, scaled."""
        config = self._config
        entry = self.uniform(config.hidden_size, float(config.embedding_scale))
        widen = "widen_floats" if matrix.form.floats else "widen_codes"
        kernel = self.gpu.kernel("matrix", *matrix.form.files, widen, "embed")
        for piece in matrix.pieces:
            shape = self._shape(matrix, piece.rows, piece.planes, piece.first, 0, 0)
            bound = shape, piece.codes, piece.scales, entry, room.row_facts, result
            yield Dispatch(kernel, kernel.group(*bound), _by_rows(-(-matrix.blocks // _LANES)))

    def normed(
        self,
        room: GpuRoom,
        source: Buffer,
        weight: Buffer | None,
        *,
        added: bool = False,
        added_weight: Buffer | None = None,
        result: Buffer | None = None,
    ) -> Dispatch:
        """Norm rows of hidden states for the next product.

        Args:
            room: the buffers.
            source: fp32 [rows, d].
            weight: of the norm; None: there is none.
            added: what products have left in `added` is added to the source first.
            added_weight: of the norm that this goes through before; None: there is none.
            result: fp32 [rows, d to whole eights]; None: where products read it.
        """
        config, hidden = self._config, self._config.hidden_size
        shape = self.uniform(
            hidden, -(-hidden // _BLOCK), up(hidden, 8), int(added),
            int(added_weight is not None), int(weight is not None), float(config.rms_norm_eps),
        )  # fmt: skip
        kernel = self.gpu.kernel("quantise", "norm")
        floats, codes, factors = room.activations
        group = kernel.group(
            shape, source, room["added"], self.or_nothing(added_weight), self.or_nothing(weight),
            floats if result is None else result, codes, factors,
        )  # fmt: skip
        return Dispatch(kernel, group, lambda extent: (extent.rows, 1, 1))

    def gathered(
        self,
        room: GpuRoom,
        first: GpuRows,
        second: GpuRows | None = None,
        *,
        silu: bool = False,
        wanted: BufferRegion | None = None,
    ) -> Dispatch:
        """Bring rows, or those of two buffers side by side, to the next product.

        Args:
            room: the buffers.
            first, second: the rows.
            silu: of the second.
            wanted: numbers of the rows that are wanted; None: all.
        """
        second = second or GpuRows(self.nothing, 0)
        size = first.size + second.size
        blocks = -(-size // _BLOCK)
        shape = self.uniform(
            first.size, first.stride or first.size, second.size, second.stride or second.size,
            int(silu), int(wanted is None), up(size, 8), blocks,
        )  # fmt: skip
        kernel = self.gpu.kernel("quantise", "gather")
        chosen = self.nothing if wanted is None else wanted
        group = kernel.group(shape, chosen, first.buffer, second.buffer, *room.activations)
        groups = -(-blocks // _LANES)
        if wanted is None:
            return Dispatch(kernel, group, _by_rows(groups))
        return Dispatch(kernel, group, lambda extent: (groups, extent.wanted, 1))

    def products(
        self,
        room: GpuRoom,
        linear: Linear,
        result: Buffer,
        rows: Callable[[Extent], int] = lambda extent: extent.rows,
    ) -> Iterator[Dispatch]:
        """Multiply what was brought there with all pieces of matrices side by side."""
        column = 0
        floats, codes, factors = room.activations

        def tile(extent: Extent) -> int:
            return tile_of(rows(extent), extent.largest)

        for matrix in linear.matrices:
            floating = matrix.form.floats
            own = "of_floats" if floating else "of_codes"
            given = (floats,) if floating else (codes, factors)
            kernel = self.gpu.kernel("matrix", *matrix.form.files, own, "outputs", "product")
            for piece in matrix.pieces:
                begin, outputs = column + piece.first, piece.rows
                biased = linear.bias is not None
                shape = self._shape(
                    matrix, piece.rows, piece.planes, begin, begin, linear.outputs, biased=biased
                )
                bias = self.or_nothing(linear.bias)
                group = kernel.group(shape, piece.codes, piece.scales, *given, bias, result)

                def grid(extent: Extent, outputs: int = outputs) -> tuple[int, int, int]:
                    together = tile(extent)
                    each = 16 if together <= LARGEST_TILE else 64
                    return -(-outputs // each), -(-rows(extent) // together), 1

                yield Dispatch(kernel, group, grid, tile, piece.nbytes)
            column += matrix.rows

    def expert_products(
        self, room: GpuRoom, experts: Experts, linear: Linear, result: Buffer, sharing: int
    ) -> Iterator[Dispatch]:
        """Multiply what was brought there with the experts that the rows have chosen.

        Args:
            room: the buffers.
            experts: of the block.
            linear: matrices of all experts, one expert below the other.
            result: fp32 [places, outputs of an expert].
            sharing: places that have one row of what was brought.
        """
        column, stride = 0, linear.outputs // experts.count
        floats, codes, factors = room.activations
        sorted_at = 3 * most_tiles(experts, room.rows)

        def tile(extent: Extent) -> int:
            return expert_tile(experts, extent)

        for matrix in linear.matrices:
            floating, outputs = matrix.form.floats, matrix.rows // experts.count
            own = "of_floats" if floating else "of_codes"
            given = (floats,) if floating else (codes, factors)
            kernel = self.gpu.kernel("matrix", *matrix.form.files, own, "expert_outputs", "product")

            def grid(extent: Extent, outputs: int = outputs) -> tuple[int, int, int]:
                places, together = extent.rows * experts.used, tile(extent)
                rest = min(places, experts.count) if together > 1 else 0
                return -(-outputs // 16), places // together + rest, 1

            for piece in matrix.pieces:
                shape = self._shape(
                    matrix, outputs, piece.planes, piece.first, column, stride,
                    biased=linear.bias is not None, experts=(piece.rows, sorted_at, sharing),
                )  # fmt: skip
                group = kernel.group(
                    shape, piece.codes, piece.scales, *given,
                    self.or_nothing(linear.bias), result, room["routes"],
                )  # fmt: skip
                yield Dispatch(kernel, group, grid, tile, piece.nbytes // experts.count)
            column += outputs

    def or_nothing(self, buffer: Buffer | None) -> Buffer:
        """Return the buffer, or one without content."""
        return self.nothing if buffer is None else buffer

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
        experts: tuple[int, int, int] = (0, 0, 0),
    ) -> Buffer:
        """Numbers as matrix.wgsl has them; `experts`: the last three."""
        four = (*planes, 0, 0, 0, 0)[:4]
        every = (*four, first, int(biased), *experts)
        return self.uniform(rows, matrix.blocks, column, stride, *every)


def _by_rows(groups: int) -> Grid:
    return lambda extent: (groups, extent.rows, 1)
