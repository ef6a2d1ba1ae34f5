"""Packed weights on disk, where models are placed in different ways and need other matrices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from native_models import native_decoder
from packing_child import fingerprint
from simulated_models import instant
from split_models import cut
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.native.library import Format
from engine.backend.native.packed_cache import PackedCache, settle
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Backend
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.commands import WeightFormat
from engine.model.families import open_config
from engine.model.weights.safetensors_folder import SafetensorsFolder

LONG_AGO = 1_600_000_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_model(tmp_path_factory.mktemp("m") / "m", "qwen2", tie_word_embeddings=True)
    for file in folder.glob("*.safetensors"):
        os.utime(file, (LONG_AGO, LONG_AGO))
    return folder


@pytest.fixture(scope="module")
def right(model: Path) -> str:
    return fingerprint(native_decoder(model, Format.Q4))


@pytest.fixture
def cache(tmp_path: Path) -> PackedCache:
    return PackedCache(tmp_path / "packed")


def load(
    model: Path, cache: PackedCache, borders: Sequence[int], elsewhere: Backend | None = None
) -> Decoder:
    """The native backend in turn with another one, if there is one."""
    config, source = open_config(model), SafetensorsFolder.open(model)
    native: Backend = NativeBackend(Format.Q4)
    with CachedWeights(source, source.files, Format.Q4, 100_000, cache=cache) as weights:
        backends = {"cpu": native, "other": elsewhere or native}
        shares = cut(config.num_layers, borders, ["cpu", "other"])
        decoder = Decoder.placed(config, weights, shares, backends)
    settle()
    return decoder


def nothing_was_read(model: Path, cache: PackedCache, borders: Sequence[int]) -> Decoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SafetensorsFolder, "stretches", None)
        return load(model, cache, borders)


@pytest.mark.parametrize(
    "placements", [[(1,), ()], [(0, 1), (2,), ()], [(), (1,)], [(1,), (0, 2), (1,), ()]], ids=str
)
def test_every_load_adds_what_was_missing(
    model: Path, cache: PackedCache, right: str, placements: list[tuple[int, ...]]
) -> None:
    """What torch computes, as an accelerator of its own would, never comes to be packed."""
    for borders in placements:
        load(model, cache, borders, TorchCpuBackend())
    for borders in ((), (0,), (1, 2)):
        decoder = nothing_was_read(model, cache, borders)
        assert fingerprint(decoder) == right
        assert decoder.mapped_bytes > 0.9 * decoder.weight_bytes
    held = [file.read_bytes() for file in cache.folder.glob("*.packed")]
    alone = PackedCache(cache.folder.with_name("alone"))
    load(model, alone, ())
    (whole,) = (file.read_bytes() for file in alone.folder.glob("*.packed"))
    assert sum(map(len, held)) < 1.2 * len(whole)  # each matrix once


def test_a_part_is_never_taken_for_the_whole(model: Path, cache: PackedCache, right: str) -> None:
    load(model, cache, (1,), TorchCpuBackend())
    (part,) = cache.folder.glob("*.packed")
    other = PackedCache(cache.folder.with_name("other"))
    load(model, other, ())
    (whole,) = other.folder.glob("*.packed")
    assert part.name != whole.name
    assert fingerprint(load(model, cache, ())) == right
    assert fingerprint(nothing_was_read(model, cache, ())) == right


def test_two_devices_pack_a_shared_matrix_once(model: Path, cache: PackedCache, right: str) -> None:
    device = SimulatedDevice(instant())
    split = load(model, cache, (0,), device.backend(WeightFormat.Q4, "target"))
    assert fingerprint(split) == right
    (file,) = cache.folder.glob("*.packed")
    alone = PackedCache(cache.folder.with_name("alone"))
    load(model, alone, ())
    (whole,) = alone.folder.glob("*.packed")
    assert file.stat().st_size <= whole.stat().st_size
    again = load(model, cache, (0,), device.backend(WeightFormat.Q4, "target"))
    assert again.mapped_bytes > 0.9 * again.weight_bytes
    assert fingerprint(again) == right


def two_files(model: Path, cache: PackedCache) -> list[Path]:
    load(model, cache, (2,), TorchCpuBackend())
    load(model, cache, ())
    files = sorted(cache.folder.glob("*.packed"))
    assert len(files) == 2
    return files


@pytest.mark.parametrize("which", [0, 1])
def test_one_of_two_files_is_gone(model: Path, cache: PackedCache, right: str, which: int) -> None:
    two_files(model, cache)[which].unlink()
    assert fingerprint(load(model, cache, ())) == right
    assert fingerprint(nothing_was_read(model, cache, ())) == right


@pytest.mark.parametrize("which", [0, 1])
def test_one_of_two_files_is_damaged(
    model: Path, cache: PackedCache, right: str, which: int
) -> None:
    file = two_files(model, cache)[which]
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    assert fingerprint(load(model, cache, ())) == right
    load(model, cache, ())
    assert fingerprint(nothing_was_read(model, cache, ())) == right


def test_another_vocabulary_is_another_matrix(model: Path, cache: PackedCache) -> None:
    """A draft is given as many rows for tokens as its target has: both are kept side by side."""
    load(model, cache, ())
    source = SafetensorsFolder.open(model)
    embedding = ["model.embed_tokens.weight"]
    with CachedWeights(source, source.files, Format.Q4, 100_000, cache=cache) as weights:
        rows, cols = weights.shape(embedding[0])
        assert weights._kept(embedding, Format.Q4) is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weights, "shape", lambda _name: (rows + 16, cols))
            assert weights._kept(embedding, Format.Q4) is None
        assert weights._kept(embedding, Format.Q4) is not None  # nothing was taken for damaged
