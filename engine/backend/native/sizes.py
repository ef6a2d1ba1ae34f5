"""Bytes that native segments, caches and calls take, without computing anything: for planning.

The allocators ask the library itself; that both agree is tested.
"""

from __future__ import annotations

CHUNK = 64
"""Keys lie in chunks of so many slots."""
LANES = 16


def cache_bytes(blocks: int, kv_heads: int, head_dim: int, slots: int) -> int:
    """Keys and values of one sequence, fp16."""
    padded = -(-head_dim // LANES) * LANES
    chunks = -(-slots // CHUNK)
    return blocks * kv_heads * padded * chunks * CHUNK * 2 * 2
