"""/proc and /sys of machines, as written down there; what no code reads is left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.machine.system_files import SystemFiles

CPUS = "sys/devices/system/cpu"
MEMINFO = "MemTotal: {total} kB\nMemFree: 2097152 kB\nMemAvailable: {available} kB\n"
NO_CGROUP = {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": ""}


def record(root: Path, *trees: Mapping[str, str]) -> SystemFiles:
    """The files of several trees below `root`."""
    for tree in trees:
        for path, content in tree.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
    return SystemFiles(root)


def topology(cores: list[str], name: str = "core_cpus_list") -> dict[str, str]:
    """Cores given by the kernel's lists of their threads: "0-1"."""
    tree = {}
    for core in cores:
        first, _, last = core.replace(",", "-").partition("-")
        for cpu in {int(first), int(last or first)}:
            tree[f"{CPUS}/cpu{cpu}/topology/{name}"] = f"{core}\n"
    return tree


def cpuinfo(name: str, flags: str, processors: int = 1, extra: str = "") -> dict[str, str]:
    """Paragraphs of /proc/cpuinfo; `extra` may have {n}."""
    lines = "processor\t: {n}\nmodel name\t: " + name + "\nflags\t\t: " + flags + "\n" + extra
    return {"proc/cpuinfo": "\n".join(lines.replace("{n}", str(n)) for n in range(processors))}


def memory(total_gib: float, available_gib: float) -> dict[str, str]:
    """/proc/meminfo."""
    kib = 2**20
    return {
        "proc/meminfo": MEMINFO.format(
            total=int(total_gib * kib), available=int(available_gib * kib)
        )
    }


HYBRID_LAPTOP = {
    # Core i7-12700H: six fast cores with two threads each, eight slow ones.
    **topology([f"{cpu}-{cpu + 1}" for cpu in range(0, 12, 2)] + [str(n) for n in range(12, 20)]),
    "sys/devices/cpu_core/cpus": "0-11\n",
    "sys/devices/cpu_atom/cpus": "12-19\n",
    **cpuinfo("12th Gen Intel(R) Core(TM) i7-12700H", "fpu sse2 fma avx2 f16c avx_vnni", 20),
    **memory(16, 11),
    **NO_CGROUP,
}
AMD_DESKTOP = {
    # Ryzen 9 7950X: threads n and n + 16 share a core; the better half boosts 6 % higher.
    **topology([f"{cpu},{cpu + 16}" for cpu in range(16)]),
    **{
        f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq": "5850000\n" if cpu % 16 < 8 else "5500000\n"
        for cpu in range(32)
    },
    **cpuinfo("AMD Ryzen 9 7950X 16-Core Processor", "fma avx2 avx512f avx512bw avx512_vnni", 32),
    **memory(64, 50),
    **NO_CGROUP,
}
COMPACT_CORES = {
    # Ryzen AI 9 HX 370: four Zen 5 and eight smaller Zen 5c cores, told apart by frequency alone.
    **topology([f"{cpu},{cpu + 12}" for cpu in range(12)]),
    **{
        f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq": "5157000\n" if cpu % 12 < 4 else "3300000\n"
        for cpu in range(24)
    },
    **cpuinfo("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "fma avx2", 24),
    **memory(32, 20),
    **NO_CGROUP,
}
ARM_BOARD = {
    # RK3588: four Cortex-A76 and four A55; no model name in /proc/cpuinfo.
    **topology([str(n) for n in range(8)]),
    **{f"{CPUS}/cpu{n}/cpu_capacity": "414\n" if n < 4 else "1024\n" for n in range(8)},
    "proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd aes asimdhp asimddp\n",
    "sys/firmware/devicetree/base/model": "Orange Pi 5\0",
    **memory(8, 6),
    **NO_CGROUP,
}
OLD_KERNEL = {
    # 3.10 with two cores of two threads: no topology in /sys, no MemAvailable.
    **cpuinfo("Intel(R) Core(TM)2 CPU @ 2.40GHz", "sse2", 4),
    "proc/meminfo": "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nBuffers: 4 kB\nCached: 1020 kB\n",
}
OLD_KERNEL["proc/cpuinfo"] = "\n".join(
    f"processor\t: {n}\nmodel name\t: Intel(R) Core(TM)2 CPU  @ 2.40GHz\n"
    f"physical id\t: 0\ncore id\t\t: {n % 2}\nflags\t\t: fpu sse2\n"
    for n in range(4)
)
CONTAINER_V2 = {
    # Docker with --cpus 1.5 --memory 4g, its own namespace of groups.
    "proc/self/cgroup": "0::/\n",
    "proc/self/mountinfo": (
        "1024 1010 0:31 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"
    ),
    "sys/fs/cgroup/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/memory.max": f"{4 * 2**30}\n",
    "sys/fs/cgroup/memory.current": f"{3 * 2**30}\n",
    "sys/fs/cgroup/memory.stat": f"anon {2**30}\nactive_file {2**30}\ninactive_file {2**29}\n",
}
NESTED_V2 = {
    # A unit of systemd: no limit of its own, but its slice has some.
    "proc/self/cgroup": "0::/user.slice/user-1000.slice/run.scope\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/user.slice/user-1000.slice/run.scope/cpu.max": "max 100000\n",
    "sys/fs/cgroup/user.slice/user-1000.slice/run.scope/memory.max": "max\n",
    "sys/fs/cgroup/user.slice/user-1000.slice/cpu.max": "300000 100000\n",
    "sys/fs/cgroup/user.slice/user-1000.slice/memory.high": f"{6 * 2**30}\n",
    "sys/fs/cgroup/user.slice/user-1000.slice/memory.current": f"{5 * 2**30}\n",
    "sys/fs/cgroup/user.slice/memory.max": f"{10 * 2**30}\n",
    "sys/fs/cgroup/user.slice/memory.current": f"{9.5 * 2**30:.0f}\n",
}
CONTAINER_V1 = {
    # Version 1, and no namespace: paths are the machine's, the mounts begin at our own group.
    "proc/self/cgroup": "5:memory:/docker/ab12\n4:cpuacct,cpu:/docker/ab12\n1:name=systemd:/x\n",
    "proc/self/mountinfo": (
        "600 1 0:30 /docker/ab12 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "601 1 0:33 /docker/ab12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    ),
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * 2**30}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2 * 2**30}\n",
    "sys/fs/cgroup/memory/memory.stat": f"cache 5\ntotal_inactive_file {2**30}\n",
}
UNLIMITED_V1 = {
    # A virtual machine with version 1 beside version 2, and groups that limit nothing.
    "proc/self/cgroup": "4:memory:/process_api/feb7\n1:cpu:/\n0::/\n",
    "proc/self/mountinfo": (
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
    ),
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/process_api/feb7/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
}
