"""What this process may use: of recorded machines, inside containers, and of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from recorded import (
    AMD_DESKTOP,
    ARM_BOARD,
    COMPACT_CORES,
    CONTAINER_V1,
    CONTAINER_V2,
    HYBRID_LAPTOP,
    NESTED_V2,
    OLD_KERNEL,
    UNLIMITED_V1,
    memory,
    record,
    topology,
)

from engine.backend.cpu import native_is_built
from engine.devices.probe import linux_host, probe_host
from engine.machine.cores import available_cores, available_threads
from engine.machine.facts import Host

GIB = 2**30
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's own files")


def host(root: Path, processors: int, *trees: dict[str, str]) -> Host:
    """The recorded machine's, for a process that may run anywhere."""
    return linux_host(record(root, *trees), frozenset(range(processors)))


def counts(found: Host) -> tuple[int, int, int | None]:
    return found.cores, found.threads, found.fast_cores


def missing(found: Host) -> set[str]:
    return {entry.fact for entry in found.missing if entry.fact != "kernels"}


def test_a_hybrid_laptop(tmp_path: Path) -> None:
    found = host(tmp_path, 20, HYBRID_LAPTOP)
    assert counts(found) == (14, 20, 6)
    assert found.name == "Intel Core i7-12700H"
    assert found.instruction_sets == ("avx2", "fma", "f16c", "avx_vnni")
    assert (found.memory_total, found.memory_available) == (16 * GIB, 11 * GIB)
    assert not missing(found)


def test_a_desktop_with_two_threads_a_core(tmp_path: Path) -> None:
    """And with cores that differ a little, which makes no slow ones."""
    found = host(tmp_path, 32, AMD_DESKTOP)
    assert counts(found) == (16, 32, None)
    assert found.name == "AMD Ryzen 9 7950X"
    assert "avx512_vnni" in found.instruction_sets


def test_smaller_cores_told_by_frequency(tmp_path: Path) -> None:
    found = host(tmp_path, 24, COMPACT_CORES)
    assert counts(found) == (12, 24, 4)
    assert found.name == "AMD Ryzen AI 9 HX 370"


def test_an_arm_board(tmp_path: Path) -> None:
    found = host(tmp_path, 8, ARM_BOARD)
    assert counts(found) == (8, 8, 4)
    assert found.name == "Orange Pi 5"
    assert found.instruction_sets == ("asimd", "asimddp", "asimdhp")


def test_a_process_bound_to_some_processors(tmp_path: Path) -> None:
    """Two threads of one core are one core; a slow core beside it is not fast."""
    files = record(tmp_path, HYBRID_LAPTOP)
    assert counts(linux_host(files, frozenset({0, 1}))) == (1, 2, None)
    assert counts(linux_host(files, frozenset({0, 2, 3, 12}))) == (3, 4, 2)
    assert counts(linux_host(files, frozenset({15, 16}))) == (2, 2, None)


def test_an_old_kernel(tmp_path: Path) -> None:
    found = host(tmp_path, 4, OLD_KERNEL)
    assert counts(found) == (2, 4, None)
    assert found.memory_available == (1048576 + 4 + 1020) * 1024
    assert found.name == "Intel Core 2"


def test_an_old_kernel_that_does_not_tell_cores_apart(tmp_path: Path) -> None:
    bare = {"proc/cpuinfo": "".join(f"processor\t: {n}\n\n" for n in range(4))}
    assert counts(host(tmp_path, 4, OLD_KERNEL | bare)) == (4, 4, None)


def test_older_names_of_topology(tmp_path: Path) -> None:
    found = host(tmp_path, 4, topology(["0,2", "1,3"], "thread_siblings_list"), memory(4, 2))
    assert counts(found) == (2, 4, None)


def test_nothing_to_read(tmp_path: Path) -> None:
    """Every processor is a core then, and the reasons are told."""
    found = host(tmp_path, 6, {})
    assert counts(found) == (6, 6, None)
    assert {"cores", "memory_total", "name"} <= missing(found)
    assert all(entry.reason for entry in found.missing)


@pytest.mark.parametrize("broken", ["", "garbage", "3-", "-", "9-1", "\x00\xff"])
def test_broken_files(tmp_path: Path, broken: str) -> None:
    """Whatever stands there, a processor is there and counted once."""
    tree = dict.fromkeys([*topology(["0", "1"]), *CONTAINER_V2, "proc/cpuinfo"], broken)
    found = host(tmp_path, 2, memory(4, 2), tree)
    assert counts(found)[:2] == (2, 2)
    assert found.memory_available == 2 * GIB


def test_a_container_with_one_and_a_half_processors(tmp_path: Path) -> None:
    """A part of a processor is worth a thread; files in the page cache give way."""
    found = host(tmp_path, 32, AMD_DESKTOP, CONTAINER_V2)
    assert counts(found)[:2] == (2, 2)
    assert (found.memory_total, found.memory_available) == (4 * GIB, 5 * GIB // 2)


def test_limits_of_groups_further_up(tmp_path: Path) -> None:
    found = host(tmp_path, 32, AMD_DESKTOP, NESTED_V2)
    assert counts(found)[:2] == (3, 3)
    assert (found.memory_total, found.memory_available) == (6 * GIB, GIB // 2)


def test_a_container_of_version_1(tmp_path: Path) -> None:
    found = host(tmp_path, 20, HYBRID_LAPTOP, CONTAINER_V1)
    assert counts(found) == (2, 2, 2)
    assert (found.memory_total, found.memory_available) == (2 * GIB, GIB)


def test_groups_that_limit_nothing(tmp_path: Path) -> None:
    found = host(tmp_path, 20, HYBRID_LAPTOP, UNLIMITED_V1)
    assert counts(found) == (14, 20, 6)
    assert (found.memory_total, found.memory_available) == (16 * GIB, 11 * GIB)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("300000 100000", 3),
        ("6400000 100000", 16),
        ("max 100000", 16),
        ("nonsense", 16),
        ("100000 0", 16),
    ],
)
def test_quotas(tmp_path: Path, quota: str, cores: int) -> None:
    limited = {**CONTAINER_V2, "sys/fs/cgroup/cpu.max": quota}
    assert host(tmp_path, 32, AMD_DESKTOP, limited).cores == cores


def test_more_used_than_allowed_leaves_nothing(tmp_path: Path) -> None:
    over = {"sys/fs/cgroup/memory.max": "1000", "sys/fs/cgroup/memory.stat": "broken"}
    found = host(tmp_path, 32, AMD_DESKTOP, {**CONTAINER_V2, **over})
    assert (found.memory_total, found.memory_available) == (1000, 0)


def test_this_machine() -> None:
    found = probe_host()
    assert 1 <= found.cores <= found.threads <= (os.cpu_count() or 1)
    assert found.cores == available_cores()
    assert found.threads == available_threads()
    assert 0 < found.memory_available <= found.memory_total <= psutil.virtual_memory().total
    assert bool(found.kernels) == native_is_built()
    if found.kernels in {"avx2", "avx_vnni", "avx512", "amx"}:
        assert "avx2" in found.instruction_sets
    if found.kernels in {"neon", "dotprod", "i8mm"}:
        assert "asimd" in found.instruction_sets


@linux
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")
def test_affinity_of_this_process() -> None:
    ask = (
        "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]);"
        "from engine.machine.cores import available_cores; print(available_cores())"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_counting_cores_imports_nothing_heavy() -> None:
    """The window does so before its first frame."""
    ask = (
        "import sys; from engine.machine.cores import available_cores; available_cores();"
        "print(*{'psutil', 'torch', 'pynvml', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert not done.stdout.strip()
