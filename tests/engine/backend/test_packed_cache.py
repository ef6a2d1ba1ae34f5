"""Packed weights on disk: used when they are right, never trusted, never in the way."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from native_models import native_decoder
from packing_child import fingerprint, load
from safetensors.numpy import load_file, save_file
from tiny_models import write_model

import engine.backend.native.cached_weights
from engine.backend.decoder import Decoder
from engine.backend.native import packed_cache
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.native.library import Format, Isa, library
from engine.backend.native.matrix import PACKABLE
from engine.backend.native.packed_cache import DamagedFile, PackedCache, PackedFile
from engine.backend.native.pool import shared_pool
from engine.errors import UserFixable
from engine.model.tensors import EMBEDDING
from engine.model.weights.safetensors_folder import SafetensorsFolder

LONG_AGO = 1_600_000_000


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "original")


@pytest.fixture
def model(original: Path, tmp_path: Path) -> Path:
    return settled(shutil.copytree(original, tmp_path / "model"))


@pytest.fixture
def cache(tmp_path: Path) -> PackedCache:
    return PackedCache(tmp_path / "cache" / "packed")


@pytest.fixture(scope="module")
def right(original: Path) -> str:
    """What the model computes without any cache."""
    return fingerprint(native_decoder(original, Format.Q4))


def settled(folder: Path) -> Path:
    """Files that were not changed just now."""
    for file in folder.glob("*.safetensors"):
        os.utime(file, (LONG_AGO, LONG_AGO))
    return folder


def from_cache(decoder: Decoder) -> bool:
    return decoder.mapped_bytes > 0


def packed_files(cache: PackedCache) -> list[Path]:
    return sorted(cache.folder.glob("*.packed"))


# -- the second load -------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", PACKABLE)
def test_the_second_load_maps_what_the_first_has_packed(
    model: Path, cache: PackedCache, fmt: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(model, cache, fmt)
    assert not from_cache(first)
    monkeypatch.setattr(SafetensorsFolder, "stretches", None)  # nothing is read again
    second = load(model, cache, fmt)
    assert second.weight_bytes == first.weight_bytes
    assert second.mapped_bytes > 0.9 * second.weight_bytes
    assert fingerprint(second) == fingerprint(first)
    for name in os.listdir(cache.folder):
        assert name.endswith((".packed", ".source"))


def test_every_instruction_set_uses_the_same_file(
    model: Path, cache: PackedCache, right: str
) -> None:
    before = library().dt_current_isa()
    try:
        library().dt_use_isa(Isa.PORTABLE)
        load(model, cache)
        library().dt_use_isa(before)
        again = load(model, cache)
    finally:
        library().dt_use_isa(before)
    assert from_cache(again)
    assert fingerprint(again) == right


def test_formats_and_copies(model: Path, cache: PackedCache, right: str) -> None:
    """Formats are kept side by side, and equal models share one file."""
    for fmt in (Format.Q4, Format.Q8):
        load(model, cache, fmt)
    assert len(packed_files(cache)) == 2
    copy = settled(shutil.copytree(model, model.with_name("copy")))
    assert not from_cache(load(copy, cache))
    assert len(packed_files(cache)) == 2
    for folder in (model, copy):
        decoder = load(folder, cache)
        assert from_cache(decoder)
        assert fingerprint(decoder) == right


def test_mapped_memory_goes_with_the_model(model: Path, cache: PackedCache) -> None:
    if sys.platform != "linux":
        pytest.skip("no /proc to look into")

    def mapped() -> bool:
        return str(cache.folder) in Path("/proc/self/maps").read_text()

    load(model, cache)
    decoder = load(model, cache)
    assert mapped()
    del decoder
    assert not mapped()


# -- other weights -----------------------------------------------------------------------------


def test_other_weights_under_the_same_name_size_and_time(model: Path, cache: PackedCache) -> None:
    load(model, cache)
    other = write_model(model.with_name("other"), seed=1)
    shutil.copyfile(other / "model.safetensors", model / "model.safetensors")
    settled(model)
    decoder = load(model, cache)
    assert not from_cache(decoder)
    assert fingerprint(decoder) == fingerprint(native_decoder(other, Format.Q4))
    assert from_cache(load(model, cache))


def test_files_that_are_changing_are_not_kept(
    model: Path, cache: PackedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slowly:  # seconds may pass until it is looked at
        slowly.setattr(engine.backend.native.cached_weights, "JUST_NOW_S", 3600.0)
        (model / "model.safetensors").touch()
        load(model, cache)
    assert packed_files(cache) == []
    settled(model)
    pack = engine.backend.native.cached_weights.CachedWeights.packed

    def changing(self: CachedWeights, *arguments: object) -> object:
        os.utime(model / "model.safetensors", (LONG_AGO, LONG_AGO + 5))
        return pack(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(CachedWeights, "packed", changing)
    load(model, cache)
    assert os.listdir(cache.folder) == []


def test_damaged_weights_are_not_kept(model: Path, cache: PackedCache) -> None:
    tensors = load_file(model / "model.safetensors")
    tensors["model.embed_tokens.weight"][-1, -1] = np.nan  # packed last
    save_file(tensors, model / "model.safetensors")
    settled(model)
    with pytest.raises(UserFixable, match="not numbers"):
        load(model, cache)
    assert os.listdir(cache.folder) == []


# -- files that are not as they were written -----------------------------------------------------


def cut(keep: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(len(data) * keep)]


def flip(place: float) -> Callable[[bytes], bytes]:
    def flipped(data: bytes) -> bytes:
        at = min(int(len(data) * place), len(data) - 1)
        while not data[at]:  # what lies between matrices matters to nobody
            at += 1
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    return flipped


@pytest.mark.release(keep=4, reason="every damage")
@pytest.mark.parametrize(
    "damage",
    [
        cut(0), cut(0.001), cut(0.5), cut(0.9999), flip(0), flip(0.3), flip(0.7), flip(0.999),
        flip(1), lambda data: data + b"\0", lambda data: data[:-64] + bytes(64), lambda _: b"hello",
    ],
)  # fmt: skip
def test_a_damaged_file_is_made_anew(
    model: Path, cache: PackedCache, right: str, damage: Callable[[bytes], bytes]
) -> None:
    load(model, cache)
    (file,) = packed_files(cache)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert fingerprint(load(model, cache)) == right
    load(model, cache)
    assert packed_files(cache) == [file]
    assert file.read_bytes() == whole
    assert from_cache(load(model, cache))


@pytest.mark.skipif(os.name == "nt", reason="a mapped file cannot become shorter there")
def test_a_file_that_becomes_shorter_ends_the_answer_and_not_the_process(
    model: Path, cache: PackedCache, right: str
) -> None:
    load(model, cache)
    decoder = load(model, cache)
    assert from_cache(decoder)
    (file,) = packed_files(cache)
    os.truncate(file, file.stat().st_size // 2)
    for _ in range(2):  # the zeros in the file's place are never taken for weights
        with pytest.raises(UserFixable, match="changed while it was in use"):
            fingerprint(decoder)
    again = load(model, cache)
    del decoder
    gc.collect()
    assert fingerprint(again) == right


@pytest.mark.parametrize("note", [b"", b"../../../etc/passwd", b"\xff\xfe", b"0" * 32])
def test_a_damaged_note(model: Path, cache: PackedCache, right: str, note: bytes) -> None:
    load(model, cache)
    (known,) = cache.folder.glob("*.source")
    known.write_bytes(note)
    assert fingerprint(load(model, cache)) == right
    assert from_cache(load(model, cache))


@pytest.mark.parametrize("change", [{"hidden_size": 32}, {"seed": 4}])
def test_a_file_of_another_model_is_not_taken(
    model: Path, cache: PackedCache, right: str, change: dict[str, int]
) -> None:
    other = settled(write_model(model.with_name("other"), **change))  # type: ignore[arg-type]
    load(other, cache)
    (theirs,) = packed_files(cache)
    load(model, cache)
    (own,) = set(packed_files(cache)) - {theirs}
    shutil.copyfile(theirs, own)
    assert fingerprint(load(model, cache)) == right


def test_matrices_of_another_shape_are_not_taken(model: Path, cache: PackedCache) -> None:
    """The last check before native code would read beyond its memory."""
    load(model, cache)
    (file,) = packed_files(cache)
    packed = PackedFile.open(file, file.stem)
    pool = shared_pool()
    assert packed.matrix([EMBEDDING], Format.Q4, (320, 64), pool).nbytes > 0
    for fmt, shape in ((Format.Q4, (336, 64)), (Format.Q4, (320, 32)), (Format.Q8, (320, 64))):
        with pytest.raises(DamagedFile):
            packed.matrix([EMBEDDING], fmt, shape, pool)
    with pytest.raises(DamagedFile):
        packed.matrix(["something.else"], Format.Q4, (320, 64), pool)


# -- folders that do not play along ----------------------------------------------------------------


def test_a_folder_that_cannot_be_written(model: Path, tmp_path: Path, right: str) -> None:
    (tmp_path / "file").write_text("in the way")
    places = [tmp_path / "file" / "packed"]
    if sys.platform == "linux":
        places.append(Path("/proc/packed"))  # read-only even for root
    for place in places:
        cache = PackedCache(place)
        for _ in range(2):
            assert fingerprint(load(model, cache)) == right
        assert (cache.usage(), cache.clear()) == (0, 0)


def test_a_read_only_folder_still_serves(model: Path, cache: PackedCache, right: str) -> None:
    load(model, cache)
    cache.folder.chmod(0o500)
    try:
        decoder = load(model, cache)
    finally:
        cache.folder.chmod(0o700)
    assert from_cache(decoder)
    assert fingerprint(decoder) == right


@pytest.mark.parametrize("room", [0, 20_000, 100_000])
def test_a_full_disk(model: Path, cache: PackedCache, right: str, room: int) -> None:
    """The system refuses to let files grow; the model loads as if there were no cache."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        decoder = load(model, cache)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert fingerprint(decoder) == right
    assert os.listdir(cache.folder) == []
    load(model, cache)
    assert from_cache(load(model, cache))


