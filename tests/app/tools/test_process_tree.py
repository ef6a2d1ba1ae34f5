"""Servers over stdio end with all that they started, on Windows by a job."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from app.tools.process_tree import ProcessTree


class PlayedWindows:
    """What pywin32 is asked for."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.closed: list[object] = []
        self.refuses = refuses

    def modules(self) -> dict[str, ModuleType]:
        named = {
            "pywintypes": {"error": OSError},
            "win32con": {"PROCESS_SET_QUOTA": 0x100, "PROCESS_TERMINATE": 1},
            "win32api": {"OpenProcess": self.open, "CloseHandle": self.closed.append},
            "win32job": {
                "JobObjectExtendedLimitInformation": 9,
                "JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE": 0x2000,
                "CreateJobObject": lambda *_: "job",
                "QueryInformationJobObject": lambda *_: {
                    "BasicLimitInformation": {"LimitFlags": 8}
                },
                "SetInformationJobObject": lambda *told: self.asked.append(("limits", *told)),
                "AssignProcessToJobObject": lambda *told: self.asked.append(("assign", *told)),
                "TerminateJobObject": lambda *told: self.asked.append(("end", *told)),
            },
        }
        made = {}
        for name, members in named.items():
            made[name] = ModuleType(name)
            vars(made[name]).update(members)
        return made

    def open(self, _rights: int, _inherits: bool, pid: int) -> str:
        if self.refuses:
            raise OSError("access is denied")
        return f"process {pid}"


@pytest.fixture
def process() -> Any:
    calls: list[str] = []
    return SimpleNamespace(
        pid=77,
        calls=calls,
        kill=lambda: calls.append("kill"),
        terminate=lambda: calls.append("terminate"),
    )


def on(windows: PlayedWindows, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in windows.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("app.tools.process_tree.sys", SimpleNamespace(platform="win32"))


def test_windows_ends_what_a_server_started_by_its_job(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = PlayedWindows()
    on(windows, monkeypatch)
    tree = ProcessTree(process)
    ((_, _, _, limits), assigned) = windows.asked
    assert limits["BasicLimitInformation"]["LimitFlags"] == 0x2008, "ends with us, crashed or not"
    assert assigned == ("assign", "job", "process 77")
    tree.ask_to_end()
    tree.end()
    tree.end()
    assert windows.asked[2:] == [("end", "job", 1)]
    assert windows.closed == ["process 77", "job"]
    assert process.calls == ["terminate", "kill", "kill"]


def test_a_server_without_a_job_ends_by_itself(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(PlayedWindows(refuses=True), monkeypatch)
    ProcessTree(process).end()
    assert process.calls == ["kill"]
