"""Stored rows taken apart: the parts of their blocks, each in memory of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def split_blocks(rows: NDArray[np.uint8], parts: Sequence[int]) -> list[NDArray[np.uint8]]:
    """Return the parts of the blocks of some rows.

    Args:
        rows: uint8 [rows, bytes of a row], as they are stored.
        parts: bytes of each part of a block, in their order.

    Returns:
        For each part uint8 [rows, blocks, bytes of the part], contiguous.
    """
    starts = np.cumsum([0, *parts])
    # Numpy copies items of a structure whole, and bytes one by one.
    block = np.dtype(
        {
            "names": [str(place) for place in range(len(parts))],
            "formats": [f"V{part}" for part in parts],
            "offsets": starts[:-1].tolist(),
            "itemsize": int(starts[-1]),
        }
    )
    blocks = np.ascontiguousarray(rows).view(block)
    return [
        np.ascontiguousarray(blocks[str(place)]).view(np.uint8).reshape(*blocks.shape, part)
        for place, part in enumerate(parts)
    ]