# -- several processes -----------------------------------------------------------------------------


def start(model: Path, cache: PackedCache, die_at: int = 0) -> subprocess.Popen[str]:
    child = Path(__file__).with_name("packing_child.py")
    return subprocess.Popen(
        [sys.executable, str(child), str(model), str(cache.folder), str(die_at)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_at_once(model: Path, cache: PackedCache, right: str) -> None:
    children = [start(model, cache), start(model, cache)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        assert child.communicate(timeout=300)[0] == right
        assert child.returncode == 0
    assert len(packed_files(cache)) == 1
    assert from_cache(load(model, cache))


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_killed_while_writing(model: Path, cache: PackedCache, right: str) -> None:
    child = start(model, cache, die_at=3)
    assert child.communicate("go\n", timeout=300)[0] == ""
    assert child.returncode == -signal.SIGKILL
    (half,) = cache.folder.iterdir()
    assert half.suffix == ".part"
    assert fingerprint(load(model, cache)) == right
    assert not half.exists()
    assert from_cache(load(model, cache))


def test_what_another_process_is_writing_is_left_alone(model: Path, cache: PackedCache) -> None:
    cache.folder.mkdir(parents=True)
    alive = cache.folder / f"{os.getppid()}-abcd.part"
    old = cache.folder / f"{os.getpid()}-abcd.part"
    stray = cache.folder / "stray.part"
    for file in (alive, old, stray):
        file.write_bytes(b"half")
    os.utime(old, (LONG_AGO, LONG_AGO))
    load(model, cache)
    assert [alive.exists(), old.exists(), stray.exists()] == [True, False, False]


# -- bounds ------------------------------------------------------------------------------------


def test_the_least_recently_used_goes_first(
    model: Path, cache: PackedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    for age, fmt in enumerate((Format.Q8, Format.BF16)):
        load(model, cache, fmt)
        (new,) = (file for file in packed_files(cache) if file.stat().st_mtime > LONG_AGO + 9)
        os.utime(new, (LONG_AGO + age, LONG_AGO + age))
        sizes.append(new.stat().st_size)
    assert from_cache(load(model, cache, Format.Q8))  # and so the other one is the older
    monkeypatch.setattr(packed_cache, "MOST_BYTES", sum(sizes))
    load(model, cache, Format.Q4)
    assert cache.usage() <= sum(sizes)
    assert from_cache(load(model, cache, Format.Q8))
    assert from_cache(load(model, cache, Format.Q4))
    assert not from_cache(load(model, cache, Format.BF16))


def test_what_would_take_too_much_of_the_disk_is_not_kept(
    model: Path, cache: PackedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(model, cache, Format.Q8)
    before = packed_files(cache)
    usage = shutil.disk_usage(cache.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=20_000))
    load(model, cache, Format.Q4)
    assert packed_files(cache) == before


def test_clearing(model: Path, cache: PackedCache) -> None:
    assert cache.clear() == 0
    decoder = load(model, cache)
    decoder = load(model, cache)
    usage = cache.usage()
    assert usage > 0.9 * decoder.mapped_bytes
    assert cache.clear() == usage
    assert list(cache.folder.iterdir()) == []
    assert fingerprint(decoder)  # a model in use lives on
    assert not from_cache(load(model, cache))
