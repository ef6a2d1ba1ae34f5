"""Tests for a real accelerator, which a stand-in plays where there is none.

So no name, path or signature in them is stale on the day when there is one. The stand-in is torch's
"cpu" device, with Triton's interpreter for the kernels, a tape for recordings, and a library that
answers in the place of NVIDIA's. What only a card can show is asked only there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

_ENGINE = Path(__file__).parents[1] / "engine"
sys.path[:0] = [
    str(Path(__file__).parent),
    *(str(_ENGINE / each) for each in (".", "backend", "backend/accelerator", "devices")),
]

if find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import torch
    from interpreted import launch, summed_in_order
    from stand_ins import Card, Held
    from tape import TapeRecorder

    from engine.backend.accelerator import device as devices
    from engine.backend.accelerator import products
    from engine.devices import probe
    from engine.devices.accelerators.torch_devices import TorchSight
    from engine.machine.facts import Accelerator, Vendor
    from tests.engine.devices.conftest import _fresh_pynvml, nvml, nvml_library

    __all__ = ["_fresh_pynvml", "nvml", "nvml_library"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what stand-ins do to releases: others test the same code on them, in less time."""
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    if here and not _card().real:
        for item in here:
            later = pytest.mark.release(reason="on stand-ins, as there is no card")
            item.add_marker(later, append=False)


@cache
def _card() -> Card:
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if found is None:
        return Card("cpu", real=False)
    return Card(found.type if found.type == "mps" else f"{found.type}:0", real=True)


@pytest.fixture(scope="session")
def card() -> Card:
    return _card()


@pytest.fixture(scope="session")
def name(card: Card) -> str:
    return card.name


@pytest.fixture(autouse=True, scope="module")
def _recordings(card: Card) -> Iterator[None]:
    """A tape where CUDA's graphs are not."""
    with pytest.MonkeyPatch.context() as patch:
        if not card.real:
            patch.setattr(devices, "recorder_for", lambda _driver: TapeRecorder())
        yield


@pytest.fixture(scope="module")
def kernels(card: Card) -> Iterator[None]:
    """Interpreted ones where none can be compiled."""
    with pytest.MonkeyPatch.context() as patch:
        if not card.real:
            interpreter = pytest.importorskip("triton.runtime.interpreter")
            patch.setattr(products, "reason_against", lambda _driver: "")
            patch.setattr(products, "_stored_products", launch().StoredProducts)
            patch.setattr(interpreter.InterpreterBuilder, "create_dot", summed_in_order)
        yield


@pytest.fixture
def held(
    card: Card, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Held]:
    """What is held on the accelerator, which the probe finds."""
    if card.real:
        yield Held(card, None)
        return
    from recorded import record
    from recorded_nvml import FIRST, GIB

    found = Accelerator(
        "cuda:0", "GeForce RTX 3060", Vendor.NVIDIA, 12 * GIB, identity=FIRST.removeprefix("GPU-"),
        bus="0000:01:00.0", architecture="8.6",
    )  # fmt: skip
    monkeypatch.setattr(probe, "_ask_torch", lambda _seen: TorchSight((found,)))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (10 * GIB, 12 * GIB))
    files = record(tmp_path, {"dev/dxg": ""})  # Linux under Windows, which shows no bus
    yield Held(card, request.getfixturevalue("nvml"), files)
