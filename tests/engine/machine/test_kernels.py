"""Which accelerators have kernels, and what each lacks."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from engine.machine import kernels
from engine.machine.facts import Vendor
from engine.machine.kernels import reason_against_kernels


@pytest.fixture(autouse=True)
def _complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with everything that Triton needs."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("DUOTAIL_KERNELS", raising=False)
    monkeypatch.setattr(kernels, "find_spec", lambda name: name)
    monkeypatch.setattr(kernels.shutil, "which", lambda name: name if name == "gcc" else None)
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path))
    (tmp_path / "Python.h").touch()


@pytest.mark.parametrize(
    ("vendor", "architecture", "lacks"),
    [
        (Vendor.NVIDIA, "7.5", "compute capability 8.0; this GPU has 7.5"),
        (Vendor.NVIDIA, "8.0", ""),
        (Vendor.NVIDIA, "12.0", ""),
        (Vendor.NVIDIA, "", ""),
        (Vendor.AMD, "gfx906", "matrix units"),
        (Vendor.AMD, "gfx1030", "matrix units"),
        (Vendor.AMD, "gfx1103", ""),
        (Vendor.AMD, "gfx1201", ""),
        (Vendor.AMD, "gfx90a", ""),
        (Vendor.AMD, "gfx942", ""),
        (Vendor.INTEL, "", ""),
        (Vendor.APPLE, "", "this kind of device"),
    ],
)
def test_architectures(vendor: Vendor, architecture: str, lacks: str) -> None:
    reason = reason_against_kernels(vendor, architecture)
    assert lacks in reason
    assert bool(lacks) == bool(reason)


def test_what_triton_needs_at_a_kernels_first_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "Python.h").unlink()
    assert f"Python's headers, and {tmp_path}" in reason_against_kernels(Vendor.NVIDIA, "8.6")
    monkeypatch.setenv("CC", "another-cc")
    assert "C compiler, and there is none (another-cc)" in reason_against_kernels(Vendor.AMD, "")
    monkeypatch.setattr(kernels, "find_spec", lambda _name: None)
    assert reason_against_kernels(Vendor.INTEL, "") == "Triton is not installed."
    monkeypatch.setenv("DUOTAIL_KERNELS", "off")
    assert "switched off" in reason_against_kernels(Vendor.INTEL, "")
