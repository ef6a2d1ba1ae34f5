"""What is here: the processor, its memory, and every accelerator that the system knows.

Never on the window's thread: where there is an accelerator that the installed torch is built for,
the first probe imports torch (a second or two) and starts its drivers. Elsewhere the first takes
under 100 ms (it loads the native library), later ones 1.5 ms; cards of NVIDIA's add what their
driver takes to start its management library, and ten questions each.
"""

from __future__ import annotations

import importlib
import os
import threading
from dataclasses import replace

from engine.devices.accelerators.facts import Seen, all_hidden, combine
from engine.devices.accelerators.nvml import Lost, Nvml, NvmlFacts, Unavailable
from engine.devices.accelerators.pci_gpus import pci_gpus
from engine.devices.accelerators.torch_build import torch_build
from engine.devices.accelerators.torch_devices import TorchSight, look
from engine.devices.accelerators.windows_gpus import windows_gpus
from engine.devices.host import probe_host
from engine.language import tr
from engine.machine.facts import Accelerator, Machine, Vendor
from engine.machine.system_files import LINUX, SystemFiles, sysctl_text

__all__ = ["probe_accelerators", "probe_host", "probe_machine"]

_one_at_a_time = threading.Lock()


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
            facts: list[NvmlFacts] = []
            for card in library.cards():
                try:
                    facts.append(card.facts(os.getpid()))
                except Lost as trouble:  # the others may be well
                    seen = replace(seen, nvidia_trouble=_lost(trouble))
            return replace(seen, nvidia=tuple(facts))
    except Unavailable as trouble:
        return replace(seen, nvidia_trouble=str(trouble))
    except Lost as trouble:
        return replace(seen, nvidia_trouble=_lost(trouble))


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
