"""What was learnt of a pair comes back as it was written, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.backend.segment import Share
from engine.commands import Mode
from engine.devices.kept_measurements import MOST_LEARNT, KeptLearnt, learnt_folder, pair_identity
from engine.machine.facts import CPU, Host, Machine
from engine.plan.plan import Plan
from engine.speculative.costs import KnownMean, Learnt

LEARNT = Learnt(
    verify=(KnownMean(0.004, 8.0, 1), KnownMean(0.005, 3.5, 4)),
    levels=(KnownMean(0.0004, 9.0, 1),),
    means={"goes_on": KnownMean(0.7, 30.0)},
)
MACHINE = Machine(Host(cores=2, memory_total=2**33, memory_available=2**32), ())
PLAN = Plan(
    mode=Mode.CPU,
    target=(Share(CPU, range(4)),),
    draft=0,
    draft_device=CPU,
    lookup=True,
    context=2048,
    depth=4,
    tokens_per_s=None,
    plain_tokens_per_s=None,
    memory=(),
    reasons=(),
)


def test_it_comes_back(tmp_path: Path) -> None:
    KeptLearnt(tmp_path / "new").keep("a", LEARNT)
    assert KeptLearnt(tmp_path / "new").find("a") == LEARNT
    assert KeptLearnt(tmp_path / "new").find("b") is None
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b"[" * 100_000,
        b'{"identity": "a", "learnt": {"verify": 3}}',
        b'{"identity": "b", "learnt": {}}',
        b'{"identity": "a", "learnt": {"means": {"x": {"value": NaN, "weight": 1}}}}',
        b'{"identity": "a", "learnt": {"means": {"x": {"value": -1, "weight": 1}}}}',
        b'{"identity": "a", "learnt": {}, "more": 1}',
    ],
)
def test_a_damaged_or_alien_file_is_as_if_it_were_not_there(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    kept = KeptLearnt(tmp_path)
    assert kept.find("a") is None
    kept.keep("a", LEARNT)
    assert kept.find("a") == LEARNT


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    kept = KeptLearnt(tmp_path / "file")
    kept.keep("a", LEARNT)
    assert kept.find("a") is None


def test_only_so_many_pairs_are_remembered(tmp_path: Path) -> None:
    kept = KeptLearnt(tmp_path)
    for number in range(MOST_LEARNT + 3):
        kept.keep(f"pair-{number}", LEARNT)
    assert len(list(tmp_path.iterdir())) == MOST_LEARNT


def test_another_machine_pair_or_place_is_another_identity() -> None:
    names = {
        pair_identity(MACHINE, 2, "models", PLAN),
        pair_identity(MACHINE, 1, "models", PLAN),
        pair_identity(MACHINE, 2, "others", PLAN),
        pair_identity(MACHINE, 2, "models", replace(PLAN, mode=Mode.DUO)),
        pair_identity(MACHINE, 2, "models", replace(PLAN, lookup=False)),
        pair_identity(MACHINE, 2, "models", replace(PLAN, target=(Share("cuda:0", range(4)),))),
    }
    assert len(names) == 6
    assert pair_identity(MACHINE, 2, "models", replace(PLAN, reasons=("x",))) in names


def test_the_folder_is_beside_the_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path))
    assert learnt_folder() == tmp_path / "learnt"
    assert KeptLearnt().folder == tmp_path / "learnt"
    KeptLearnt().keep("a", LEARNT)
    assert json.loads((tmp_path / "learnt" / "a.json").read_text())["identity"] == "a"
