"""Kernels of products on a real device: the interpreter's numbers, alike in every company."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import pytest
import torch
from interpreted import random_matrix
from stand_ins import Card

from engine.backend.accelerator import device as devices
from engine.backend.accelerator.driver import Driver, reason_against
from engine.backend.accelerator.kernels.shapes import CUTS
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.sizes import FEW_ROWS

pytestmark = pytest.mark.gpu
KINDS = list(CUTS)
Sizes = Callable[[int, int], tuple[int, int]]
_FAR = 1e-3
"""Scales of two levels are rounded to fp16 here; see the tests of the interpreter."""


@pytest.fixture(scope="module")
def driver(card: Card) -> Driver:
    driver = Driver(card.name)
    if card.real and (reason := reason_against(driver)):
        pytest.skip(reason)
    return driver


@pytest.fixture(scope="module")
def products(driver: Driver, kernels: None) -> Products:
    del kernels
    return Products(driver, halves=True)


@pytest.fixture
def sizes(card: Card) -> Sizes:
    """Rows and columns: few where kernels are interpreted."""
    return lambda rows, cols: (rows, cols) if card.real else (min(rows, 48), min(cols, 256))


def brought(driver: Driver, kind: str, rows: int, cols: int) -> tuple[DeviceMatrix, torch.Tensor]:
    """A random matrix on the device, and its numbers there."""
    matrix, numbers = random_matrix(kind, rows, cols)
    planes = tuple(plane.to(driver.device) for plane in matrix.planes)
    return DeviceMatrix(kind, cols, planes), numbers.to(driver.device)


def activations(driver: Driver, rows: int, cols: int) -> torch.Tensor:
    numbers = torch.randn(rows, cols, generator=torch.Generator().manual_seed(rows))
    return numbers.to(driver.device)


def multiplied(
    products: Products, x: torch.Tensor, matrix: DeviceMatrix, *, large: bool = False
) -> torch.Tensor:
    out = torch.full((len(x), matrix.rows), torch.nan, device=x.device)
    products.multiply(x, matrix, out, large=large)
    assert products.without_kernels == ""
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "cols"), [(48, 256), (1000, 4096), (4096, 11008)])
@pytest.mark.parametrize("large", [True, False])
def test_products_are_those_of_the_numbers(
    kind: str, rows: int, cols: int, large: bool, driver: Driver, products: Products, sizes: Sizes
) -> None:
    rows, cols = sizes(rows, cols)
    matrix, numbers = brought(driver, kind, rows, cols)
    for count in (16, 32):
        x = activations(driver, count, cols)
        got = multiplied(products, x, matrix, large=large).double()
        expected = x.double() @ numbers.T
        assert (got - expected).norm() < _FAR * expected.norm(), count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [200, 30000])
def test_a_row_hangs_on_nothing_else(
    kind: str, rows: int, driver: Driver, products: Products, sizes: Sizes
) -> None:
    rows, cols = sizes(rows, 1024)
    matrix, _ = brought(driver, kind, rows, cols)
    x = activations(driver, FEW_ROWS, cols)
    together = multiplied(products, x, matrix)
    assert torch.equal(multiplied(products, x, matrix), together), "the same product twice"
    for count in (16, 32, 48):
        chosen = torch.arange(count, device=x.device).flip(0) + 5
        assert torch.equal(multiplied(products, x[chosen], matrix), together[chosen]), count


def test_a_product_is_captured(
    card: Card, driver: Driver, products: Products, sizes: Sizes
) -> None:
    """And replayed with other activations, in the same memory."""
    recorder = devices.recorder_for(driver)
    if recorder is None:
        pytest.skip("nothing is recorded there")
    if not card.real:
        products = Products(driver)  # a tape knows what torch does, and not the interpreter
    rows, cols = sizes(4096, 4096)
    matrix, _ = brought(driver, "Q4_K", rows, cols)
    x, out = activations(driver, 16, cols), torch.empty(16, rows, device=driver.device)
    products.multiply(x, matrix, out)
    replay = recorder.record(lambda: products.multiply(x, matrix, out))
    other = activations(driver, 32, cols)[16:]
    x.copy_(other)
    replay()
    driver.wait()
    expected = torch.empty_like(out)
    products.multiply(other, matrix, expected)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_read_at_a_good_part_of_the_memorys_speed(
    kind: str,
    card: Card,
    driver: Driver,
    products: Products,
    sizes: Sizes,
    record_property: Callable[[str, object], None],
) -> None:
    """Of what a copy reaches; matrices of 1 GiB together, so that no cache holds them."""
    rows, cols = sizes(4096, 4096)
    first, _ = brought(driver, kind, rows, cols)
    nbytes = 1 << 30 if card.real else 2 * first.nbytes
    count = nbytes // first.nbytes
    matrices = [
        DeviceMatrix(kind, cols, tuple(plane.clone() for plane in first.planes))
        for _ in range(count)
    ]
    x, out = activations(driver, 16, cols), torch.empty(16, rows, device=driver.device)

    def multiply() -> None:
        for matrix in matrices:
            products.multiply(x, matrix, out)

    multiply()
    recorder = devices.recorder_for(driver) if card.real else None
    again = multiply if recorder is None else recorder.record(multiply)
    source = torch.ones(nbytes // 2, dtype=torch.uint8, device=driver.device)
    target = torch.empty_like(source)
    copied = 2 * source.nbytes / seconds(driver, lambda: target.copy_(source))
    share = count * first.nbytes / seconds(driver, again) / copied
    record_property("share of the memory's speed", round(share, 3))
    assert share > (0.1 if card.real else 0)


def seconds(driver: Driver, work: Callable[[], object]) -> float:
    """Of the fastest run of several."""
    found = []
    for _ in range(5):
        driver.wait()
        begun = perf_counter()
        work()
        driver.wait()
        found.append(perf_counter() - begun)
    return min(found)
