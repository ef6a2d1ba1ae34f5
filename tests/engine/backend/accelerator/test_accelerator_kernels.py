"""Kernels of products, run by Triton's interpreter: the stored numbers, and rows that stand alone.

What they give is compared with a product in fp64 of the same fp16 numbers. The scales of Q4_K, Q5_K
and Q6_K are products of two numbers, which kernels round to fp16: 2 ** -11 of a weight at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerated import accelerated
from comparing import apart
from interpreted import launch, random_matrix, summed_in_order
from tiny_models import write_model

from engine.backend.accelerator import products as products_module
from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.driver import Driver, reason_against
from engine.backend.accelerator.kernels.shapes import CUTS, PROGRAMS, Cut, order
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.sizes import FEW_ROWS, PIECE
from engine.commands import WeightFormat

interpreter = pytest.importorskip("triton.runtime.interpreter", reason="Triton is not installed")
KINDS = list(CUTS)
ROUNDED = {"Q4_K", "Q5_K", "Q6_K"}


@pytest.fixture(autouse=True)
def _sums_as_matrix_units_form_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alike for all rows of a tile: the library that numpy calls sums by a row's place in it."""
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", summed_in_order)


def stored_products(numbers: int = 1 << 18) -> Any:
    """With fixed memory that shows what is read before it is written."""
    sums = torch.full((numbers,), torch.nan)
    return launch().StoredProducts(sums, sums.half())


def activations(rows: int, cols: int, seed: int = 0) -> torch.Tensor:
    numbers = np.random.default_rng(seed).standard_normal((rows, cols), dtype=np.float32)
    return torch.from_numpy(numbers)


def product(kind: str, rows: int, cols: int, count: int = 16) -> tuple[float, torch.Tensor]:
    """How far from fp64, as a share of the norm, and what came out."""
    matrix, numbers = random_matrix(kind, rows, cols)
    stored, x = stored_products(), activations(count, cols)
    assert stored.takes(matrix, count)
    room = torch.full((count, rows + 5), torch.nan)
    got = room[:, 3 : rows + 3]
    stored.multiply(x, matrix, got, large=False)
    assert room.isnan().sum() == 5 * count, "what lies beside it is left alone"
    expected = x.half().double() @ numbers.T
    return float((got - expected).norm() / expected.norm()), got


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_a_step_has_its_place(kind: str) -> None:
    found = order(kind)
    assert sorted(found.flat) == list(range(CUTS[kind].numbers))


@pytest.mark.release(keep=2, reason="every kernel, interpreted")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "cols"), [(48, 256), (131, 2048)], ids=["one", "stretches"])
def test_products_are_those_of_the_numbers(kind: str, rows: int, cols: int) -> None:
    """In one program, and in two times several whose sums are added."""
    assert (CUTS[kind].split(rows, cols)[1] > 1) == (cols == 2048)
    far, _ = product(kind, rows, cols)
    assert far < (1e-3 if kind in ROUNDED else 1e-6)


@pytest.mark.parametrize(
    ("kind", "cols"), [("Q4_0", 96), ("Q4_0", 80), ("Q8_0", 96), ("F16", 40), ("BF16", 72)]
)
def test_steps_that_reach_beyond_a_row(kind: str, cols: int) -> None:
    far, _ = product(kind, 19, cols)
    assert far < 1e-6


@pytest.mark.release(keep=1, reason="every kernel, interpreted")
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_hangs_on_nothing_else(kind: str) -> None:
    """Bit for bit: alone among padding, in company of 64, in another place."""
    matrix, _ = random_matrix(kind, 40, 512)
    stored, x = stored_products(), activations(FEW_ROWS, 512)
    together = torch.empty(FEW_ROWS, 40)
    stored.multiply(x, matrix, together, large=False)
    for count in (16, 32):
        got = torch.empty(count, 40)
        chosen = torch.arange(count).flip(0) + 5
        stored.multiply(x[chosen], matrix, got, large=False)
        assert torch.equal(got, together[chosen]), count
    alone, padded = torch.empty(16, 40), torch.zeros(16, 512)
    padded[3] = x[7]
    stored.multiply(padded, matrix, alone, large=False)
    assert torch.equal(alone[3], together[7])
    assert not alone[4:].any()


