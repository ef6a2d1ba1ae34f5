"""The whole set-up, as processes, where something is in its way; a second run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import native_library
import packages
import pytest
from small_project import Index, served, start, write_project

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="make is for Linux and macOS"),
    pytest.mark.skipif(native_library.find_compiler() is None, reason="needs a C compiler"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in a folder whose name has blanks and letters of other languages."""
    return write_project(tmp_path / "größer als ß 中")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    (tmp_path / "wheels").mkdir()
    return Index(tmp_path / "wheels")


@pytest.fixture
def url(index: Index) -> Iterator[str]:
    with served(index) as address:
        yield address


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def test_a_download_that_breaks_off_goes_on_later(project: Path, index: Index, url: str) -> None:
    index.broken = "two"
    code, out, err = finish(start(project, url))
    assert code == 1
    assert "Ready" not in out
    assert "The download broke off" in err, err
    assert index.fetched["one"] == 1
    assert (project / "engine" / native_library.LIBRARY).exists(), "the compiler was done"

    index.broken = ""
    objects = {file: file.stat().st_ino for file in (project.parent / "cache").rglob("*.o")}
    code, out, err = finish(start(project, url))
    assert (code, err) == (0, "")
    assert "Ready after" in out
    assert index.fetched["one"] == 1, "what was whole is not fetched again"
    assert objects == {file: file.stat().st_ino for file in objects}, "nothing is compiled again"
    assert (project / ".venv" / "bin" / "duotail").exists()

    before = dict(index.fetched)
    code, out, err = finish(start(project, url))
    assert (code, err) == (0, "")
    assert "Ready" not in out, "there was nothing to do"
    assert dict(index.fetched) == before


def test_two_at_once_wait_for_each_other(project: Path, index: Index, url: str) -> None:
    index.held = "two"
    first = start(project, url)
    assert index.asked.wait(300)
    second = start(project, url)
    assert second.stdout is not None
    assert "Another set-up is at work" in second.stdout.readline()
    index.go_on.set()
    code, out, err = finish(first)
    assert (code, err) == (0, "")
    assert "Ready after" in out
    code, out, err = finish(second)
    assert (code, err) == (0, "")
    assert "Ready" not in out, "the first one had done it"
    assert index.fetched["two"] == 1


@pytest.mark.release(reason="makes an environment")
def test_a_set_up_that_was_killed_is_taken_up(project: Path, index: Index, url: str) -> None:
    """What it had started ends before the next one begins."""
    index.held = "two"
    first = start(project, url)
    assert index.asked.wait(300)
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = start(project, url)
    assert second.stdout is not None
    assert "Another set-up is at work" in second.stdout.readline()
    index.go_on.set()
    code, out, err = finish(second)
    assert (code, err) == (0, "")
    assert "Ready after" in out
    for stream in (first.stdout, first.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.release(reason="makes an environment")
def test_a_compiler_that_fails_is_told_and_another_one_goes_on(
    project: Path, index: Index, url: str, tmp_path: Path
) -> None:
    script = tmp_path / "mycc"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *module.c*) echo "module.c: so sorry" >&2; exit 1;; esac\n'
        'exec cc "$@"\n'
    )
    script.chmod(0o755)
    code, _, err = finish(start(project, url, CC=str(script)))
    assert code == 1
    assert "module.c: so sorry" in err
    assert "make CC=clang" in err
    code, out, err = finish(start(project, url))
    assert (code, err) == (0, "")
    assert "Ready after" in out
    assert set(index.fetched.values()) == {1}


def test_a_folder_that_cannot_be_written_to_is_told(project: Path) -> None:
    (project / ".setup.lock").mkdir()  # as root may write anywhere
    code, out, err = finish(start(project, "http://127.0.0.1:1/simple"))
    assert (code, out) == (1, "")
    assert "nothing can be written there" in err
    assert "cp -r" in err
    assert not (project / ".venv").exists()


@pytest.mark.release(reason="makes an environment")
def test_without_a_network_one_sentence_says_so(project: Path) -> None:
    code, _, err = finish(start(project, "http://127.0.0.1:1/simple"))
    assert code == 1
    assert "this machine is offline" in err


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left", "full"),
        ("WARNING: Retrying (Retry(total=4 ...\nERROR: No matching distribution", "offline"),
        ("ERROR: Wheel 'two' located at /tmp/two.whl is invalid.", "broke off"),
        ("ERROR: [Errno 13] Permission denied: '/x'", "could not be written"),
        ("ERROR: No matching distribution found for one==2.0", "lines above say why"),
    ],
)
def test_what_pip_says_becomes_a_sentence_with_a_way_on(said: str, told: str) -> None:
    sentence = packages.explained(said)
    assert told in sentence
    assert "run make again" in sentence
