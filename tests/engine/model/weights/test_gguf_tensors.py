"""GGUF as a source of weights: exact values, some rows at a time, in any kind it is stored in."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_files import Info, header, noise, padded
from numpy.typing import NDArray

from engine.errors import UserFixable
from engine.model.gguf.file import open_gguf
from engine.model.gguf.header import KINDS
from engine.model.weights.parts import StoredPart
from engine.model.weights.reader import FLOATS, STRETCH_BYTES, WIDENED, TensorReader

NUMBERS = {kind.name: number for number, kind in KINDS.items()}


def stored(folder: Path, kind: str, shape: tuple[int, ...], native: tuple[str, ...] = ()) -> tuple:
    """A source with one tensor "w" of random numbers or blocks, and its bytes."""
    block, count = KINDS[NUMBERS[kind]], math.prod(shape)
    raw = np.frombuffer(noise(count // block.numbers * block.nbytes), np.uint8)
    if kind in FLOATS:  # not all bits are numbers
        values = np.resize(raw, count).astype(np.float32) - 128
        halves = {"F32": values, "F16": values.astype(np.float16), "BF16": values.view("<u2")[1::2]}
        raw = np.ascontiguousarray(halves[kind]).view(np.uint8)
    head = header(tensors=[Info(dims=shape[::-1], kind=NUMBERS[kind])])
    (folder / "m.gguf").write_bytes(padded(head, raw.tobytes()))
    return open_gguf(folder / "m.gguf").reader(native), raw


def together(source: TensorReader, first: int = 0, count: int | None = None) -> NDArray:
    """All rows of "w", or those from `first` on as a tensor of their own."""
    if count is not None:
        whole = source.shape("w")
        part = StoredPart("w", whole, (count, whole[-1]), first)
        source = TensorReader({"w": source.found(part)})
    return np.concatenate([part.copy() for part in source.stretches("w")])


def test_what_is_widened_is_what_the_gguf_package_widens() -> None:
    known = {kind.name for kind in gguf.quants._type_traits}
    assert known >= WIDENED
    assert known - WIDENED <= {"BF16", "NVFP4"}


@pytest.mark.parametrize("kind", sorted(WIDENED))
def test_blocks_as_stored_and_widened(tmp_path: Path, kind: str) -> None:
    widened, raw = stored(tmp_path, kind, (48, 512))
    with np.errstate(all="ignore"):  # random bits are not always numbers
        values = gguf.quants.dequantize(raw.reshape(48, -1), gguf.GGMLQuantizationType[kind])
        assert widened.kind("w") == "F32"
        np.testing.assert_array_equal(widened.float32("w"), values)
        np.testing.assert_array_equal(together(widened), values)
        np.testing.assert_array_equal(together(widened, 20, 3), values[20:23])
    file = open_gguf(tmp_path / "m.gguf")
    halves = file.reader(["Q8_1"])
    assert halves.kind("w") == "F16"
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(together(halves), values.astype(np.float16))
        np.testing.assert_array_equal(halves.float32("w"), values)
    native = file.reader([kind])
    assert native.kind("w") == kind
    np.testing.assert_array_equal(together(native), raw.reshape(48, -1))
    np.testing.assert_array_equal(together(native, 20, 3), raw.reshape(48, -1)[20:23])


@pytest.mark.parametrize(("kind", "dtype"), [("F32", "f4"), ("F16", "f2"), ("BF16", "u2")])
def test_floats_as_stored(tmp_path: Path, kind: str, dtype: str) -> None:
    source, raw = stored(tmp_path, kind, (5, 24))
    assert source.kind("w") == kind
    np.testing.assert_array_equal(together(source), raw.view(f"<{dtype}").reshape(5, 24))
    values = raw.view(f"<{dtype}").astype(np.float32)
    if kind == "BF16":
        values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(source.float32("w", check_finite=True), values.reshape(5, 24))


def test_experts_lie_one_below_the_other(tmp_path: Path) -> None:
    source, raw = stored(tmp_path, "Q8_0", (3, 8, 64), ("Q8_0",))
    assert source.shape("w") == (3, 8, 64)
    rows = raw.reshape(24, 68)
    np.testing.assert_array_equal(together(source), rows)
    np.testing.assert_array_equal(together(source, first=8, count=8), rows[8:16])
    assert source.float32("w").shape == (3, 8, 64)


@pytest.mark.parametrize("kind", ["Q4_K", "Q3_K", "F16"])
def test_large_tensors_are_read_in_pieces(tmp_path: Path, kind: str) -> None:
    shape = (8192 + 8, 2048)
    source, _ = stored(tmp_path, kind, shape, ("Q4_K",))
    together(source, 0, 16)  # whatever is imported on first use
    tracemalloc.start()
    rows, addresses = [], set()
    for part in source.stretches("w"):
        rows.append(len(part))
        addresses.add(part.ctypes.data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(rows) == shape[0]
    assert len(rows) > 1
    assert all(count % 16 == 0 for count in rows[:-1])
    if kind == "Q3_K":
        assert peak < 8 * STRETCH_BYTES  # what widening takes besides
    else:
        assert peak < 1.1 * STRETCH_BYTES
        assert len(addresses) == 1


def test_only_rows_that_are_there(tmp_path: Path) -> None:
    source, _ = stored(tmp_path, "F32", (5, 24))
    for first, count in ((0, 6), (5, 1), (-1, 1), (2, -1)):
        with pytest.raises(ValueError, match="of 5"):
            together(source, first, count)


@pytest.mark.parametrize("kind", ["I32", "F64", "Q8_K", "NVFP4", "Q2_0"])
def test_kinds_that_nobody_can_read(tmp_path: Path, kind: str) -> None:
    source, _ = stored(tmp_path, kind, (4, 256))
    for read in (source.float32, lambda name: list(source.stretches(name))):
        with pytest.raises(UserFixable, match=f"stored as {kind}"):
            read("w")


def test_values_that_are_not_numbers(tmp_path: Path) -> None:
    head = padded(header(tensors=[Info(dims=(32,), kind=8)]), b"\0\x7e" + bytes(32))
    (tmp_path / "m.gguf").write_bytes(head)
    source = open_gguf(tmp_path / "m.gguf").reader()
    assert np.isnan(source.float32("w")).all()
    with pytest.raises(UserFixable, match="not numbers"):
        source.float32("w", check_finite=True)


def test_a_file_that_shrinks_after_the_check(tmp_path: Path) -> None:
    source, _ = stored(tmp_path, "Q4_0", (4, 32))
    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole[:-1])
    with pytest.raises(UserFixable, match="shorter"):
        source.float32("w")
    (tmp_path / "m.gguf").unlink()
    with pytest.raises(UserFixable, match="cannot be read"):
        list(source.stretches("w"))
