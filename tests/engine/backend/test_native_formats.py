"""ggml's formats in native blocks: the same weights bit for bit, and the products of them."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import quantize
from numpy.typing import NDArray
from stored_blocks import HALVES, Bytes, StoredRows, block_of, random_rows, widened

from engine.backend.native.library import Format, instruction_sets, library, pointer
from engine.backend.native.matrix import NATIVE_KINDS, Packed, empty, pack, unpack
from engine.backend.native.pool import ThreadPool
from engine.errors import UserFixable

Floats = NDArray[np.float32]
ISAS = instruction_sets()
KINDS = list(HALVES)
QUANTISABLE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"]
COUNTS = (*range(1, 21), 31, 32, 33, 63, 64, 65, 67)
pytestmark = pytest.mark.usefixtures("isa_as_before")


def packed_as_stored(pool: ThreadPool, rows: Bytes, kind: str) -> Packed:
    return pack(pool, StoredRows(rows, kind), ["w"], NATIVE_KINDS[kind])


def product(pool: ThreadPool, packed: Packed, x: Floats) -> Floats:
    y = np.empty((len(x), packed.struct.rows), dtype=np.float32)
    assert library().dt_matmul(pool.handle, packed.struct, pointer(x), len(x), pointer(y)) == 0
    return y


def as_bits(numbers: Floats) -> NDArray[np.uint32]:
    return numbers.view(np.uint32)


def rounded(x: Floats) -> NDArray[np.float64]:
    """Activations as products see them: int8 in blocks of 32, times their scale."""
    blocks = x.reshape(len(x), -1, 32)
    top = np.abs(blocks).max(axis=2, keepdims=True)
    whole = np.rint(blocks * (np.float32(127) / top))
    return (whole.astype(np.float64) * (top / np.float32(127))).reshape(x.shape)


def test_every_kind_is_native() -> None:
    assert set(HALVES) | {"F32", "F16", "BF16"} == set(NATIVE_KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [48, 37, 1])
def test_weights_stay_as_they_are(kind: str, rows: int, pool: ThreadPool) -> None:
    stored = random_rows(kind, rows, 768, seed=rows)
    for isa in ISAS:
        library().dt_use_isa(isa)
        packed = packed_as_stored(pool, stored, kind)
        assert np.array_equal(as_bits(unpack(packed)), as_bits(widened(stored, kind))), isa.name


@pytest.mark.parametrize("kind", QUANTISABLE)
def test_weights_that_were_quantised_stay_as_they_are(kind: str, pool: ThreadPool) -> None:
    weights = np.random.default_rng(1).normal(0, 0.02, (32, 96)).astype(np.float32)
    stored = quantize(weights, GGMLQuantizationType[kind])
    held = unpack(packed_as_stored(pool, stored, kind))
    assert np.array_equal(as_bits(held), as_bits(widened(stored, kind)))
    assert np.linalg.norm(held - weights) < 0.15 * np.linalg.norm(weights)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_the_files(kind: str) -> None:
    fmt, (weights, nbytes) = NATIVE_KINDS[kind], block_of(kind)
    assert library().dt_packed_bytes(fmt, 1024, 4096) == 1024 * 4096 // weights * nbytes
    assert library().dt_packed_bytes(fmt, 17, 512) == 32 * 512 // weights * nbytes


@pytest.mark.release(keep=15, reason="every format")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "cols"), [(130, 512), (5, 256), (70, 1792)], ids=str)
def test_one_product_whatever_computes_it(
    kind: str, rows: int, cols: int, pool: ThreadPool
) -> None:
    """Every instruction set and every number of rows gives the bits of a row alone."""
    packed = packed_as_stored(pool, random_rows(kind, rows, cols), kind)
    x = np.random.default_rng(2).standard_normal((67, cols)).astype(np.float32)
    x[3] = 0
    library().dt_use_isa(ISAS[0])
    alone = np.concatenate([product(pool, packed, x[row : row + 1]) for row in range(len(x))])
    for isa in ISAS:
        library().dt_use_isa(isa)
        for count in COUNTS if isa else (67,):
            together = product(pool, packed, x[:count])
            assert np.array_equal(as_bits(together), as_bits(alone[:count])), (isa.name, count)


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_weights_and_rounded_activations(kind: str, pool: ThreadPool) -> None:
    stored = random_rows(kind, 64, 1024)
    x = np.random.default_rng(3).standard_normal((9, 1024)).astype(np.float32)
    got = product(pool, packed_as_stored(pool, stored, kind), x)
    expected = rounded(x) @ widened(stored, kind).astype(np.float64).T
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_nothing_saturates(kind: str, sign: int, pool: ThreadPool) -> None:
    """All bits set or none, and activations at the end of their range: the largest sums."""
    weights, nbytes = block_of(kind)
    for bits in (0x00, 0x80, 0xFF):
        blocks = np.full((16, 512 // weights, nbytes), bits, dtype=np.uint8)
        for at in HALVES[kind]:
            blocks[..., at : at + 2] = np.array([0.25], np.float16).view(np.uint8)
        if kind == "MXFP4":
            blocks[..., 0] = 127
        stored = blocks.reshape(16, -1)
        packed = packed_as_stored(pool, stored, kind)
        expected = widened(stored, kind).sum(axis=1) * sign
        x = np.full((6, 512), sign, dtype=np.float32)
        for isa in ISAS:
            library().dt_use_isa(isa)
            got = product(pool, packed, x)
            np.testing.assert_allclose(got, np.tile(expected, (6, 1)), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_scales_are_refused(kind: str, pool: ThreadPool) -> None:
    weights, nbytes = block_of(kind)
    wrong: list[tuple[int, bytes]] = [(0, b"\xff")] if kind == "MXFP4" else []
    for at in HALVES[kind]:
        wrong += [(at, np.array([value], np.float16).tobytes()) for value in (np.inf, np.nan)]
    for at, scale in wrong:
        stored = random_rows(kind, 40, 512)
        start = 512 // weights // 2 * nbytes + at
        stored[36, start : start + len(scale)] = np.frombuffer(scale, np.uint8)
        for isa in ISAS:
            library().dt_use_isa(isa)
            with pytest.raises(UserFixable, match="not numbers"):
                packed_as_stored(pool, stored, kind)


def test_formats_with_large_blocks_take_whole_ones_only() -> None:
    assert library().dt_packed_bytes(Format.Q4_K, 16, 288) < 0
    with pytest.raises(ValueError, match="Q6_K"):
        empty(Format.Q6_K, 16, 128)


@pytest.mark.parametrize("kind", ["Q6_K", "Q5_1"])
def test_another_format_may_be_asked_for(kind: str, pool: ThreadPool) -> None:
    stored = random_rows(kind, 32, 256)
    held = unpack(pack(pool, StoredRows(stored, kind), ["w"], Format.F32))
    assert np.array_equal(held, widened(stored, kind))
