"""`duotail bench modes`: what the window's benchmark measures, on a terminal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET

from engine.backend.cpu import native_is_built
from engine.cli.exit_code import ExitCode
from engine.commands import Command, Load, Mode
from engine.events import Compared, Event, MachineFound, PlanReady, PlanSummary
from engine.machine.facts import Host, Machine

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

_FEW = ("bench", "modes", "--simulate-gpu", "1", "--passes", "1", "--tokens", "9")


def test_every_mode_has_a_row(duotail: Duotail) -> None:
    said = duotail(*_FEW, "--json").json
    assert [row["mode"] for row in said["rows"]] == ["auto", "duo", "dovetail", "cpu", "plain"]
    for row in said["rows"]:
        assert (row["same_as"] is None) == (row["tokens_per_s"] is not None)
    assert said["complete"]
    assert said["hardware"]["simulated"]
    assert said["winner"] in {row["mode"] for row in said["rows"]}
    command = f"duotail bench modes --model {FOLDER_TARGET.name} --simulate-gpu 1"
    assert said["command"].startswith(command)


@pytest.mark.release(reason="a whole comparison")
def test_the_table_and_the_text_to_share(duotail: Duotail) -> None:
    lines = duotail(*_FEW).out.splitlines()
    assert any("SIMULATED" in line for line in lines)
    firsts = [line.split(" ", 1)[0] for line in lines]
    assert {"Mode", "auto", "duo", "dovetail", "plain"} <= set(firsts)
    assert lines[-1].startswith("Best here: ")
    shared = duotail(*_FEW, "--markdown").out
    assert "| Mode | tokens/s |" in shared
    assert f"`duotail bench modes --model {FOLDER_TARGET.name}" in shared


def test_without_an_accelerator_the_rest_is_measured(duotail: Duotail) -> None:
    said = duotail("bench", "modes", "--passes", "1", "--tokens", "9", "--json")
    assert said.code == ExitCode.DONE
    rows = {row["mode"]: row for row in said.json["rows"]}
    assert rows["plain"]["refusal"] == ""
    assert {row["relative"] for row in rows.values() if row["ran"] == "plain"} & {1.0}


class Silent:
    """An engine that loads, and has measured nothing in the end."""

    def __init__(self, emit: Callable[[Event], None], **_: object) -> None:
        self._emit = emit

    def submit(self, command: Command) -> None:
        if isinstance(command, Load):
            plan = PlanSummary(Mode.PLAIN, None, None, "Small", 64, "cpu", ())
            self._emit(MachineFound(0.0, Machine(Host(1, 1 << 30, 1 << 30))))
            self._emit(PlanReady(0.0, FOLDER_TARGET, "Small", plan))
        else:
            self._emit(Compared(0.0, FOLDER_TARGET, (), complete=False, winner=None))

    def close(self) -> None:
        """There is nothing to close."""


def test_nothing_measured_is_told(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cli.bench_modes.Engine", Silent)
    said = duotail("bench", "modes", "--json")
    assert said.code == ExitCode.BAD_INPUT
    assert "Nothing could be measured" in said.json["error"]


def test_a_model_that_is_not_there(duotail: Duotail) -> None:
    said = duotail("bench", "modes", "--model", "/nowhere", "--json")
    assert said.code == ExitCode.BAD_INPUT
    assert "/nowhere" in said.json["error"]


def test_a_mode_that_needs_what_is_not_here(duotail: Duotail) -> None:
    said = duotail("bench", "modes", "--mode", "dovetail", "--draft", "none")
    assert said.code in (ExitCode.ABSENT, ExitCode.BAD_INPUT)
    assert not said.out
