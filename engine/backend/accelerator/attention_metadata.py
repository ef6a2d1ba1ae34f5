"""Attention metadata: from a forward's integers to rotations, places in the cache and masks."""

from __future__ import annotations

import torch

from engine.backend.accelerator.attention import AttentionMetadata, Tile
from engine.backend.accelerator.input_buffers import InputBuffers
from engine.backend.accelerator.sizes import TILE_ROWS
from engine.backend.accelerator.tree_state import Rows
from engine.backend.step import CHUNK
from engine.model.config import ModelConfig, RopeConfig
from engine.model.rope import rotations


class MetadataMaker:
    """Makes the metadata of a segment's forwards.

    Args:
        blocks: those of the segment.

    Attributes:
        positions: for so many there are rotations; they move when there are more.
    """

    def __init__(self, config: ModelConfig, blocks: range, device: torch.device) -> None:
        own = [config.blocks[index] for index in blocks]
        self._ropes = dict.fromkeys(block.rope for block in own if block.rope is not None)
        self._windows = {block.window for block in own}
        self._kv_heads, self._device = config.num_kv_heads, device
        self.positions = 0
        self._tables: dict[RopeConfig, tuple[torch.Tensor, torch.Tensor]] = {}

    def reach(self, positions: int) -> None:
        """Make rotations for so many positions, [positions, rotated / 2]; callers enter them."""
        if positions <= self.positions:
            return
        self.positions = positions
        for rope in self._ropes:
            cos, sin = rotations(rope, positions)
            self._tables[rope] = (
                torch.from_numpy(cos).to(self._device),
                torch.from_numpy(sin).to(self._device),
            )

    def of_inputs(self, inputs: InputBuffers, chunks: int) -> AttentionMetadata:
        """Metadata of rows that look at the first `chunks` chunks of the cache."""
        tiles = [
            self._tile(inputs, start, chunks) for start in range(0, inputs.shape.rows, TILE_ROWS)
        ]
        turns = {rope: self._turns(rope, inputs.positions) for rope in self._ropes}
        return AttentionMetadata(turns, self._rows_of(inputs.slots.view(-1, 1)), tiles)

    def of_drafted(self, rows: Rows, chunks: int) -> AttentionMetadata:
        """Metadata of drafted nodes that look at the first `chunks` chunks of the cache.

        Their own paths lie in it by slot, and are masked there: the order in which a draft sums up
        its keys is nobody's concern, and nothing has to be gathered.
        """
        keys = torch.arange(chunks * CHUNK, dtype=torch.int64, device=rows.slots.device)
        before = keys < rows.start
        seen = before.expand(TILE_ROWS, -1).clone()
        seen.scatter_(1, rows.paths.clamp(max=len(keys) - 1), True)
        level = torch.div(keys - rows.start, rows.width, rounding_mode="floor")
        places = torch.where(before, keys, rows.start + level)
        own = rows.positions.unsqueeze(1)
        masks = {}
        for window in self._windows:
            shown = seen & (places > own - window) if window else seen
            apart = shown.view(TILE_ROWS, chunks, CHUNK).transpose(0, 1)
            hidden = ~apart.reshape(chunks, 1, TILE_ROWS, 1, CHUNK)
            mask = torch.zeros(hidden.shape, device=keys.device)
            masks[window] = mask.masked_fill_(hidden, -torch.inf)
        turns = {rope: self._turns(rope, rows.positions) for rope in self._ropes}
        return AttentionMetadata(
            turns, self._rows_of(rows.slots.view(-1, 1)), [Tile(chunks, masks, None)]
        )

    def _turns(
        self, rope: RopeConfig, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = (table.index_select(0, positions) for table in self._tables[rope])
        both, signed = torch.cat((cos, cos), dim=1), torch.cat((-sin, sin), dim=1)
        return both.unsqueeze(1), signed.unsqueeze(1)

    def _rows_of(self, slots: torch.Tensor) -> torch.Tensor:
        """Rows of a block's cache that hold slots [groups, count]: [groups * kv heads * count]."""
        wide = slots.long().unsqueeze(1)
        first = torch.div(wide, CHUNK, rounding_mode="floor") * (self._kv_heads * CHUNK)
        heads = torch.arange(self._kv_heads, device=slots.device).view(1, -1, 1) * CHUNK
        return (first + wide % CHUNK + heads).reshape(-1)

    def _tile(self, inputs: InputBuffers, start: int, chunks: int) -> Tile:
        rows = slice(start, start + TILE_ROWS)
        own = inputs.positions[rows].view(1, 1, TILE_ROWS, 1, 1)
        keys = torch.arange(chunks * CHUNK, dtype=torch.int32, device=own.device)
        hidden = keys.view(-1, 1, 1, 1, CHUNK)
        behind: torch.Tensor | None = None
        tail = inputs.shape.tail
        if tail:
            behind = hidden >= inputs.base
            after = inputs.base + torch.arange(tail * CHUNK, dtype=torch.int32, device=own.device)
            hidden = torch.cat((hidden, after.view(-1, 1, 1, 1, CHUNK)))
        masks = {window: self._mask(hidden, own, window, behind) for window in self._windows}
        paths = inputs.tail[rows].reshape(TILE_ROWS * tail, CHUNK) if tail else None
        return Tile(chunks, masks, None if paths is None else self._rows_of(paths))

    def _mask(
        self, keys: torch.Tensor, own: torch.Tensor, window: int, behind: torch.Tensor | None
    ) -> torch.Tensor:
        """0 where rows at positions `own` may look at keys, -inf elsewhere.

        `behind` tells of the first keys those that the rows' own paths replace.
        """
        hidden = keys > own
        if window:
            hidden |= keys <= own - window
        if behind is not None:
            hidden[: len(behind)] |= behind
        return torch.zeros(hidden.shape, device=own.device).masked_fill_(hidden, -torch.inf)
