"""The build of llama.cpp: what is asked for, and how it is told."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import peer
import pytest


def test_both_packages_are_named() -> None:
    assert sorted(name.split(">=")[0] for name in peer.requirements()) == [
        "gguf",
        "llama-cpp-python[server]",
    ]


@pytest.mark.skipif(os.name == "nt", reason="no such header there")
def test_cmake_arguments_survive_a_folder_with_blanks() -> None:
    header = Path("/some where/amx_tile_config.h")
    arguments = shlex.split(peer.cmake_arguments(header))
    assert "-DGGML_NATIVE=ON" in arguments
    (flags,) = [each for each in arguments if each.startswith("-DCMAKE_CXX_FLAGS=")]
    assert shlex.split(flags.partition("=")[2]) == ["-include", str(header)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_header_keeps_the_whole_tile_configuration(tmp_path: Path) -> None:
    source = tmp_path / "tiles.cpp"
    source.write_text(
        "#include <immintrin.h>\n"
        "struct alignas(64) Config { unsigned char palette, rest[14], last[49]; };\n"
        "void load() { Config c = {}; c.palette = 1; c.last[48] = 77; _tile_loadconfig(&c); }\n"
    )
    flags = ["-O3", "-mamx-tile", "-S", "-o", "-", "-include", str(peer.TILE_CONFIG)]
    made = subprocess.run(["g++", *flags, str(source)], capture_output=True, text=True)
    if "unrecognized" in made.stderr or "arch" in made.stderr:
        pytest.skip("this compiler knows no AMX")
    assert made.returncode == 0, made.stderr
    assert "$77" in made.stdout
    assert "ldtilecfg" in made.stdout


def test_nothing_is_built_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "works", lambda *_: True)
    monkeypatch.setattr(peer, "run", lambda *_: pytest.fail("it would build"))
    assert peer.main() == 0


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(peer, "works", lambda *_: False)
    monkeypatch.setenv("PATH", "")
    assert peer.main() == 1
    assert "C++ compiler" in capsys.readouterr().err


def test_without_a_wheel_that_drafts_the_rest_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def fails(command: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(peer, "works", lambda names="both": names == "both")
    monkeypatch.setattr(peer, "run", lambda *_: pytest.fail("it would build"))
    monkeypatch.setattr(peer.subprocess, "run", fails)
    assert peer.main() == 0
    (command,) = asked
    assert command[-3:-1] == ["--only-binary", ":all:"], "nothing is built"
    assert command[-1].startswith("xllamacpp>=")
    assert "llama.cpp-draft" in "".join(capsys.readouterr())
