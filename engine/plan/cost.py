"""The cost model: seconds of forwards, for every way to cut a target in two.

A cut of `s` blocks has the first `s` of L on the accelerator and all else on the CPU; the last one,
L + 1, has the head there as well. Hidden states cross the border as fp32, and logits come back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.plan.footprint import Footprint, Part
from engine.plan.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed

Numbers = NDArray[np.float64]

DEEPEST = 10
"""Most tokens of a drafted chain."""
ROWS = range(1, DEEPEST + 2)
"""Rows of the forwards that are weighed."""
DRAW_S = 0.5e-9
"""Seconds to draw a token, per token of the vocabulary."""

_TOGETHER = 8
"""Queries that a thread of the CPU lets meet keys in one pass."""
_USUAL_KEY_HEADS = 8
"""Of the model that attention was measured with: so many threads had something to do."""


@dataclass(frozen=True, slots=True)
class Lane:
    """An accelerator as the cost model sees it: its speeds, and the way there and back."""

    speeds: DeviceSpeeds
    link: LinkSpeed
    returns_logits: bool = True
    """Whether logits come to the host; else tokens are drawn where they are."""

    def to_device(self, nbytes: float) -> float:
        """Seconds of a copy to it."""
        return self.link.latency_s + nbytes / self.link.to_bytes_per_s

    def from_device(self, nbytes: float) -> float:
        """Seconds of a copy from it."""
        return self.link.latency_s + nbytes / self.link.from_bytes_per_s


def slower(speeds: DeviceSpeeds, factor: float) -> DeviceSpeeds:
    """A device with less to compute with."""

    def product(speed: ProductSpeed) -> ProductSpeed:
        return replace(speed, bytes_per_s=tuple(each / factor for each in speed.bytes_per_s))

    return replace(
        speeds,
        products={kind: product(speed) for kind, speed in speeds.products.items()},
        read_bytes_per_s=speeds.read_bytes_per_s / factor,
        attention=product(speeds.attending),
    )


def part_seconds(part: Part, rows: int, speeds: DeviceSpeeds) -> float:
    """Products with everything in a part that a forward over so many rows reads."""
    return sum(
        nbytes * speeds.product(kind).seconds_per_byte(rows) for kind, nbytes in part.read(rows)
    )


class Forwards:
    """Forwards of one model on the CPU, and where there is one on an accelerator.

    The draws of all rows' tokens are included. `tokens`: of the conversation before them.
    """

    def __init__(self, held: Footprint, cpu: DeviceSpeeds, lane: Lane | None, tokens: int) -> None:
        self._held, self._cpu, self._lane, self._tokens = held, cpu, lane, tokens
        blocks = list(zip(held.blocks, held.windows, strict=True))
        self._different = list(dict.fromkeys(blocks))  # a few, however many blocks
        place = {block: index for index, block in enumerate(self._different)}
        self._places = [place[block] for block in blocks]

    def seconds(self, rows: int) -> Numbers:
        """[cuts] of a forward over so many rows; without an accelerator the only cut is 0."""
        held, cpu, lane = self._held, self._cpu, self._lane
        draws = rows * held.vocab * DRAW_S
        on_cpu = self._upto(rows, cpu)
        whole = on_cpu[-1] + part_seconds(held.head, rows, cpu) + cpu.forward_s + draws
        if lane is None:
            return np.array([whole])
        there = self._upto(rows, lane.speeds) + lane.speeds.forward_s
        hidden = 4.0 * rows * held.hidden
        cuts = there + lane.to_device(hidden) + lane.from_device(hidden) + (whole - on_cpu)
        cuts[0] = whole
        entry = lane.to_device(4.0 * rows if held.tied else hidden)
        head = part_seconds(held.head, rows, lane.speeds)
        logits = lane.from_device(4.0 * rows * held.vocab if lane.returns_logits else 4.0 * rows)
        return np.append(cuts, there[-1] + entry + head + logits + draws)

    def _upto(self, rows: int, speeds: DeviceSpeeds) -> Numbers:
        """[blocks + 1]: the first 0, 1, ... blocks on a device."""
        own = speeds.block_s + speeds.row_s * (rows - 1)
        attention = self._attention_seconds(rows, speeds)
        parts = [
            own
            + min(window or self._tokens, self._tokens) * attention
            + part_seconds(part, rows, speeds)
            for part, window in self._different
        ]
        return np.cumsum([0.0, *(parts[place] for place in self._places)])

    def _attention_seconds(self, rows: int, speeds: DeviceSpeeds) -> float:
        """Of all rows with the keys and values of one token in one block."""
        held = self._held
        queries = rows * held.queries_per_key
        seconds = held.kv_bytes_per_block * speeds.attending.seconds_per_byte(queries)
        busy = min(held.key_heads * -(-queries // _TOGETHER), speeds.threads)
        return seconds * max(min(speeds.threads, _USUAL_KEY_HEADS) / max(busy, 1), 1.0)
