"""What this process may use, inside containers and out of them."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from engine.hardware import probe
from engine.hardware.probe import available_cores, probe_host

MIB = 2**20


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control group that limits nothing yet."""
    monkeypatch.setattr(probe, "_CGROUP", tmp_path)
    return tmp_path


def write(cgroup: Path, **files: str) -> None:
    for name, content in files.items():
        (cgroup / name.replace("_", ".")).write_text(content + "\n")


@pytest.mark.usefixtures("cgroup")
def test_without_a_container_the_system_is_believed() -> None:
    host = probe_host()
    assert host.memory_total == psutil.virtual_memory().total
    assert 0 < host.memory_available <= host.memory_total
    assert 1 <= host.cores <= (os.cpu_count() or 1)


def test_a_limit_of_the_container_counts(cgroup: Path) -> None:
    write(cgroup, memory_max=str(512 * MIB), memory_current=str(200 * MIB))
    host = probe_host()
    assert (host.memory_total, host.memory_available) == (512 * MIB, 312 * MIB)


def test_files_in_the_page_cache_are_not_in_the_way(cgroup: Path) -> None:
    """A container that has just read a model of 400 MB has not used its memory up."""
    write(
        cgroup,
        memory_max=str(512 * MIB),
        memory_current=str(500 * MIB),
        memory_stat=f"anon {90 * MIB}\ninactive_file {300 * MIB}\nactive_file {100 * MIB}",
    )
    assert probe_host().memory_available == 412 * MIB


@pytest.mark.parametrize("limit", ["max", "", str(2**62)])
def test_no_real_limit(cgroup: Path, limit: str) -> None:
    write(cgroup, memory_max=limit, memory_current=str(200 * MIB))
    assert probe_host().memory_total == psutil.virtual_memory().total


def test_more_used_than_allowed_leaves_nothing(cgroup: Path) -> None:
    write(cgroup, memory_max=str(MIB), memory_current=str(3 * MIB), memory_stat="broken")
    assert probe_host().memory_available == 0


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("100000 100000", 1),
        ("150000 100000", 2),  # a part of a core is worth a thread
        ("50000 100000", 1),
        ("300000 100000", 3),
        ("6400000 100000", 4),
        ("max 100000", 4),
        ("nonsense", 4),
        ("100000 0", 4),
    ],
)
def test_cores(cgroup: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(4)), raising=False)
    write(cgroup, cpu_max=quota)
    assert available_cores() == cores


@pytest.mark.usefixtures("cgroup")
def test_cores_where_affinity_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1
