"""What is here: the processor, its memory, and every accelerator that the system knows.

Accelerators never on the window's thread: where there is one that the installed torch is built for,
the first probe imports torch (a second or two) and starts its drivers. Elsewhere the first takes
under 100 ms (it loads the native library), later ones 1.5 ms; cards of NVIDIA's add what their
driver takes to start its management library, and ten questions each.
"""

from __future__ import annotations

import importlib
import platform
import re
import sys
import threading
from dataclasses import dataclass, replace

from engine.devices.accelerators.facts import Seen, all_hidden, combine
from engine.devices.accelerators.nvml import Lost, Nvml, Unavailable
from engine.devices.accelerators.system_gpus import pci_gpus, windows_gpus
from engine.devices.accelerators.torch_devices import TorchSight, look, torch_build
from engine.errors import UserFixable
from engine.language import tr
from engine.machine.cgroup import memory_limit
from engine.machine.cores import CoreCounts, affinity, count_cores, linux_cores, processors
from engine.machine.facts import Accelerator, Host, Machine, Missing, Vendor
from engine.machine.system_files import LINUX, SystemFiles, sysctl_text

_OF_INTEREST = (
    *("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512dq"),
    *("avx512_vnni", "avx512_bf16", "gfni", "amx_tile", "amx_int8"),
    *("asimd", "asimddp", "asimdhp", "i8mm", "bf16", "sve", "sve2"),
)
"""Instruction sets by Linux's names that kernels, ours or others', are written for."""
_OF_KERNELS = {
    "portable": (),
    "avx2": ("avx2", "fma"),
    "avx_vnni": ("avx2", "fma", "avx_vnni"),
    "avx512": ("avx2", "fma", "avx512f", "avx512_vnni"),
    "amx": ("avx2", "fma", "avx512f", "avx512_vnni", "amx_int8"),
    "neon": ("asimd",),
    "dotprod": ("asimd", "asimddp"),
    "i8mm": ("asimd", "asimddp", "i8mm"),
}
"""Features that a processor has for sure if the native library can use these kernels."""
_NOISE = re.compile(
    r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b|\d+-Core|@.*|\bwith Radeon.*|\bw/ .*|\d+th Gen\b"
)
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Total bytes of the host's memory, and bytes that could be held now."""

    total: int
    available: int


def probe_machine() -> Machine:
    """Ask the system and its drivers. Memory is as it is now: the engine probes before a load."""
    host = probe_host()
    return Machine(host, probe_accelerators(host.memory_available))


def probe_accelerators(host_available: int | None = None) -> tuple[Accelerator, ...]:
    """All accelerators, also those that cannot be used, with the reason.

    Args:
        host_available: bytes of the host's memory, for accelerators that work in it.
    """
    with _one_at_a_time:
        seen = _ask_drivers(SystemFiles())
        return combine(replace(seen, torch=_ask_torch(seen), host_available=host_available))


def probe_host() -> Host:
    """Ask the system; about a millisecond. Swap never counts."""
    if LINUX:
        return linux_host(SystemFiles(), affinity())
    return _host(_name(), count_cores(), host_memory(), None)


def host_memory() -> HostMemory | None:
    """Ask the system; None where it does not tell."""
    if LINUX:
        return linux_memory(SystemFiles())
    import psutil  # Linux is asked directly

    memory = psutil.virtual_memory()
    return HostMemory(memory.total, memory.available)


def linux_memory(files: SystemFiles) -> HostMemory | None:
    """The memory of the machine, or the container, that `files` (/proc and /sys) describe."""
    told: dict[str, int] = {}
    for line in (files.text("proc/meminfo") or "").splitlines():
        name, _, size = line.partition(":")
        number = size.removesuffix("kB").strip()
        if number.isdecimal():
            told[name] = int(number) * 1024
    total = told.get("MemTotal")
    if not total:
        return None
    # Kernels before 3.14 do not say what is available.
    reclaimable = sum(told.get(name, 0) for name in ("MemFree", "Buffers", "Cached"))
    available = told.get("MemAvailable", reclaimable)
    limit = memory_limit(files)
    if limit is None:
        return HostMemory(total, min(available, total))
    total = min(total, limit.most)
    return HostMemory(total, min(available, total, limit.left))


