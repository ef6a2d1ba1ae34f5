"""A library that answers in NVIDIA's place."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
from recorded_nvml import FakeNvml

SOURCE = Path(__file__).with_name("fake_nvml.c")


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    options = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Werror", "-D_GNU_SOURCE"]
    subprocess.run([compiler, *options, "-o", str(library), str(SOURCE)], check=True)
    return library


@pytest.fixture
def _fresh_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it had just been imported: it keeps the library and its functions."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})


@pytest.fixture
def nvml(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _fresh_pynvml: None
) -> Iterator[FakeNvml]:
    """pynvml finds the fake library where it looks for NVIDIA's."""
    asked: list[str] = []

    def load(name: str) -> ctypes.CDLL:
        asked.append(name)
        return ctypes.CDLL(str(nvml_library))

    recording = tmp_path / "recording"
    monkeypatch.setenv("DUOTAIL_NVML_RECORDING", str(recording))
    monkeypatch.setattr(pynvml, "CDLL", load)
    yield FakeNvml(recording)
    assert set(asked) <= {"libnvidia-ml.so.1"}


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch, _fresh_pynvml: None) -> None:
    """A machine without NVIDIA's driver."""

    def load(name: str) -> ctypes.CDLL:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(pynvml, "CDLL", load)
