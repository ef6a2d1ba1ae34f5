"""How fast a machine is: what calibration measures and the cost model reads. Seconds and bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.commands import KvType

SMALL_BYTES = 16 << 20
"""Of the weights of targets that two threads serve, or one."""


@dataclass(frozen=True, slots=True)
class ProductSpeed:
    """Bytes of weights per second that products with n rows get through, caches defeated.

    Attributes:
        rows: numbers of rows that were measured, ascending, 1 first.
        bytes_per_s: for each of them.
    """

    rows: tuple[int, ...]
    bytes_per_s: tuple[float, ...]

    def seconds_per_byte(self, rows: int) -> float:
        """Interpolate time between measured sizes; beyond the last, it is proportional to rows."""
        place = bisect_left(self.rows, rows)
        if place == len(self.rows):
            return rows / self.rows[-1] / self.bytes_per_s[-1]
        above = 1 / self.bytes_per_s[place]
        if place == 0 or self.rows[place] == rows:
            return above
        below = 1 / self.bytes_per_s[place - 1]
        first, last = self.rows[place - 1], self.rows[place]
        return below + (above - below) * (rows - first) / (last - first)


@dataclass(frozen=True, slots=True)
class DeviceSpeeds:
    """Speeds of one device.

    Attributes:
        device: its name in `engine.machine.facts`.
        read_bytes_per_s: plain reading of memory, caches defeated.
        products: by ggml's name of the weights' type, "Q4_0"; see `product`.
        forward_s: what a forward takes beside its blocks (a call, a launch).
        block_s: what a block takes beside its products and its keys (norms, rotations, threads
            that meet), for one row.
        row_s: the same for every further row.
        attention: bytes of keys and values per second; its "rows" are queries that meet the same
            keys: rows of the forward times heads of queries per head of keys. See `attending`.
        threads: that computed; 0 where the device has none to choose.
        small: the same with a target that is small: caches hold it, few threads serve it.
        attention8: attention to keys and values in 8 bits; None: per byte as fast as to others.
    """

    device: str
    read_bytes_per_s: float
    products: Mapping[str, ProductSpeed]
    forward_s: float = 0.0
    block_s: float = 0.0
    row_s: float = 0.0
    attention: ProductSpeed | None = None
    threads: int = 0
    small: DeviceSpeeds | None = None
    attention8: ProductSpeed | None = None

    def beside(self, target_bytes: int) -> DeviceSpeeds:
        """Return the speeds beside a target of so many bytes, whose threads serve its draft too."""
        return self.small if self.small and target_bytes <= SMALL_BYTES else self

    def product(self, kind: str) -> ProductSpeed:
        """The speed for a type of weights; of the nearest relative where it was not measured.

        Plain reading is what is left where nothing was.
        """
        for known in (kind, *_RELATIVES.get(kind, ()), *_RELATIVES[""]):
            if known in self.products:
                return self.products[known]
        return ProductSpeed((1,), (self.read_bytes_per_s,))

    def attending(self, kv: KvType = KvType.F16) -> ProductSpeed:
        """The speed of attention; plain reading where it was not measured."""
        own = self.attention8 if kv is KvType.Q8 else None
        return own or self.attention or ProductSpeed((1,), (self.read_bytes_per_s,))


_RELATIVES: Mapping[str, tuple[str, ...]] = {
    "Q4_1": ("Q4_0",),
    "Q5_0": ("Q5_1", "Q5_K"),
    "Q5_1": ("Q5_0", "Q5_K"),
    "Q2_K": ("Q3_K", "Q4_K"),
    "Q3_K": ("Q2_K", "Q4_K"),
    "Q5_K": ("Q6_K", "Q4_K"),
    "Q6_K": ("Q5_K", "Q4_K"),
    "IQ4_NL": ("Q4_0",),
    "IQ4_XS": ("IQ4_NL", "Q4_K"),
    "MXFP4": ("Q4_0",),
    "F16": ("BF16",),
    "F32": ("BF16",),
    "": ("Q4_0", "Q4_K", "Q8_0"),
}


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """Copies between the host's memory and a device's."""

    device: str
    to_bytes_per_s: float
    from_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Speeds:
    """All devices of a machine by name. `measured`: not assumed, but by calibration here."""

    devices: Mapping[str, DeviceSpeeds]
    links: Mapping[str, LinkSpeed] = field(default_factory=dict)
    measured: bool = False
