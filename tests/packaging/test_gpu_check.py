"""The check of a real card: steps with their time, a report that survives, and the decision."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from card import report
from card.steps import RESULTS, ROOT

SCRIPT = ROOT / "packaging" / "gpu_check.py"
PLANTED = """
import os, subprocess, sys, time
from pathlib import Path


def run(check, *arguments):
    check.say("begun")
    if arguments[0] == "fails":
        raise ValueError("as planned")
    if arguments[0] == "differs":
        check.emit("placement", placement="all", exact=False)
    if arguments[0] == "crashes":
        os.abort()
    if arguments[0] == "hangs":
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        check.emit("child", pid=other.pid)
        time.sleep(600)
    check.say("done")
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A copy of the script whose steps do what a test says."""
    script = tmp_path / "packaging"
    (script / "card").mkdir(parents=True)
    for name in ("gpu_check.py", "native_library.py"):
        (script / name).write_bytes((SCRIPT.parent / name).read_bytes())
    for each in (SCRIPT.parent / "card").glob("*.py"):
        (script / "card" / each.name).write_bytes(each.read_bytes())
    (script / "card" / "planted.py").write_text(PLANTED)
    (script / "card" / "look.py").write_text(
        "def run(check):\n    check.emit('has', has=['torch'], missing={})\n    check.say('here')\n"
    )
    steps = script / "card" / "steps.py"
    text = steps.read_text()
    begin, end = text.index("def _steps()"), text.index("def _speeds(")
    body = 'def _steps():\n    yield Step("look", "", 30, "look")\n'
    for name in ("fails", "crashes", "hangs", "differs", "works"):
        body += f'    yield Step("{name}", "", 30, "planted", ("{name}",))\n'
    body += '    yield Step("needs", "", 30, "planted", ("works",), ("wgpu",))\n\n\n'
    steps.write_text(text[:begin] + body + text[end:])
    return script / "gpu_check.py"


def run(script: Path, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def hangs_for(script: Path, seconds: int) -> None:
    """Have the step that hangs ended after so long."""
    steps = script.parent / "card" / "steps.py"
    text = re.sub('(?<="hangs", "", )[0-9]+', str(seconds), steps.read_text())
    steps.write_text(text)


def ends(out: Path) -> dict[str, str]:
    told = json.loads((out / "report.json").read_text())["results"]
    return {line["step"]: line["ended"] for line in told if line["kind"] == "end"}


def test_a_step_that_fails_hangs_or_crashes_does_not_stop_the_next(
    planted: Path, tmp_path: Path
) -> None:
    children: list[int] = []
    for seconds in (2, 10, 50):  # on a busy machine it may take a while until it hangs
        hangs_for(planted, seconds)
        out = tmp_path / f"out-{seconds}"
        done = run(planted, out)
        children = [line["pid"] for line in written(out) if line["kind"] == "child"]
        if children:
            break
    assert done.returncode == 1, done.stderr
    assert ends(out) == {
        "look": "ok",
        "fails": "failed (exit code 1)",
        "crashes": "failed (ended by SIGABRT)",
        "hangs": f"over its {seconds} s",
        "differs": "faults",
        "works": "ok",
        "needs": "skipped: no wgpu here",
    }
    assert "ValueError: as planned" in (out / "log.txt").read_text()
    assert "without wgpu these are skipped: needs" in done.stdout
    assert len(children) == 1
    assert not running(children[0]), "a step's own processes end with it"


def test_the_time_of_all_steps_is_kept(planted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(planted, out, "--budget", "1")
    found = ends(out)
    assert found.pop("look") in ("ok", "over its 1 s")
    assert set(found.values()) <= {"skipped: no time left", "skipped: no wgpu here"}


def test_only_some(planted: Path, tmp_path: Path) -> None:
    assert run(planted, tmp_path / "out", "--only", "works").returncode == 0
    assert ends(tmp_path / "out") == {"look": "ok", "works": "ok"}


def test_who_stops_it_keeps_what_there_is(planted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, str(planted), "--out", str(out), "--only", "hangs"]
    hangs_for(planted, 500)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        while not any(line["kind"] == "child" for line in written(out)):
            assert started.poll() is None
        os.kill(started.pid, signal.SIGTERM)
        said, _ = started.communicate()
    assert started.returncode == 130
    assert "stopped" in said
    assert ends(out) == {"look": "ok", "hangs": "interrupted"}
    assert "begun" in (out / "report.md").read_text()
    again = run(planted, out, "--report", str(out))
    assert again.stdout == (out / "report.md").read_text()


def running(pid: int) -> bool:
    """Whether it computes; one that ended may wait for whoever collects it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def written(out: Path) -> list[dict[str, Any]]:
    try:
        text = (out / RESULTS).read_text()
    except OSError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


# -- the decision ------------------------------------------------------------------------------


def timed(stack: str, one: float, prompt: float, shape: str = "qwen2.5-7b") -> report.Found:
    about = {"step": "speed", "stack": stack, "shape": shape, "format": "q4_0"}
    return [
        {**about, "kind": "TimedRounds", "context": 512, "seconds": {"1": one}, "work": {}},
        {
            **about,
            "kind": "TimedPrefill",
            "tokens": 512,
            "seconds": prompt,
            "work": {"kernels": {}},
        },
    ]


@pytest.mark.parametrize(
    ("one", "prompt", "words"),
    [
        (0.0125, 1.99, "PyTorch's kernels, recordings and drafting go"),
        (0.0126, 1.99, "q4_0: decode 512 at 0.79"),
        (0.0125, 2.01, "q4_0: prefill 512 at 0.50"),
    ],
)
def test_which_stack_goes(one: float, prompt: float, words: str) -> None:
    """WebGPU's decoding at 0.8, and its prefill at 0.5, of PyTorch's speed."""
    found = timed("torch", 0.01, 1.0) + timed("webgpu", one, prompt)
    assert words in report.decide(found)["verdict"]
    elsewhere = timed("torch", 0.01, 1.0, "llama2-7b") + timed("webgpu", 0.1, 1.0, "llama2-7b")
    assert "llama2-7b q4_0: decode 512 at 0.10" in report.decide(found + elsewhere)["verdict"]


def test_nothing_is_decided_without_both() -> None:
    assert "Undecided" in report.decide(timed("torch", 0.01, 1.0))["verdict"]
    assert "Undecided" in report.decide([])["verdict"]


def test_half_a_line_at_the_end_is_left_out(tmp_path: Path) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in timed("torch", 0.01, 1.0))
    (tmp_path / RESULTS).write_text(lines + '{"step": "spe')
    assert "10.00" in report.text(tmp_path)


def test_every_step_names_what_it_needs() -> None:
    from card.steps import steps

    every = steps()
    assert every[0].name == "look"
    assert len({step.name for step in every}) == len(every)
    known = {"native", "torch", "triton", "wgpu", "webgpu", "pytest"}
    assert {need for step in every for need in step.needs} <= known
