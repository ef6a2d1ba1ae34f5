"""Stored formats on a device: the file's bits in the file's size, and ggml's numbers of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stored_blocks import HALVES, StoredRows, block_of, random_rows, widened

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.matrix import FLOATS, QUANTISED, DeviceMatrix
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.sizes import PIECE
from engine.backend.ledger import unlimited
from engine.backend.native.matrix import NATIVE_KINDS
from engine.errors import UserFixable

KINDS = list(HALVES)


@pytest.fixture(scope="module")
def products() -> Products:
    return Products(Driver("cpu"))


def on_device(kind: str, rows: int, cols: int) -> DeviceMatrix:
    account = unlimited()
    memory = DeviceAllocator(Driver("cpu"), account)
    stored = StoredRows(random_rows(kind, rows, cols, seed=rows), kind)
    matrix = DeviceMatrix.empty(kind, rows, cols, memory)
    first = 0
    for stretch in stored.stretches("w"):
        matrix.fill(first, stretch, "w")
        first += len(stretch)
    assert account.ledger.held == matrix.nbytes
    return matrix


def test_every_native_kind_is_there() -> None:
    assert set(QUANTISED) | set(FLOATS) == set(NATIVE_KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [48, 37, 1])
def test_numbers_are_ggmls_bit_for_bit(kind: str, rows: int, products: Products) -> None:
    matrix = on_device(kind, rows, 768)
    got = torch.empty(rows, 768)
    products.look_up(matrix, torch.arange(rows), got)
    expected = widened(random_rows(kind, rows, 768, seed=rows), kind)
    assert np.array_equal(got.numpy().view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_the_files_bytes(kind: str) -> None:
    weights, nbytes = block_of(kind)
    assert on_device(kind, 48, 768).nbytes == 48 * 768 // weights * nbytes


@pytest.mark.release(keep=5, reason="every format")
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_numbers(kind: str, products: Products) -> None:
    """Also where a matrix is widened in several pieces, whose last is smaller."""
    cols = 8192
    rows = PIECE // cols + 21
    matrix = on_device(kind, rows, cols)
    x = torch.from_numpy(np.random.default_rng(2).standard_normal((16, cols), dtype=np.float32))
    got = torch.empty(16, rows + 5)
    products.multiply(x, matrix, got[:, 3 : rows + 3])
    numbers = widened(random_rows(kind, rows, cols, seed=rows), kind).astype(np.float64)
    expected = x.numpy() @ numbers.T
    error = np.abs(got[:, 3 : rows + 3].numpy() - expected).max()
    assert error < 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "MXFP4"])
def test_damaged_scales_are_refused(kind: str) -> None:
    stored = random_rows(kind, 32, 256)
    at = HALVES[kind][-1]
    stored[20, at : at + 2] = np.array([np.nan], np.float16).view(np.uint8)
    matrix = DeviceMatrix.empty(kind, 32, 256, DeviceAllocator(Driver("cpu"), unlimited()))
    with pytest.raises(UserFixable, match="not numbers"):
        matrix.fill(0, stored, "w")


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K", "MXFP4"])
def test_an_expert_is_fetched_by_an_index(kind: str, products: Products) -> None:
    stack = on_device(kind, 5 * 16, 256)
    for expert in range(5):
        fetched = stack.expert(torch.tensor([expert]), 16)
        both = [torch.empty(16, 256), torch.empty(16, 256)]
        for matrix, out in zip((fetched, stack.part(expert * 16, 16)), both, strict=True):
            products.look_up(matrix, torch.arange(16), out)
        assert torch.equal(*both)
