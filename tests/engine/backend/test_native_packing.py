"""Packing weights: the same bits everywhere, small errors, no nonsense let in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backend.native.cached_weights import layout
from engine.backend.native.library import Format, Isa, instruction_sets, library, pointer
from engine.backend.native.matrix import PACKABLE, Stretch, pack, pack_rows, unpack
from engine.backend.native.pool import ThreadPool
from engine.errors import UserFixable

Floats = NDArray[np.float32]
ISAS = instruction_sets()
pytestmark = pytest.mark.usefixtures("isa_as_before")
ODD = [(16, 32), (48, 96), (37, 75), (1, 1), (15, 200)]


class Stored:
    """A matrix as files hold it, read in stretches of 16 rows."""

    def __init__(self, stored: Stretch, wide: Floats) -> None:
        self.stored, self.wide = stored, wide

    def float32(self, name: str) -> Floats:
        raise AssertionError(f"{name} is read as a whole")

    def shape(self, name: str) -> tuple[int, ...]:
        del name
        return self.stored.shape

    def kind(self, name: str) -> str:
        del name
        return {"float32": "F32", "float16": "F16", "uint16": "BF16"}[self.stored.dtype.name]

    def stretches(self, name: str) -> Iterator[Stretch]:
        del name
        for first in range(0, len(self.stored), 16):
            yield self.stored[first : first + 16]


def weights(rows: int, cols: int) -> Floats:
    rng = np.random.default_rng(rows + cols)
    spread = np.exp(rng.normal(0, 2, (rows, 1)))
    made = (rng.standard_normal((rows, cols)) * spread).astype(np.float32)
    made[rng.random((rows, cols)) < 0.05] = 0
    return made


@pytest.mark.parametrize("fmt", PACKABLE)
@pytest.mark.parametrize(("rows", "cols"), ODD)
def test_every_instruction_set_packs_the_same_bytes(
    fmt: Format, rows: int, cols: int, pool: ThreadPool
) -> None:
    packed = []
    for isa in ISAS:
        assert library().dt_use_isa(isa) == 0
        packed.append(pack_rows(pool, weights(rows, cols), fmt).data)
    assert all(np.array_equal(data, packed[0]) for data in packed)


def test_a_layout_is_known_by_what_it_makes() -> None:
    assert len({layout(fmt) for fmt in PACKABLE}) == len(PACKABLE)
    before = layout(Format.Q4)
    layout.cache_clear()
    library().dt_use_isa(Isa.PORTABLE)
    assert layout(Format.Q4) == before


@pytest.mark.parametrize("fmt", PACKABLE)
@pytest.mark.parametrize("stored", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "cols"), [(48, 96), (37, 75)])
def test_stored_weights_are_packed_as_if_widened_first(
    fmt: Format, stored: str, rows: int, cols: int, pool: ThreadPool
) -> None:
    wide = weights(rows, cols)
    source: Stretch
    if stored == "bfloat16":
        source = (wide.view(np.uint32) >> 16).astype(np.uint16)
        wide = (source.astype(np.uint32) << 16).view(np.float32)
    else:
        source = wide.astype(stored)
        wide = source.astype(np.float32)
    for isa in ISAS:
        library().dt_use_isa(isa)
        packed = pack(pool, Stored(source, wide), ["w"], fmt)
        assert np.array_equal(packed.data, pack_rows(pool, wide, fmt).data), isa.name


def test_four_bits_cost_as_little_as_they_can(pool: ThreadPool) -> None:
    """Close to the best of all scales, block by block; the obvious scale costs 12 % more."""
    x = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
    ours = ((unpack(pack_rows(pool, x, Format.Q4)) - x) ** 2).sum()
    blocks = x.reshape(-1, 32)
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)

    def error(factor: float) -> NDArray[np.float64]:
        scale = (extreme / -8 * factor).astype(np.float16).astype(np.float64)
        q = np.clip(np.rint(blocks / scale), -8, 7)
        return np.asarray(((q * scale - blocks) ** 2).sum(1))

    best = np.min([error(factor) for factor in np.linspace(0.7, 1.3, 121)], axis=0).sum()
    assert ours < 1.005 * best
    assert ours < 0.9 * error(1.0).sum()


def test_eight_bits_are_rounded_to_nearest(pool: ThreadPool) -> None:
    x = weights(32, 64)
    top = np.abs(x.reshape(32, 2, 32)).max(axis=2, keepdims=True)
    off = np.abs(unpack(pack_rows(pool, x, Format.Q8)) - x).reshape(32, 2, 32)
    assert (off <= top * (0.5 / 127 + 127 * 2.0**-11 / 127)).all()


@pytest.mark.parametrize("fmt", PACKABLE)
def test_tiny_and_huge_weights_stay_finite(fmt: Format, pool: ThreadPool) -> None:
    x = np.zeros((16, 160), dtype=np.float32)
    for block, size in enumerate((1e-40, 1e-9, 6e-5, 6e4, 0)):
        x[:, block * 32 : block * 32 + 32] = np.linspace(-size, size, 32)
    if fmt in (Format.Q4, Format.Q8):
        x[:, 128:] = np.linspace(-3e38, 3e38, 32)
    results = []
    for isa in ISAS:
        library().dt_use_isa(isa)
        results.append(unpack(pack_rows(pool, x, fmt)))
        assert np.isfinite(results[-1]).all()
    assert all(np.array_equal(result, results[0]) for result in results)
    np.testing.assert_allclose(results[0][:, 64:128], x[:, 64:128], rtol=0.3, atol=6e3)


@pytest.mark.parametrize("fmt", PACKABLE)
@pytest.mark.parametrize("stored", [np.float32, np.float16, np.uint16])
@pytest.mark.parametrize("place", [(0, 0), (36, 74), (16, 31), (20, 64)])
def test_what_is_no_number_is_refused(
    fmt: Format, stored: type[np.generic], place: tuple[int, int], pool: ThreadPool
) -> None:
    bits: list[float] = [0x7F80, 0xFFC0] if stored is np.uint16 else [np.inf, np.nan]
    for isa in ISAS:
        library().dt_use_isa(isa)
        for value in bits:
            source = np.zeros((37, 75), dtype=stored)
            source[place] = value
            with pytest.raises(UserFixable, match="not numbers") as refused:
                pack(pool, Stored(source, np.zeros(1, np.float32)), ["the.name"], fmt)
            assert "the.name" in refused.value.details


# -- checksums -------------------------------------------------------------------------------


def checksum(data: NDArray[np.uint8], threads: int = 2) -> int:
    pool = ThreadPool(threads)
    return int(library().dt_checksum(pool.handle, pointer(data), data.nbytes))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 100_003])
def test_checksums_notice_any_change(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    seen = {checksum(data)}
    assert {checksum(data, threads) for threads in (1, 2, 3)} == seen
    places = [place for place in (0, 1, 8, 64, size // 2, size - 1) if 0 <= place < size]
    for place in dict.fromkeys(places):
        for bit in (1, 128):
            changed = data.copy()
            changed[place] ^= bit
            seen.add(checksum(changed))
    longer = np.append(data, np.uint8(0))
    seen.update((checksum(longer), checksum(data[:-1])))
    assert len(seen) == 1 + 2 * len(dict.fromkeys(places)) + (2 if size else 1)


def test_checksums_notice_order() -> None:
    data = np.arange(8192, dtype=np.uint8).reshape(-1, 64)
    swapped = data.copy()
    swapped[[3, 90]] = swapped[[90, 3]]
    twice = data.copy()
    twice[10, 7] ^= 128
    twice[12, 7] ^= 128  # two flips of the top bit in the same lane
    assert len({checksum(part.reshape(-1)) for part in (data, swapped, twice)}) == 3
