"""The cost model: seconds of forwards, for every way to cut a target in two.

A cut of `s` blocks has the first `s` of L on the accelerator and all else on the CPU; the last one,
L + 1, has the head there as well. Hidden states cross the border as fp32, and logits come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed
from engine.plan.footprint import Footprint, Look, Numbers, WeightPart

DEEPEST = 10
"""Most levels of drafting."""
ROWS = range(1, 17)
"""Rows of the forwards that are weighed."""
DRAW_S = 0.5e-9
"""Seconds to draw a token, per token of the vocabulary."""

_TREE_BYTES = 16.0 * len(ROWS)
_TOGETHER = 8
"""Queries that a thread of the CPU lets meet keys in one pass."""
_USUAL_KEY_HEADS = 8
"""KV heads of the model that attention was measured with: so many threads had work."""


@dataclass(frozen=True, slots=True)
class AcceleratorLane:
    """An accelerator as the cost model sees it: its speeds, and the way there and back."""

    speeds: DeviceSpeeds
    link: LinkSpeed
    returns_logits: bool = True
    """Whether logits come to the host; else tokens are drawn where they are."""

    def to_device(self, nbytes: Numbers) -> Numbers:
        """Return the seconds of copies to it."""
        return self.link.latency_s + nbytes / self.link.to_bytes_per_s

    def from_device(self, nbytes: Numbers) -> Numbers:
        """Return the seconds of copies from it."""
        return self.link.latency_s + nbytes / self.link.from_bytes_per_s


def slower(speeds: DeviceSpeeds, factor: float) -> DeviceSpeeds:
    """Return speeds with all rates divided by `factor`; fixed times stay."""

    def product(speed: ProductSpeed) -> ProductSpeed:
        return replace(speed, bytes_per_s=tuple(each / factor for each in speed.bytes_per_s))

    return replace(
        speeds,
        products={kind: product(speed) for kind, speed in speeds.products.items()},
        read_bytes_per_s=speeds.read_bytes_per_s / factor,
        attention=product(speeds.attending()),
        attention8=speeds.attention8 and product(speeds.attention8),
    )


class Forwards:
    """Forwards of one model on the CPU, and where there is one on an accelerator.

    The draws of all rows' tokens are included. `tokens`: of the conversation before them.
    """

    def __init__(
        self, held: Footprint, cpu: DeviceSpeeds, lane: AcceleratorLane | None, tokens: int
    ) -> None:
        self._held, self._cpu, self._lane, self._tokens = held, cpu, lane, tokens

    def seconds(self, counts: Sequence[int]) -> Numbers:
        """Return [counts, cuts]: seconds of forwards over so many rows; on a CPU alone, cut 0."""
        held, lane, rows = self._held, self._lane, np.array(counts, dtype=np.float64)
        draws = rows * held.vocab * DRAW_S
        cpu = _Products(self._cpu, counts)
        on_cpu = self._upto(cpu)
        whole = on_cpu[:, -1] + cpu.seconds(held.head) + self._cpu.forward_s + draws
        if lane is None:
            return whole[:, None]
        device = _Products(lane.speeds, counts)
        there = self._upto(device) + lane.speeds.forward_s
        hidden, ids = 4.0 * rows * held.hidden, 4.0 * rows
        border = lane.to_device(hidden) + lane.from_device(hidden)
        cuts = there + border[:, None] + (whole[:, None] - on_cpu)
        cuts[:, 0] = whole
        entry = lane.to_device(ids if held.tied else hidden)
        logits = lane.from_device(ids * held.vocab if lane.returns_logits else ids)
        last = there[:, -1] + entry + device.seconds(held.head) + logits + draws
        return np.column_stack((cuts, last))

    def level(self, width: int) -> float:
        """Return the seconds of a drafted level of so many nodes; one call drafts the tree."""
        held, speeds = self._held, self._lane.speeds if self._lane else self._cpu
        products = _Products(speeds, (width,))
        seconds = self._upto(products)[0, -1] + products.seconds(held.head)[0]
        return float(seconds + speeds.forward_s + width * held.vocab * DRAW_S)

    def call(self, features: int) -> float:
        """Return the seconds of copies for a tree drafted from features of so many tokens."""
        if self._lane is None or self._held.fusion is None:
            return 0.0
        sent = np.array(4.0 * features * self._held.fusion.width)
        return float(self._lane.to_device(sent) + self._lane.from_device(np.array(_TREE_BYTES)))

    def _upto(self, products: _Products) -> Numbers:
        """Return [counts, blocks + 1]: seconds of the first 0, 1, ... blocks on a device."""
        speeds, rows = products.speeds, products.rows
        own = speeds.block_s + speeds.row_s * (rows - 1)
        different, places = _kinds_of_blocks(self._held)
        known: dict[Look, Numbers] = {}
        seconds = []
        for part, look in different:
            if look not in known:
                each = [self._attention_seconds(look, int(count), speeds) for count in rows]
                known[look] = min(look.window or self._tokens, self._tokens) * np.array(each)
            seconds.append(own + known[look] + products.seconds(part))
        blocks = np.array(seconds)[places].T
        return np.concatenate((np.zeros((len(rows), 1)), np.cumsum(blocks, axis=1)), axis=1)

    def _attention_seconds(self, look: Look, rows: int, speeds: DeviceSpeeds) -> float:
        """Return seconds of attention of all rows to the KV cache of one token in one block."""
        queries = rows * look.queries_per_key
        seconds = look.kv_bytes * speeds.attending(self._held.kv).seconds_per_byte(queries)
        busy = min(look.key_heads * -(-queries // _TOGETHER), speeds.threads)
        return seconds * max(min(speeds.threads, _USUAL_KEY_HEADS) / max(busy, 1), 1.0)


class _Products:
    """Seconds of products with parts, for forwards over several numbers of rows."""

    def __init__(self, speeds: DeviceSpeeds, counts: Sequence[int]) -> None:
        self.speeds, self.rows = speeds, np.array(counts, dtype=np.float64)
        self._counts, self._known = counts, dict[str, Numbers]()

    def seconds(self, part: WeightPart) -> Numbers:
        """Return [counts]: seconds of products with everything in a part that a forward reads."""
        total = np.zeros(len(self._counts))
        for kind, nbytes in part.read(self.rows):
            total += nbytes * self._per_byte(kind)
        return total

    def _per_byte(self, kind: str) -> Numbers:
        if kind not in self._known:
            speed = self.speeds.product(kind)
            self._known[kind] = np.array([speed.seconds_per_byte(rows) for rows in self._counts])
        return self._known[kind]


@lru_cache(maxsize=64)
def _kinds_of_blocks(held: Footprint) -> tuple[list[tuple[WeightPart, Look]], list[int]]:
    """Return the distinct blocks with how they attend, and the index of each among them."""
    blocks = list(zip(held.blocks, held.looks, strict=True))
    different = list(dict.fromkeys(blocks))
    place = {block: index for index, block in enumerate(different)}
    return different, [place[block] for block in blocks]