def linux_host(files: SystemFiles, cpus: frozenset[int]) -> Host:
    """The machine that `files` (/proc and /sys) describe, for a process on processors `cpus`."""
    about = processors(files)
    first = about[0] if about else {}
    flags = first.get("flags") or first.get("Features")
    sets = None if flags is None else tuple(set(flags.split()))
    name = first.get("model name") or files.text("sys/firmware/devicetree/base/model") or ""
    return _host(name, linux_cores(files, cpus, kinds=True), linux_memory(files), sets)


def _host(
    name: str, cores: CoreCounts, memory: HostMemory | None, sets: tuple[str, ...] | None
) -> Host:
    missing: list[Missing] = []
    if cores.guessed:
        reason = tr("the system does not say which hardware threads share a core")
        missing.append(Missing("cores", reason))
    if memory is None:
        missing.append(Missing("memory_total", tr("the system does not say how much there is")))
    if not name:
        missing.append(Missing("name", tr("the system does not name the processor")))
    kernels, left_out = "", tuple[str, ...]()
    try:
        kernels, left_out, better = _kernels()
        if better:
            missing.append(Missing("kernels", _not_built(better)))
    except UserFixable as error:
        missing.append(Missing("kernels", error.cause))
    if sets is None:
        sets = _OF_KERNELS.get(kernels)
    if sets is None:
        reason = tr("neither the system nor the native library reports them")
        missing.append(Missing("instruction_sets", reason))
    return Host(
        cores=cores.physical,
        memory_total=memory.total if memory else 0,
        memory_available=memory.available if memory else 0,
        name=" ".join(_NOISE.sub(" ", name).split()),
        threads=cores.threads,
        fast_cores=cores.fast,
        instruction_sets=tuple(name for name in _OF_INTEREST if name in (sets or ())),
        kernels=kernels,
        kernels_left_out=left_out,
        missing=tuple(missing),
    )


def _kernels() -> tuple[str, tuple[str, ...], str]:
    """Return the kernels in use, those that were not built, and of these a faster one, or "".

    Raises:
        UserFixable: there is no native library here.
    """
    from engine.backend.native.library import Isa, library, sets_not_built  # numpy: not for cores

    left_out = sets_not_built()
    faster = left_out and left_out[-1] > library().dt_best_isa()
    names = tuple(isa.name.lower() for isa in left_out)
    return Isa(library().dt_current_isa()).name.lower(), names, names[-1] if faster else ""


def _not_built(name: str) -> str:
    said = tr(
        "the native library was built for another processor, without {name}; `make setup` adds it"
    )
    return said.format(name=name)


def _name() -> str:
    if sys.platform == "darwin":
        return sysctl_text("machdep.cpu.brand_string")
    if sys.platform == "win32":
        import winreg

        path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
        except OSError:
            pass
    return platform.processor()


def _ask_drivers(files: SystemFiles) -> Seen:
    processor = sysctl_text("machdep.cpu.brand_string")
    seen = Seen(
        gpus=pci_gpus(files) if LINUX else windows_gpus(),
        build=torch_build(),
        apple=processor if processor.startswith("Apple") else "",
    )
    try:
        with Nvml() as library:
            seen = replace(seen, driver=library.driver, cuda=library.cuda)
            for card in library.cards():
                try:
                    seen = replace(seen, nvidia=(*seen.nvidia, card.facts()))
                except Lost as trouble:  # the others may be well
                    seen = replace(seen, nvidia_trouble=_lost(trouble))
    except Unavailable as trouble:
        seen = replace(seen, nvidia_trouble=str(trouble))
    except Lost as trouble:
        seen = replace(seen, nvidia_trouble=_lost(trouble))
    return seen


def _lost(trouble: Lost) -> str:
    return tr("NVIDIA's driver has lost it: {words}").format(words=trouble)


def _ask_torch(seen: Seen) -> TorchSight | None:
    """Return what torch lists; None unless there is an accelerator that it is built for."""
    if seen.build is None:
        return None
    present = {gpu.vendor for gpu in seen.gpus} | ({Vendor.NVIDIA} if seen.nvidia else set())
    vendor = Vendor.APPLE if seen.apple else seen.build.vendor
    if vendor is None or (vendor not in present and not seen.apple) or all_hidden(seen, vendor):
        return None
    try:
        return look(importlib.import_module("torch"))
    except (ImportError, OSError) as error:  # a broken installation; its first line tells most
        return TorchSight(complaint=str(error).strip().partition("\n")[0])
