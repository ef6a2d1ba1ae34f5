"""Output on a terminal."""

from __future__ import annotations

import io
import queue
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli import exit_code, hardware, hub_download, output, serve
from engine.commands import Load
from engine.errors import OutOfMemory, UserFixable
from engine.events import WayOut
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.messages import Job, Packaging, RemoteFile
from engine.machine.memory import DeviceMemory, Holder, Shortage
from engine.server.events import RequestState, RequestStatus


@pytest.mark.parametrize(
    ("text", "cells"), [("", 0), ("plain", 5), ("草稿", 4), ("“草”", 4), ("e\u0301", 1), ("Ａ", 2)]
)
def test_width_counts_cells(text: str, cells: int) -> None:
    assert output.width(text) == cells


def test_columns_are_as_wide_in_every_language() -> None:
    assert output.left("ab", 4) == "ab  "
    assert output.right("ab", 4) == "  ab"
    assert output.left("草稿", 6) == "草稿  "
    assert output.right("草稿", 6) == "  草稿"
    assert output.left("much too long", 4) == "much too long"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("k", "ann/tiny", "b" * 40, "Q4_0", Packaging.GGUF, (RemoteFile("m.gguf", 4000),))
    report = JobReport(job, JobState.FETCHING, 1000, 2000.0, 90.0)
    for stream, begin in ((Terminal(), "\r\033[K"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        hardware._progress("Reading", 0.5)
        hub_download._show(report)
        lines = ("50% Reading", "25% of 4.0 kB 2.0 kB/s 1.5 min left") if begin else ()
        shown = stream.getvalue()
        for blank in ("\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"):
            shown = shown.replace(f"{blank}%", "%").replace(blank, " ")
        assert shown == "".join(f"{begin}{line}" for line in lines)


def test_a_download_that_fails_is_an_error() -> None:
    job = Job("k", "ann/tiny", "b" * 40, "Q4_0", Packaging.GGUF, (RemoteFile("m.gguf", 4000),))
    for state in (JobState.FAILED, JobState.WAITING):
        told = queue.SimpleQueue[tuple[JobReport, ...]]()
        told.put((JobReport(job, JobState.WAITING),))
        told.put((JobReport(job, state, cause="It is gone.", remedy="Choose another."),))
        with pytest.raises(UserFixable, match="It is gone") as error:
            hub_download._wait(told)
        assert error.value.remedy == "Choose another."


def test_who_holds_the_memory_and_what_would_fit(capsys: pytest.CaptureFixture[str]) -> None:
    holders = (Holder("browser", 7, 2**30), Holder("game", 8, None))
    full = OutOfMemory("Full.", "Close something.")
    full.shortage = Shortage("cpu", "Memory", DeviceMemory("cpu", 0), 0, holders)
    load = Load(Path("m"), context=2048)
    full.ways_out = (WayOut("Smaller", load, 7.25), WayOut("Smallest", load))
    exit_code.report(full, as_json=False)
    said = capsys.readouterr().err.replace("\N{NO-BREAK SPACE}", " ")
    assert "Other programs using much memory: browser (1.0 GiB), game." in said
    assert "Smaller, about 7.2 tokens/s: --context 2048" in said
    assert "Smallest: --context 2048" in said


def test_of_a_request_that_is_over_a_line_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    request = RequestStatus("1", 0.0, "10.0.0.7", "curl", "/v1/completions", code=200, tokens=12)
    serve._show(request)
    assert capsys.readouterr().err == ""
    serve._show(replace(request, state=RequestState.DONE))
    line = capsys.readouterr().err
    assert re.fullmatch(r"\d\d:\d\d:\d\d 10\.0\.0\.7 /v1/completions: done, .*12 tokens\n", line)
