"""Cores as Linux describes them in /sys, or before that in /proc/cpuinfo."""

from __future__ import annotations

from collections.abc import Mapping

from engine.machine.cores.core_counts import CoreCounts, count_of
from engine.machine.cores.system_files import SystemFiles, numbers_listed

_CPUS = "sys/devices/system/cpu"


def count(files: SystemFiles, cpus: frozenset[int], *, kinds: bool) -> CoreCounts:
    """The cores under the processors `cpus`; with `kinds` also how many of them are fast."""
    cores = _from_sysfs(files, cpus) or _from_cpuinfo(files, cpus)
    if cores is None:
        return CoreCounts(max(len(cpus), 1), max(len(cpus), 1), guessed=True)
    if not kinds:
        return CoreCounts(max(len(cores), 1), max(len(cpus), 1))
    ranks = _ranks(files, cores)
    return count_of([(len(core), rank) for core, rank in zip(cores, ranks, strict=True)])


def processors(files: SystemFiles) -> list[Mapping[str, str]]:
    """The paragraphs of /proc/cpuinfo."""
    text = files.text("proc/cpuinfo") or ""
    return [
        {name.strip(): value.strip() for name, _, value in map(_split, paragraph.splitlines())}
        for paragraph in text.split("\n\n")
    ]


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _from_sysfs(files: SystemFiles, cpus: frozenset[int]) -> list[frozenset[int]] | None:
    cores: list[frozenset[int]] = []
    counted: set[int] = set()
    for cpu in sorted(cpus):
        if cpu in counted:
            continue
        topology = f"{_CPUS}/cpu{cpu}/topology"
        text = files.text(f"{topology}/core_cpus_list")
        if text is None:  # kernels before 5.3
            text = files.text(f"{topology}/thread_siblings_list")
        if text is None:
            return None
        core = numbers_listed(text) & cpus | {cpu}
        counted |= core
        cores.append(core)
    return cores


def _from_cpuinfo(files: SystemFiles, cpus: frozenset[int]) -> list[frozenset[int]] | None:
    cores: dict[tuple[str, str], set[int]] = {}
    for processor in processors(files):
        number = processor.get("processor", "")
        if not number.isdecimal() or int(number) not in cpus:
            continue
        if not {"physical id", "core id"} <= processor.keys():
            return None
        place = (processor["physical id"], processor["core id"])
        cores.setdefault(place, set()).add(int(number))
    return [frozenset(core) for core in cores.values()] or None


def _ranks(files: SystemFiles, cores: list[frozenset[int]]) -> list[float]:
    """Rank cores by speed; all the same where the system gives no hint."""
    slow = numbers_listed(files.text("sys/devices/cpu_atom/cpus") or "")
    if slow:  # Intel names its two kinds
        return [0.0 if core <= slow else 1.0 for core in cores]
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        told = [files.number(f"{_CPUS}/cpu{min(core)}/{name}") for core in cores]
        ranks = [float(rank) for rank in told if rank]
        if len(ranks) == len(cores) and len(set(ranks)) > 1:
            return ranks
    return [1.0] * len(cores)
