"""What Windows writes about cores is read right, on every system."""

from __future__ import annotations

import struct

from engine.machine.cores import CoreCounts, parse_cores, windows_cores


def record(efficiency: int, *masks: tuple[int, int]) -> bytes:
    """A PROCESSOR_RELATIONSHIP with (mask, group) pairs."""
    body = struct.pack("<BB20xH", 1, efficiency, len(masks))
    body += b"".join(struct.pack("<QH6x", mask, group) for mask, group in masks)
    return struct.pack("<II", 0, 8 + len(body)) + body


# Two fast cores with two threads each, four slow ones; a record of another kind between them.
HYBRID = (
    record(1, (0b11, 0))
    + record(1, (0b1100, 0))
    + struct.pack("<II8x", 3, 16)
    + b"".join(record(0, (1 << n, 0)) for n in range(4, 8))
)


def test_a_hybrid_processor() -> None:
    assert windows_cores(parse_cores(HYBRID), None) == CoreCounts(6, 8, 2)


def test_an_affinity_mask() -> None:
    assert windows_cores(parse_cores(HYBRID), 0b10011) == CoreCounts(2, 3, 1)
    assert windows_cores(parse_cores(HYBRID), 1 << 60) is None


def test_several_groups() -> None:
    """More than 64 processors: a mask speaks of the first group alone."""
    both = b"".join(record(0, (0b11 << (2 * n), group)) for group in (0, 1) for n in range(32))
    assert windows_cores(parse_cores(both), None) == CoreCounts(64, 128)
    assert windows_cores(parse_cores(both), 0b1111) == CoreCounts(2, 4)


def test_what_is_cut_off_or_empty() -> None:
    assert windows_cores(parse_cores(b""), None) is None
    assert windows_cores(parse_cores(struct.pack("<II", 0, 0)), None) is None
