"""GGUF files written by hand, so that every field can be wrong."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

U32, F32, FLAG, TEXT, LIST = 4, 6, 7, 8, 9
SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
ALIGNMENT = 32


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, content: object) -> bytes:
    if isinstance(content, str | bytes):
        return text(content)
    return struct.pack(f"<{SCALARS[kind]}", content)


def pair(key: str | bytes, kind: int, content: object) -> bytes:
    """A key and its value: one, or a list of them."""
    if isinstance(content, list):
        head = struct.pack("<IIQ", LIST, kind, len(content))
        return text(key) + head + b"".join(value(kind, one) for one in content)
    return text(key) + struct.pack("<I", kind) + value(kind, content)


@dataclass(frozen=True, slots=True)
class Info:
    """A tensor as the header describes it; dims as ggml counts them, columns first."""

    name: str | bytes = "w"
    dims: Sequence[int] = (32, 4)
    kind: int = 0
    offset: int = 0

    def bytes(self) -> bytes:
        sizes = struct.pack(f"<I{len(self.dims)}Q", len(self.dims), *self.dims)
        return text(self.name) + sizes + struct.pack("<IQ", self.kind, self.offset)


def header(
    pairs: Iterable[bytes] = (),
    tensors: Iterable[Info] = (),
    *,
    version: int = 3,
    magic: bytes = b"GGUF",
    tensor_count: int | None = None,
    pair_count: int | None = None,
) -> bytes:
    """A table of contents, without the padding behind it."""
    pairs, tensors = list(pairs), list(tensors)
    tensor_count = len(tensors) if tensor_count is None else tensor_count
    pair_count = len(pairs) if pair_count is None else pair_count
    head = magic + struct.pack("<IQQ", version, tensor_count, pair_count)
    return head + b"".join(pairs) + b"".join(one.bytes() for one in tensors)


def padded(head: bytes, data: bytes = b"", alignment: int = ALIGNMENT) -> bytes:
    """A whole file: the table of contents, padding, data."""
    return head + bytes(-len(head) % alignment) + data


def noise(count: int) -> bytes:
    return np.random.default_rng(1).integers(0, 256, count, dtype=np.uint8).tobytes()
