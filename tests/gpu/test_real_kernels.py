"""Kernels of products on a real device: the interpreter's numbers, alike in every company."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from interpreted import random_matrix

from engine.backend.accelerator.driver import Driver, reason_against
from engine.backend.accelerator.kernels.shapes import CUTS
from engine.backend.accelerator.matrix import DeviceMatrix
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.sizes import FEW_ROWS

pytestmark = pytest.mark.gpu
KINDS = list(CUTS)
_FAR = 1e-3
"""Scales of two levels are rounded to fp16 here; see the tests of the interpreter."""


@pytest.fixture(scope="module")
def driver() -> Driver:
    found = torch.accelerator.current_accelerator()
    assert found is not None
    driver = Driver(found.type if found.type == "mps" else f"{found.type}:0")
    if reason := reason_against(driver):
        pytest.skip(reason)
    return driver


@pytest.fixture(scope="module")
def products(driver: Driver) -> Products:
    return Products(driver)


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
    kind: str, rows: int, cols: int, large: bool, driver: Driver, products: Products
) -> None:
    matrix, numbers = brought(driver, kind, rows, cols)
    for count in (16, 32):
        x = activations(driver, count, cols)
        got = multiplied(products, x, matrix, large=large).double()
        expected = x.double() @ numbers.T
        assert (got - expected).norm() < _FAR * expected.norm(), count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [200, 30000])
def test_a_row_hangs_on_nothing_else(
    kind: str, rows: int, driver: Driver, products: Products
) -> None:
    matrix, _ = brought(driver, kind, rows, 1024)
    x = activations(driver, FEW_ROWS, 1024)
    together = multiplied(products, x, matrix)
    assert torch.equal(multiplied(products, x, matrix), together), "the same product twice"
    for count in (16, 32, 48):
        chosen = torch.arange(count, device=x.device).flip(0) + 5
        assert torch.equal(multiplied(products, x[chosen], matrix), together[chosen]), count


def test_a_product_is_captured(driver: Driver, products: Products) -> None:
    """And replayed with other activations, in the same memory."""
    if driver.device.type != "cuda":
        pytest.skip("graphs are CUDA's")
    matrix, _ = brought(driver, "Q4_K", 4096, 4096)
    x = activations(driver, 16, 4096)
    out = multiplied(products, x, matrix)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        products.multiply(x, matrix, out)
    other = activations(driver, 32, 4096)[16:]
    x.copy_(other)
    graph.replay()
    driver.wait()
    assert torch.equal(out, multiplied(products, other, matrix))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_read_at_a_good_part_of_the_memorys_speed(
    kind: str,
    driver: Driver,
    products: Products,
    record_property: Callable[[str, object], None],
) -> None:
    """Of what a copy reaches; matrices of 1 GiB together, so that no cache holds them."""
    if driver.device.type != "cuda":
        pytest.skip("events are CUDA's here")
    first, _ = brought(driver, kind, 4096, 4096)
    count = (1 << 30) // first.nbytes
    matrices = [
        DeviceMatrix(kind, 4096, tuple(plane.clone() for plane in first.planes))
        for _ in range(count)
    ]
    x, out = activations(driver, 16, 4096), torch.empty(16, 4096, device=driver.device)

    def multiply() -> None:
        for matrix in matrices:
            products.multiply(x, matrix, out)

    multiply()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        multiply()
    source = torch.ones(1 << 29, dtype=torch.uint8, device=driver.device)
    target = torch.empty_like(source)
    copied = 2 * source.nbytes / seconds(lambda: target.copy_(source))
    share = count * first.nbytes / seconds(graph.replay) / copied
    record_property("share of the memory's speed", round(share, 3))
    assert share > 0.1


def seconds(work: Callable[[], object]) -> float:
    """Of the fastest run of several, on the device's clock."""
    found = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / 1000)
    return min(found)
