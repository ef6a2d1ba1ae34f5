"""What plans said and models held, written down and found again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.devices.kept_estimates import (
    MOST_FILES,
    MOST_LOADS,
    DeviceEstimate,
    KeptEstimates,
    LoadEstimate,
    ModelEstimates,
    estimates_folder,
    identity_of,
)
from engine.machine.facts import Accelerator, Host, Machine
from engine.machine.memory import DeviceMemory

GIB, MIB = 2**30, 2**20
CARD = Accelerator("cuda:0", "GPU", memory_total=8 * GIB, memory_free=7 * GIB, identity="GPU-1")
MACHINE = Machine(Host(8, 16 * GIB, 9 * GIB), (CARD,))
PLANNED = DeviceMemory("cuda:0", 8 * GIB, target=4 * GIB, kv=GIB, workspace=400 * MIB, runtime=GIB)


def a_load(held: DeviceMemory, at: float = 1.0, answers: int = 0, tokens: int = 0) -> LoadEstimate:
    identity = identity_of(MACHINE, "cuda:0")
    device = DeviceEstimate("cuda:0", identity, "GPU", PLANNED, held)
    return LoadEstimate(at, "dovetail", 4096, (device,), answers, tokens)


def of(*loads: LoadEstimate, models: str = "ab") -> ModelEstimates:
    return ModelEstimates(models, "Target", "Draft", "Q4_K_M", loads)


@pytest.fixture
def kept(tmp_path: Path) -> KeptEstimates:
    return KeptEstimates(tmp_path / "estimates")


def test_what_is_kept_is_found_again(kept: KeptEstimates) -> None:
    assert kept.all() == ()
    found = of(a_load(PLANNED, answers=3, tokens=70))
    kept.keep(found)
    assert KeptEstimates(kept.folder).all() == (found,) == kept.all()
    kept.keep(of(a_load(PLANNED), models="cd"))
    assert [each.models for each in kept.all()] == ["cd", "ab"]
    assert sorted(path.name for path in kept.folder.iterdir()) == ["ab.json", "cd.json"]
    assert str(estimates_folder()).startswith(os.environ["DUOTAIL_CACHE_DIR"])


def test_the_oldest_loads_are_forgotten(kept: KeptEstimates) -> None:
    loads = tuple(a_load(PLANNED, at=float(at)) for at in range(MOST_LOADS + 3))
    kept.keep(of(*loads))
    assert KeptEstimates(kept.folder).all()[0].loads == loads[:MOST_LOADS]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"[" * 5000,
        b'{"models": "ab"}',
        b'{"models": "other", "target": "", "draft": "", "weights": "", "loads": []}',
        b'{"models": "ab", "target": "", "draft": "", "weights": "", "loads": [], "version": 99}',
        b'{"models": "ab", "target": "", "draft": "", "weights": "", "loads": [{"at": -1}]}',
    ],
)
def test_damaged_files_are_as_if_they_were_not_there(kept: KeptEstimates, content: bytes) -> None:
    kept.keep(of(a_load(PLANNED), models="cd"))
    (kept.folder / "ab.json").write_bytes(content)
    (kept.folder / "ef.json").mkdir()
    again = KeptEstimates(kept.folder)
    assert [each.models for each in again.all()] == ["cd"]
    assert again.apply(MACHINE).host == MACHINE.host


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "estimates").write_text("a file is in the way")
    kept = KeptEstimates(tmp_path / "estimates")
    kept.keep(of(a_load(PLANNED)))
    assert len(kept.all()) == 1  # of this run
    assert KeptEstimates(tmp_path / "estimates").all() == ()


def test_an_accelerator_says_what_its_software_took(kept: KeptEstimates) -> None:
    assert kept.apply(MACHINE) is MACHINE
    kept.keep(of(a_load(replace(PLANNED, runtime=0), answers=1)))
    assert kept.apply(MACHINE) == MACHINE
    kept.keep(of(a_load(replace(PLANNED, runtime=GIB + 100 * MIB), answers=1)))
    assert kept.apply(MACHINE).accelerators[0].software == GIB + 100 * MIB
    other = replace(MACHINE, accelerators=(replace(CARD, identity="GPU-2"),))
    assert kept.apply(other) == other


def test_the_typical_error_is_the_median_of_loads_that_have_answered() -> None:
    whole = PLANNED.total
    off = [replace(PLANNED, runtime=GIB + whole * share // 1000) for share in (10, 30, 500)]
    loads = [a_load(held, answers=1) for held in off]
    assert of(*loads).typical_error == pytest.approx(0.03 / 1.03, rel=1e-3)
    assert of(a_load(off[2]), *loads[:1]).typical_error == pytest.approx(0.01 / 1.01, rel=1e-3)
    assert of(a_load(off[2])).typical_error is None


def test_what_another_process_writes_is_seen(kept: KeptEstimates) -> None:
    for answers in range(4):
        kept.keep(of(a_load(PLANNED, answers=answers)))
        assert KeptEstimates(kept.folder).all()[0].loads[0].answers == answers


def test_only_so_many_models_are_remembered(kept: KeptEstimates) -> None:
    for number in range(MOST_FILES + 3):
        kept.keep(of(models=f"{number:02}"))
    found = KeptEstimates(kept.folder).all()
    assert len(found) == MOST_FILES == len(list(kept.folder.iterdir()))