def test_sums_are_cut_by_the_matrix_alone() -> None:
    """Few enough programs that their sums fit, and stretches that are whole and cover a row."""
    for cut in {*CUTS.values(), Cut(128)}:
        for rows, width in ((1, 256), (4096, 4096), (22016, 4096), (4096, 11008), (152064, 3584)):
            each, splits = cut.split(rows, width)
            steps = cut.steps(width)
            assert (splits - 1) * each < steps <= splits * each
            padded = -(-rows // cut.rows) * cut.rows
            assert splits == 1 or splits * padded * FEW_ROWS <= PIECE
            assert splits * padded // cut.rows >= min(PROGRAMS // 4, padded // cut.rows)


@pytest.mark.release(keep=1, reason="every kernel, interpreted")
@pytest.mark.parametrize("cols", [256, 2048])
def test_large_numbers_are_scaled(cols: int) -> None:
    matrix, numbers = random_matrix("Q4_0", 32, cols)
    x = activations(16, cols)
    x[::2] *= 1e7
    x[1] = 0.0
    x.t()[3] = -3e7  # a row's largest is negative
    got = torch.empty(16, 32)
    stored_products().multiply(x, matrix, got, large=True)
    expected = x.double() @ numbers.T
    distance = (got - expected).norm(dim=1) / expected.norm(dim=1)
    assert distance.max() < 1e-3


def test_rows_with_gaps_between_them() -> None:
    matrix, _ = random_matrix("Q8_0", 32, 256)
    wide = activations(16, 300)
    got, expected = torch.empty(16, 32), torch.empty(16, 32)
    stored = stored_products()
    stored.multiply(wide[:, 20:276], matrix, got, large=False)
    stored.multiply(wide[:, 20:276].contiguous(), matrix, expected, large=False)
    assert torch.equal(got, expected)


@pytest.mark.release(keep=2, reason="every kernel, interpreted")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("large", [False, True])
def test_many_rows_are_multiplied_with_widened_pieces(kind: str, large: bool) -> None:
    """In one launch a piece; numbers as for few rows, to the order of the sums."""
    matrix, numbers = random_matrix(kind, 150, 256)
    stored, x = stored_products(), activations(80, 256)
    if large:
        x[::2] *= 1e7
    assert stored.widens(matrix, 80)
    assert not stored.widens(matrix, 64)
    ready, peaks = stored.ready(x, matrix, large=large)
    got = torch.empty(80, 150)
    for first, count in ((0, 128), (128, 22)):
        weights = stored.widened(matrix.part(first, count))
        got[:, first : first + count] = ready.float() @ weights.float().t() * peaks[:, None]
    expected = x.double() @ numbers.T
    distance = (got - expected).norm(dim=1) / expected.norm(dim=1)
    assert distance.max() < 2e-3


def test_what_kernels_do_not_take() -> None:
    stored = stored_products()
    matrix, _ = random_matrix("Q4_0", 48, 256)
    assert stored.takes(matrix, 64)
    assert not stored.takes(matrix, 128)
    assert not stored.takes(matrix, 8)
    assert not stored.takes(random_matrix("Q3_K", 48, 256)[0], 16)
    assert not stored.takes(random_matrix("F16", 48, 100)[0], 16), "rows that begin anywhere"
    assert not stored.takes(random_matrix("Q6_K", 3, 256)[0], 16), "scales that are no whole words"
    assert not stored.takes(random_matrix("Q4_0", 2, 1 << 15)[0], 16), "more than the memory has"
    odd, _ = random_matrix("Q4_0", 48, 96)
    assert stored.takes(odd.part(8, 16), 16)
    assert not stored.takes(odd.part(1, 16), 16), "scales that begin anywhere"


# -- in use -----------------------------------------------------------------------------------


@pytest.fixture
def with_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Devices that multiply in fp16 use the interpreted kernels."""
    monkeypatch.setattr(products_module, "reason_against", lambda _driver: "")
    monkeypatch.setattr(products_module, "_stored_products", launch().StoredProducts)
    return


def test_only_some_devices_have_them() -> None:
    assert "this kind of device" in reason_against(Driver("cpu"))


@pytest.mark.usefixtures("with_kernels")
def test_they_are_used_where_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    products = Products(Driver("cpu"), halves=True)
    asked: list[str] = []
    multiply = launch().StoredProducts.multiply

    def counted(self: object, x: object, matrix: object, out: object, *, large: bool) -> None:
        asked.append(matrix.kind)  # type: ignore[attr-defined]
        multiply(self, x, matrix, out, large=large)

    matrices = [random_matrix(kind, 16, 256)[0] for kind in ("Q4_0", "Q3_K", "F32")]
    products.warm(matrices)
    assert products.without_kernels == ""
    monkeypatch.setattr(launch().StoredProducts, "multiply", counted)
    x = activations(16, 256)
    for matrix in matrices:
        out = torch.empty(16, 16)
        products.multiply(x, matrix, out)
        expected = torch.empty(16, 16)
        products.multiply(x, matrix, expected, exact=True)
        assert torch.dist(out, expected) < 2e-3 * expected.norm()
    assert asked == ["Q4_0"]


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("wrong", [True, False], ids=["wrong", "failing"])
def test_a_device_on_which_they_do_not_work_goes_without(
    wrong: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    products = Products(Driver("cpu"), halves=True)
    multiply = launch().StoredProducts.multiply

    def broken(self: object, x: object, matrix: object, out: object, *, large: bool) -> None:
        if not wrong:
            raise RuntimeError("no C compiler")
        multiply(self, x, matrix, out, large=large)
        out[3, 5] += 1000.0  # type: ignore[index]

    monkeypatch.setattr(launch().StoredProducts, "multiply", broken)
    matrix, numbers = random_matrix("Q4_0", 16, 256)
    x, out = activations(16, 256), torch.empty(16, 16)
    products.multiply(x, matrix, out)
    assert torch.dist(out.double(), x.double() @ numbers.T) < 2e-3 * out.norm()
    assert ("wrong results" if wrong else "no C compiler") in products.without_kernels
    assert products.without_kernels in caplog.text


@pytest.mark.release(reason="a whole model, interpreted")
@pytest.mark.usefixtures("with_kernels")
def test_a_model_is_the_same_with_and_without(tmp_path: Path) -> None:
    """And a row's logits are the same bits in every company."""
    folder = write_model(tmp_path, num_hidden_layers=1)
    device = TorchDevice("cpu", halves=True)
    model = accelerated(folder, WeightFormat.Q4, device)
    assert device._products is not None
    assert device._products._stored is not None
    tokens = np.random.default_rng(8).integers(3, 320, 20).tolist()
    assert model.signature == "torch-cpu-triton:q4/kv-f16"
    got = {}
    for count in (1, 20):
        state = model.new_state(64)
        got[count] = model.forward(state, tokens[:count]).logits.copy()
        state.discard()
    device._products._stored = None
    expected = model.forward(model.new_state(64), tokens).logits
    assert apart(got[20], expected) < 4e-3
    assert np.array_equal(got[1][0], got[20][0])
