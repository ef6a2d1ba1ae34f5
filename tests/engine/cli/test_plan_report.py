"""`duotail plan` tells what plans for a model said before, and what it held."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Duotail
from engine_session import Session

from engine.cli.plan_report import estimate_lines, estimate_report
from engine.devices.kept_estimates import DeviceEstimate, LoadEstimate, ModelEstimates
from engine.machine.memory import DeviceMemory

MIB = 2**20
PLANNED = DeviceMemory("cuda:0", 0, target=4000 * MIB, workspace=400 * MIB, runtime=500 * MIB)
HELD = replace(PLANNED, workspace=500 * MIB)
DEVICE = DeviceEstimate("cuda:0", "1", "GPU", PLANNED, HELD, HELD.total, 5100 * MIB)
KNOWN = ModelEstimates(
    "ab", "Target", "Draft", "Q4_K_M", (LoadEstimate(1.7e9, "duo", 4096, (DEVICE,), 2),)
)


def test_nothing_is_told_of_what_was_never_loaded() -> None:
    assert estimate_report(None) is None
    assert list(estimate_lines(None)) == []
    assert list(estimate_lines(replace(KNOWN, loads=()))) == []


def test_the_table_adds_up() -> None:
    lines = [" ".join(line.split()) for line in estimate_lines(KNOWN)]
    assert lines[1] == "Half of the estimates for this model are off by less than 2.0 %."
    whole = next(line for line in lines if "duo cuda:0" in line)
    assert whole.endswith("duo cuda:0 4.79 GiB 4.88 GiB -2.0 % 4.98 GiB")
    assert any(line.startswith("workspace 0.39 GiB 0.49 GiB -20.0 %") for line in lines)


def test_the_object_has_all_of_it() -> None:
    told = json.loads(json.dumps(estimate_report(KNOWN)))
    assert told["typical_error"] == pytest.approx(100 / 5000)
    (load,) = told["loads"]
    device = load["devices"]["cuda:0"]
    assert device["predicted"]["total"] == 4900 * MIB
    assert device["held"]["workspace"] == 500 * MIB
    assert device["system"] == 5100 * MIB


def test_plan_tells_of_loads_before(
    duotail: Duotail, chat_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path / "cache"))
    plan = ("plan", "--model", chat_model)
    assert duotail(*plan, "--json").json["estimates"] is None
    session = Session()
    session.load(chat_model)
    session.ask("Hello", max_tokens=3)
    session.close()
    (load,) = duotail(*plan, "--json").json["estimates"]["loads"]
    assert (load["answers"], list(load["devices"])) == (1, ["cpu"])
    assert "Half of the estimates for this model are off by less than" in duotail(*plan).out
