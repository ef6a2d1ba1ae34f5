"""Products on an accelerator, as decoding needs them: how near they come to its memory's speed.

All matrices of a model, or of as many of its blocks as there is room for, are multiplied one after
the other, in one graph where the device has such things: more than caches hold, and nothing waits
for the host. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.linear import StoredLinear
from engine.backend.accelerator.loading import Loader
from engine.backend.accelerator.memory import DeviceAllocator
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.sizes import computed
from engine.backend.ledger import Account, Ledger
from engine.bench.random_model import RandomModel
from engine.commands import WeightFormat
from engine.hardware.calibration.timing import undisturbed
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING, HEAD

GIB = 2**30
ALL = "all"
"""Every product of a forward in its turn, and so each weighted by its bytes."""

_LONG_S, _TURN_S, _LEAST_TURNS, _WARM_UP = 0.2, 5e-3, 5, 3

_LAYERS = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""The products of a block: layers with one input, side by side."""
_HEAD = "head"


@dataclass(frozen=True, slots=True)
class ProductTime:
    """Products over some rows; `nbytes` of weights go by in `seconds`."""

    nbytes: int
    seconds: float

    @property
    def bytes_per_s(self) -> float:
        """Weights that are got through."""
        return self.nbytes / self.seconds


@dataclass(frozen=True, slots=True)
class ProductTimes:
    """Products with weights of one type.

    Attributes:
        blocks: of the model that took part.
        graph: whether they ran in one graph.
        parts: by what is multiplied, `ALL` among them, and by rows.
    """

    blocks: int
    graph: bool
    parts: dict[str, dict[int, ProductTime]]


@dataclass(frozen=True, slots=True)
class _Product:
    part: str
    linear: StoredLinear
    width: int
    nbytes: int


def bandwidth(name: str, nbytes: int = GIB) -> float:
    """Bytes per second that the device reads, or copies, of its memory: whatever is more."""
    driver = Driver(name)
    try:
        return _bandwidth(driver, nbytes)
    finally:
        driver.give_back()


def _bandwidth(driver: Driver, nbytes: int) -> float:
    source = torch.ones(nbytes // 4, dtype=torch.float32, device=driver.device)
    target = torch.empty_like(source)
    reading = _seconds(driver, lambda: _forget(source.sum()))
    copying = _seconds(driver, lambda: _forget(target.copy_(source)))
    return max(nbytes / reading, 2 * nbytes / copying)


def time_products(
    name: str, model: RandomModel, rows: Sequence[int], most_bytes: int
) -> ProductTimes:
    """Time the products of a dense model's weights with so many rows.

    Args:
        name: of the device, as torch calls it.
        model: whose weights.
        rows: of forwards.
        most_bytes: of weights; of a larger model some blocks are left out.
    """
    driver = Driver(name)
    blocks = _blocks(model, most_bytes)
    try:
        with torch.inference_mode():
            return ProductTimes(blocks, _has_graphs(driver), _timed(driver, model, rows, blocks))
    finally:
        driver.give_back()


def _timed(
    driver: Driver, model: RandomModel, rows: Sequence[int], blocks: int
) -> dict[str, dict[int, ProductTime]]:
    """By part and by rows."""
    memory = DeviceAllocator(driver, Account(Ledger(str(driver.device), driver.label), "bench"))
    loader = Loader(model.config, model.weights(), WeightFormat.STORED, memory, Products(driver))
    every = list(_products(model.config, loader, blocks))
    parts = {ALL: every}
    for product in every:
        parts.setdefault(product.part, []).append(product)
    times: dict[str, dict[int, ProductTime]] = {part: {} for part in parts}
    for count in rows:
        inputs = {
            width: torch.randn(computed(count), width, device=driver.device)
            for width in {product.width for product in every}
        }
        for part, products in parts.items():
            work = partial(_multiply, [(each.linear, inputs[each.width]) for each in products])
            seconds = _seconds(driver, _captured(driver, work) if _has_graphs(driver) else work)
            times[part][count] = ProductTime(sum(each.nbytes for each in products), seconds)
    return times


def _has_graphs(driver: Driver) -> bool:
    return driver.device.type == "cuda"


def _blocks(model: RandomModel, most_bytes: int) -> int:
    """As many as there is room for beside the output matrix; at least one."""
    held = model.facts.footprint
    room, count = most_bytes - held.head.nbytes, 0
    for block in held.blocks:
        room -= block.nbytes
        count += room >= 0
    return max(count, 1)


def _products(config: ModelConfig, loader: Loader, blocks: int) -> Iterator[_Product]:
    """As a forward goes through them."""
    widths = dict.fromkeys(_LAYERS, config.hidden_size)
    widths["output"] = config.num_heads * config.head_dim
    widths["down"] = config.intermediate_size

    def product(part: str, names: Sequence[str], width: int) -> _Product:
        before = len(loader.matrices)
        linear = loader.linear(names, bias=False)
        nbytes = sum(matrix.nbytes for matrix in loader.matrices[before:])
        return _Product(part, linear, width, nbytes)

    for index in range(blocks):
        for part, layers in _LAYERS.items():
            yield product(part, [f"model.layers.{index}.{layer}" for layer in layers], widths[part])
    output = EMBEDDING if config.tie_word_embeddings else HEAD
    yield product(_HEAD, [output.removesuffix(".weight")], config.hidden_size)


def _multiply(products: Sequence[tuple[StoredLinear, torch.Tensor]]) -> None:
    for linear, x in products:
        linear(x)


def _captured(driver: Driver, work: Callable[[], None]) -> Callable[[], None]:
    """The same as one graph."""
    with torch.cuda.device(driver.device):
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
    return graph.replay


def _seconds(driver: Driver, work: Callable[[], None]) -> float:
    """Of one run, where nothing comes between; runs are waited for some milliseconds at a time."""
    for _ in range(_WARM_UP):
        work()
    driver.wait()
    together = max(int(_TURN_S / max(_turn(driver, work, 1), 1e-6)), 1)
    spent: list[float] = []
    while len(spent) < _LEAST_TURNS or sum(spent) < _LONG_S:
        spent.append(_turn(driver, work, together))
    return undisturbed(spent) / together


def _turn(driver: Driver, work: Callable[[], None], runs: int) -> float:
    start = perf_counter()
    for _ in range(runs):
        work()
    driver.wait()
    return perf_counter() - start


def _forget(_: object) -> None:
    """Only the time matters."""
