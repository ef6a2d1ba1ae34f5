"""Bytes that a forward on the simulated accelerator reads, and the declared time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.backend.native.library import (
    BlockStruct,
    Format,
    FusionKind,
    Matrix,
    Mlp,
    SegmentStruct,
    library,
)
from engine.backend.native.matrix import NATIVE_KINDS
from engine.machine.speeds import DeviceSpeeds

_KIND_OF: dict[Format, str] = {fmt: kind for kind, fmt in NATIVE_KINDS.items()}
_KV_NUMBER = 2
"""Bytes of a number among keys and values."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes of weights of one type; `chosen` is the share of them that a row goes through."""

    kind: str
    nbytes: int
    chosen: float = 1.0

    def seconds(self, rows: int, speeds: DeviceSpeeds) -> float:
        """Seconds of the products with so many rows; experts are chosen at random."""
        share = 1 - (1 - self.chosen) ** rows
        return self.nbytes * share * speeds.product(self.kind).seconds_per_byte(rows)


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes that a segment's forwards read.

    Attributes:
        blocks: weights of all blocks.
        head: weights of the head.
        features: of a feature head, those that only its target's features go through.
        kv: bytes of a token's keys and values, each with the tokens of its window; 0: all.
    """

    blocks: tuple[Reads, ...]
    head: tuple[Reads, ...]
    kv: tuple[tuple[int, int], ...]
    features: tuple[Reads, ...] = ()

    def products(
        self, rows: int, logit_rows: int, speeds: DeviceSpeeds, *, own: bool = False
    ) -> float:
        """Seconds of a forward's products.

        Args:
            rows: new tokens.
            logit_rows: those whose logits are wanted.
            speeds: of the device.
            own: a feature head goes on from what it put out itself.
        """
        seconds = sum(read.seconds(rows, speeds) for read in self.blocks)
        if not own:
            seconds += sum(read.seconds(rows, speeds) for read in self.features)
        if logit_rows:
            seconds += sum(read.seconds(logit_rows, speeds) for read in self.head)
        return seconds

    def attention(self, rows: int, tokens: int, speeds: DeviceSpeeds) -> float:
        """Seconds of a forward's attention to a sequence of so many tokens, new ones included."""
        keys = sum(nbytes * min(window or tokens, tokens) for nbytes, window in self.kv)
        return keys * speeds.attending.seconds_per_byte(rows)

    @property
    def kv_bytes(self) -> int:
        """Bytes of one token's keys and values in all blocks."""
        return sum(nbytes for nbytes, _ in self.kv)


def work_of(segment: SegmentStruct) -> Work:
    """Return what a native segment's forwards read."""
    blocks = [segment.block[index] for index in range(segment.blocks)]
    fused = list(_fusion(segment))
    features: list[Reads] = []
    if fused and segment.fusion.contents.kind == FusionKind.EAGLE3:
        fused, features = [], fused
    per_token = 2 * _KV_NUMBER * segment.kv_heads * segment.head_dim
    return Work(
        blocks=_summed([*fused, *(read for block in blocks for read in _block(block))]),
        head=_summed([*_matrices([segment.head])]),
        kv=tuple(
            (per_token * count, window)
            for window, count in Counter(block.window for block in blocks).items()
        ),
        features=_summed(features),
    )


def _block(block: BlockStruct) -> Iterator[Reads]:
    experts = block.experts
    yield from _matrices([*block.qkv, block.out, *_mlp(block.mlp), experts.router])
    for index in range(experts.count):
        yield from _matrices(_mlp(experts.expert[index]), experts.used / experts.count)


def _fusion(segment: SegmentStruct) -> Iterator[Reads]:
    if segment.fusion:
        fusion = segment.fusion.contents
        yield from _matrices([fusion.feature, fusion.token, fusion.gate])


def _mlp(mlp: Mlp) -> list[Matrix]:
    return [*mlp.gate_up, mlp.down]


def _matrices(matrices: Sequence[Matrix], chosen: float = 1.0) -> Iterator[Reads]:
    for matrix in matrices:
        if matrix.rows:
            nbytes = library().dt_packed_bytes(matrix.format, matrix.rows, matrix.cols)
            yield Reads(_KIND_OF[Format(matrix.format)], nbytes, chosen)


def _summed(reads: Sequence[Reads]) -> tuple[Reads, ...]:
    sums: Counter[tuple[str, float]] = Counter()
    for read in reads:
        sums[read.kind, read.chosen] += read.nbytes
    return tuple(Reads(kind, nbytes, chosen) for (kind, chosen), nbytes in sums.items())
