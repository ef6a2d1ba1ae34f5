from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.devices import kept_measurements
from engine.devices.kept_measurements import MOST_SPEEDS, KeptSpeeds, identity, speeds_folder
from engine.machine.facts import Accelerator, Host, Machine
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds

GIB = 2**30
HOST = Host(
    *(8, 16 * GIB, 9 * GIB, "Processor", 16),
    instruction_sets=("avx2",),
    kernels="avx2",
)
GPU = Accelerator(
    "cuda:0", "GPU", memory_total=8 * GIB, memory_free=7 * GIB, identity="GPU-1", driver="570.1"
)
MACHINE = Machine(HOST, (GPU,))
PRODUCT = ProductSpeed((1, 8), (3e10, 2.5e10))
SPEEDS = Speeds(
    {"cpu": DeviceSpeeds("cpu", 3.1e10, {"Q4_0": PRODUCT}, 1e-5, 2e-5, 3e-6, PRODUCT, 8)},
    {"cuda:0": LinkSpeed("cuda:0", 1e10, 2e10, 1e-5)},
    measured=True,
)


def test_what_is_kept_is_found_again() -> None:
    kept = KeptSpeeds()
    assert kept.folder == speeds_folder()
    assert str(kept.folder).startswith(os.environ["DUOTAIL_CACHE_DIR"])
    assert kept.find(MACHINE, 8) is None
    kept.keep(MACHINE, 8, SPEEDS)
    assert KeptSpeeds().find(MACHINE, 8) == SPEEDS
    kept.keep(MACHINE, 8, replace(SPEEDS, links={}))
    assert KeptSpeeds().find(MACHINE, 8) == replace(SPEEDS, links={})
    assert [path.suffix for path in kept.folder.iterdir()] == [".json"]
    link = replace(SPEEDS.links["cuda:0"], to_bytes_per_s=-1.0)
    kept.keep(MACHINE, 8, replace(SPEEDS, links={"cuda:0": link}))
    assert kept.find(MACHINE, 8) is None, "nobody can plan with that"


def test_it_is_measured_anew_when_the_hardware_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        (replace(MACHINE, host=replace(HOST, name="Another")), 8),
        (replace(MACHINE, host=replace(HOST, cores=4)), 8),
        (replace(MACHINE, host=replace(HOST, memory_total=32 * GIB)), 8),
        (replace(MACHINE, host=replace(HOST, kernels="portable")), 8),
        (replace(MACHINE, accelerators=()), 8),
        (replace(MACHINE, accelerators=(replace(GPU, driver="571.0"),)), 8),
        (replace(MACHINE, accelerators=(replace(GPU, identity="GPU-2"),)), 8),
        (MACHINE, 7),
    ]
    names = {identity(machine, threads) for machine, threads in [*others, (MACHINE, 8)]}
    assert len(names) == len(others) + 1
    for name in ("_native_build", "_torch"):
        with monkeypatch.context() as patch:
            patch.setattr(kept_measurements, name, lambda: "another")
            assert identity(MACHINE, 8) not in names


def test_what_changes_all_the_time_does_not_matter() -> None:
    now = replace(HOST, memory_available=GIB)
    simulated = Accelerator("simulated:0", "", memory_total=GIB, simulated=True)
    machine = Machine(now, (replace(GPU, memory_free=GIB), simulated))
    assert identity(machine, 8) == identity(MACHINE, 8)


@pytest.mark.release(keep=5, reason="every damage")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 200_000,
        b'{"identity": "NAME", "speeds": {"devices": 5}}',
        b'{"identity": "NAME", "speeds": {"devices": {}, "bandwidth": 3}}',
        b'{"identity": "NAME", "speeds": {"links": {"cuda:0": {"device": "cuda:0"}}}}',
        b'{"identity": "another", "speeds": {"devices": {}}}',
    ],
)
def test_a_damaged_file_is_as_none(content: bytes) -> None:
    kept = KeptSpeeds()
    kept.keep(MACHINE, 8, SPEEDS)
    (path,) = kept.folder.iterdir()
    path.write_bytes(content.replace(b"NAME", path.stem.encode()))
    assert kept.find(MACHINE, 8) is None
    kept.keep(MACHINE, 8, SPEEDS)
    assert kept.find(MACHINE, 8) == SPEEDS


@pytest.mark.parametrize(
    "step", [31, pytest.param(7, marks=pytest.mark.release(reason="nearly every length"))]
)
def test_cut_off_anywhere_it_is_as_none(step: int) -> None:
    kept = KeptSpeeds()
    kept.keep(MACHINE, 8, SPEEDS)
    (path,) = kept.folder.iterdir()
    content = path.read_bytes()
    for length in range(0, len(content), step):
        path.write_bytes(content[:length])
        assert kept.find(MACHINE, 8) is None


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    in_a_file = KeptSpeeds(tmp_path / "file")
    in_a_file.keep(MACHINE, 8, SPEEDS)
    assert in_a_file.find(MACHINE, 8) is None

    def full(path: Path, *_: object) -> None:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    kept = KeptSpeeds(tmp_path / "speeds")
    kept.keep(MACHINE, 8, SPEEDS)
    assert kept.find(MACHINE, 8) is None
    assert list(kept.folder.iterdir()) == []


def test_machines_of_long_ago_are_forgotten() -> None:
    kept = KeptSpeeds()
    for threads in range(1, MOST_SPEEDS + 4):
        kept.keep(MACHINE, threads, SPEEDS)
        path = kept.folder / f"{identity(MACHINE, threads)}.json"
        os.utime(path, (threads, threads))
    kept.keep(MACHINE, 99, SPEEDS)
    assert len(list(kept.folder.iterdir())) == MOST_SPEEDS
    assert kept.find(MACHINE, 1) is None
    assert kept.find(MACHINE, 99) == SPEEDS
    assert all(json.loads(path.read_bytes()) for path in kept.folder.iterdir())
