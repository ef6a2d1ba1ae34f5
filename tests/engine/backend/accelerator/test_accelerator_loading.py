"""Weights on their way to a device: packed once for all devices, never held twice."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accelerated import accelerated
from test_packed_cache import LONG_AGO
from tiny_models import write_model

from engine.backend.accelerator.device import TorchDevice
from engine.backend.decoder import Decoder
from engine.backend.native import matrix, stretches
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.native.library import Format
from engine.backend.native.packed_cache import PackedCache, settle
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Backend
from engine.commands import WeightFormat
from engine.errors import Absent
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.safetensors_folder import SafetensorsFolder

EXPERTS = {"num_experts": 5, "moe_intermediate_size": 48}


@pytest.fixture(params=["llama", "odd", "experts"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Matrices of 16 rows and not, dense and in stacks."""
    odd = {"hidden_size": 72, "intermediate_size": 90, "vocab_size": 323}
    made: dict[str, Callable[[Path], Path]] = {
        "llama": write_model,
        "odd": lambda path: write_model(path, **odd),
        "experts": lambda path: write_model(path, "qwen3_moe", **EXPERTS),
    }
    path = made[request.param](tmp_path / "model")
    os.utime(path / "model.safetensors", (LONG_AGO, LONG_AGO))
    return path


def loaded(backend: Backend, cache: PackedCache, folder: Path) -> Decoder:
    """Its packed weights from the cache or on the way into it."""
    config, source = open_config(folder), SafetensorsFolder.open(folder)
    stored = ModelWeights.open(config, source, "safetensors")
    with CachedWeights(stored, source.files, Format.Q4, 100_000, cache=cache) as weights:
        decoder = Decoder.build(config, weights, backend)
    settle()
    return decoder


def never(*_args: object) -> Any:
    pytest.fail("packed once more")


@pytest.mark.parametrize("folder", ["llama", "experts"], indirect=True)
@pytest.mark.parametrize("first", ["cpu", "device"])
def test_what_was_packed_for_one_device_serves_the_other(
    folder: Path, tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = PackedCache(tmp_path / "cache" / "packed")
    device = TorchDevice("cpu")
    backends = [NativeBackend(Format.Q4), device.backend(WeightFormat.Q4, "target")]
    one, other = backends if first == "cpu" else reversed(backends)
    made = loaded(one, cache, folder)
    monkeypatch.setattr(matrix, "_pack", never)
    again = loaded(other, cache, folder)
    assert made.weight_bytes == pytest.approx(again.weight_bytes, rel=0.1)


def test_a_packed_matrix_goes_when_it_is_on_the_device(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[weakref.ref[Any]] = []
    honest = stretches.pack

    def packing(*arguments: Any) -> Any:
        assert not [packed for packed in alive if packed() is not None]
        packed = honest(*arguments)
        alive.append(weakref.ref(packed.data))
        return packed

    monkeypatch.setattr(stretches, "pack", packing)
    accelerated(folder, WeightFormat.Q8)
    assert len(alive) > 5


def test_without_the_native_backend_weights_stay_as_they_are_stored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> Any:
        raise Absent("not built", "build it")

    for module in ("matrix", "pool", "library"):
        monkeypatch.setattr(f"engine.backend.native.{module}.library", absent)
    for fmt in (WeightFormat.F32, WeightFormat.STORED):
        model = accelerated(folder, fmt)
        assert model.signature == "torch-cpu:f32/kv-f16"
        model.forward(model.new_state(64), [5, 6, 7])
    with pytest.raises(Absent):
        accelerated(folder, WeightFormat.Q4)
