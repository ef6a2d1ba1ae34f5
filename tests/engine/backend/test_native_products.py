"""The native products against their definition in numpy, on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backend.native.library import Format, instruction_sets, library, pointer
from engine.backend.native.matrix import PACKABLE, Packed, pack, unpack
from engine.backend.native.pool import ThreadPool

Floats = NDArray[np.float32]
ISAS = instruction_sets()
pytestmark = pytest.mark.usefixtures("isa_as_before")


class One:
    """Weights with a single tensor."""

    def __init__(self, tensor: Floats) -> None:
        self.tensor = tensor

    def float32(self, name: str) -> Floats:
        del name
        return self.tensor


def weights(rows: int, cols: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    spread = np.exp(rng.normal(0, 1, (rows, 1)))
    return (rng.standard_normal((rows, cols)) * spread).astype(np.float32)


def product(pool: ThreadPool, packed: Packed, x: Floats) -> Floats:
    y = np.empty((len(x), packed.struct.rows), dtype=np.float32)
    assert library().dt_matmul(pool.handle, packed.struct, pointer(x), len(x), pointer(y)) == 0
    return y


def by_definition(packed: Packed, x: Floats) -> Floats:
    """Integer dot products per block of 32, summed in fp32 in ascending order."""
    matrix = unpack(packed).astype(np.float64)
    rows, cols = matrix.shape
    padding = -cols % 32
    matrix = np.pad(matrix, ((0, 0), (0, padding))).reshape(rows, -1, 32)
    blocks = np.pad(x, ((0, 0), (0, padding))).reshape(len(x), -1, 32)
    top = np.abs(blocks).max(axis=2)
    inverse = np.divide(np.float32(127), top, out=np.zeros_like(top), where=top > 0)
    whole = np.rint(blocks * inverse[..., None])
    scale = (top / np.float32(127)).astype(np.float64)
    parts = np.einsum("mbi,nbi->mnb", whole, matrix) * scale[:, None, :]
    return np.asarray(parts.sum(axis=2), dtype=np.float32)


@pytest.mark.parametrize("fmt", [Format.Q4, Format.Q8])
@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (48, 96), (70, 90), (5, 31), (130, 256)])
def test_quantised_products_match_their_definition(
    fmt: Format, rows: int, cols: int, pool: ThreadPool
) -> None:
    packed = pack(pool, One(weights(rows, cols)), ["w"], fmt)
    x = np.random.default_rng(1).standard_normal((19, cols)).astype(np.float32)
    results = []
    for isa in ISAS:
        assert library().dt_use_isa(isa) == 0
        results.append(product(pool, packed, x))
    expected = by_definition(packed, x)
    np.testing.assert_allclose(results[0], expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())
    for isa, result in zip(ISAS, results, strict=True):
        assert np.array_equal(result, results[0]), isa.name


@pytest.mark.parametrize("fmt", [Format.Q4, Format.Q8])
@pytest.mark.parametrize("shape", [(130, 608), (272, 1600)], ids=str)
def test_a_row_is_the_same_in_company_of_any_size(
    fmt: Format, shape: tuple[int, int], pool: ThreadPool
) -> None:
    """Vectors and tiles take rows in groups of many sizes, and blocks of columns in twos."""
    packed = pack(pool, One(weights(*shape)), ["w"], fmt)
    x = np.random.default_rng(2).standard_normal((67, shape[1])).astype(np.float32)
    assert library().dt_use_isa(ISAS[0]) == 0
    expected = product(pool, packed, x)
    for isa in ISAS[1:]:
        assert library().dt_use_isa(isa) == 0
        for count in (*range(1, 21), 24, 31, 32, 33, 48, 63, 64, 65, 67):
            part = product(pool, packed, x[:count])
            assert np.array_equal(part, expected[:count]), (isa.name, count)


@pytest.mark.parametrize("fmt", [Format.BF16, Format.F16, Format.F32])
def test_float_products_sum_column_by_column(fmt: Format, pool: ThreadPool) -> None:
    packed = pack(pool, One(weights(37, 75)), ["w"], fmt)
    x = np.random.default_rng(1).standard_normal((11, 75)).astype(np.float32)
    results = []
    for isa in ISAS:
        assert library().dt_use_isa(isa) == 0
        results.append(product(pool, packed, x))
    np.testing.assert_allclose(results[0], x @ unpack(packed).T, rtol=1e-4, atol=1e-4)
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("fmt", PACKABLE)
def test_a_row_alone_equals_the_row_among_others(fmt: Format, pool: ThreadPool) -> None:
    packed = pack(pool, One(weights(64, 160)), ["w"], fmt)
    x = np.random.default_rng(3).standard_normal((23, 160)).astype(np.float32)
    together = product(pool, packed, x)
    for row in range(len(x)):
        assert np.array_equal(product(pool, packed, x[row : row + 1])[0], together[row])


def test_extreme_activations_do_not_saturate(pool: ThreadPool) -> None:
    """All weights and all activations at the end of their range: the largest dot product."""
    for fmt in (Format.Q4, Format.Q8):
        for sign in (1, -1):
            packed = pack(pool, One(np.full((16, 64), -8.0 * sign, np.float32)), ["w"], fmt)
            x = np.full((1, 64), 127.0, dtype=np.float32)
            for isa in ISAS:
                library().dt_use_isa(isa)
                np.testing.assert_allclose(
                    product(pool, packed, x), -8.0 * sign * 127 * 64, rtol=1e-3
                )


@pytest.mark.parametrize("fmt", [Format.Q4, Format.Q8])
def test_activations_that_are_no_numbers_or_hardly_any(fmt: Format, pool: ThreadPool) -> None:
    packed = pack(pool, One(weights(48, 96)), ["w"], fmt)
    x = np.random.default_rng(5).standard_normal((6, 96)).astype(np.float32)
    x[0, 40] = np.nan
    x[1, 95] = -np.inf
    x[2, 32:64] = np.float32(1e-42)
    x[3] = np.float32(2e-38)
    x[4, 7] = np.float32(3e38)
    results = []
    for isa in ISAS:
        library().dt_use_isa(isa)
        results.append(product(pool, packed, x))
    for result in results:
        assert np.isnan(result[:2]).all(), "what is no number is not hidden"
        assert np.isfinite(result[[2, 3, 5]]).all()
        assert np.array_equal(result[2:].view(np.int32), results[0][2:].view(np.int32))
    x[2, 32:64] = 0
    assert np.array_equal(product(pool, packed, x)[2], results[0][2])


def test_packing_keeps_what_16_bits_hold(pool: ThreadPool) -> None:
    source = weights(33, 65).astype(np.float16).astype(np.float32)
    assert np.array_equal(unpack(pack(pool, One(source), ["w"], Format.F16)), source)
    bits = np.random.default_rng(2).integers(0, 0x7F00, (20, 40)).astype(np.uint32) << 16
    assert np.array_equal(
        unpack(pack(pool, One(bits.view(np.float32)), ["w"], Format.BF16)), bits.view(np.float32)
    )


def test_scales_minimise_the_error(pool: ThreadPool) -> None:
    source = weights(64, 256, seed=4)
    packed = unpack(pack(pool, One(source), ["w"], Format.Q4))
    blocks = source.reshape(64, -1, 32)
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(2)[..., None], 2)
    scale = (extreme / -8).astype(np.float16).astype(np.float32)
    obvious = np.clip(np.rint(blocks / scale), -8, 7) * scale
    ours, theirs = ((packed - source) ** 2).sum(), ((obvious - blocks) ** 2).sum()
    assert ours < 0.97 * theirs


@pytest.mark.parametrize("fmt", PACKABLE)
def test_bytes_are_about_those_of_the_format(fmt: Format) -> None:
    per_weight = dict(zip(PACKABLE, (18 / 32, 34 / 32, 2.0, 2.0, 4.0), strict=True))
    assert library().dt_packed_bytes(fmt, 1024, 4096) == 1024 * 4096 * per_weight[fmt]
    assert library().dt_packed_bytes(len(Format), 1024, 4096) < 0


def test_joined_matrices_lie_below_each_other(pool: ThreadPool) -> None:
    class Parts:
        def float32(self, name: str) -> Floats:
            return parts[name]

    for heights in ((32, 16, 48), (20, 12, 9)):
        parts = {str(i): weights(rows, 64, seed=i) for i, rows in enumerate(heights)}
        joined = unpack(pack(pool, Parts(), list(parts), Format.F16))
        expected = np.concatenate(list(parts.values()))
        np.testing.assert_allclose(joined, expected, rtol=1e-3)
