"""Native forwards that are given up on the way."""

from __future__ import annotations

import numpy as np
import pytest

from engine.backend.decoder import Decoder
from engine.backend.native.calls import StepArrays
from engine.backend.native.library import CANCELLED, Format, library, pointer
from engine.backend.native.pool import CancelFlag
from engine.backend.native.segment import NativeCache, NativeSegment
from engine.backend.step import Step

Native = dict[Format, tuple[Decoder, Decoder]]


@pytest.fixture
def segment(native: Native) -> NativeSegment:
    found = native[Format.Q8][0].segments[0]
    assert isinstance(found, NativeSegment)
    assert len(found.blocks) == 3
    return found


def run(segment: NativeSegment, arrays: StepArrays, cache: NativeCache) -> int:
    handles = segment._pool.handle, segment._argument, cache.handle
    return int(library().dt_forward_tree(*handles, *arrays.arguments))


def test_a_forward_ends_at_the_next_block(segment: NativeSegment) -> None:
    """The first block's own output sets the flag: the second never runs."""
    cache, flag = segment.new_cache(64), CancelFlag()
    arrays = segment._new_arrays(8, 8)
    output = arrays.prepare(Step([5, 6, 7], [-1, 0, 1], 0, None, (0, 1), cancel=flag), None)
    assert run(segment, arrays, cache) == 0
    first, second = output.taps[0].copy(), output.taps[1].copy()
    assert first[0, 0] != 0
    output.taps[0][:], output.taps[1][:] = 0, 7

    arrays._struct.cancel = pointer(output.taps[0])
    assert run(segment, arrays, cache) == CANCELLED
    assert np.array_equal(output.taps[0], first)
    assert (output.taps[1] == 7).all()

    arrays._struct.cancel = None
    assert run(segment, arrays, cache) == 0
    assert np.array_equal(output.taps[1], second)


def test_the_head_is_not_computed_any_more(segment: NativeSegment) -> None:
    cache = segment.new_cache(64)
    arrays = segment._new_arrays(8, 8)
    output = arrays.prepare(Step([5], [-1], 0, None, (2,)), None)
    assert output.logits is not None
    output.logits[:], output.taps[2][:] = 7, 0
    arrays._struct.cancel = pointer(output.taps[2])
    assert run(segment, arrays, cache) == CANCELLED
    assert (output.logits == 7).all()
    assert output.taps[2].any()


def test_a_flag_is_set_and_cleared() -> None:
    flag = CancelFlag()
    assert not flag
    flag.set()
    assert flag
    flag.clear()
    assert not flag
