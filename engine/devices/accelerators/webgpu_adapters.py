"""Accelerators that WebGPU drives: every maker's, through the graphics driver of the system.

WebGPU tells names and drivers, but no memory and no bus address. So an adapter is matched with what
other sources list, by its maker and name. No real card has run the shaders yet, so an adapter is
used only where the user names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.backend.webgpu.adapters import adapters, is_software
from engine.devices.accelerators.system_gpus import VENDORS
from engine.language import tr
from engine.machine.facts import WEBGPU, Accelerator, Host, Missing, Vendor

_APPLE = 0x106B
_INTEGRATED = "IntegratedGPU"


def with_adapters(others: Sequence[Accelerator], host: Host) -> tuple[Accelerator, ...]:
    """Return accelerators that other sources list, and all adapters; starts graphics drivers.

    A card that nobody else can use is listed once, as an adapter.
    """
    left, found = list(others), []
    for number, adapter in enumerate(adapters()):
        own = _described(f"{WEBGPU}{number}", adapter, host)
        same = _same_card(left, own)
        if same is None:
            found.append(own)
            continue
        described = replace(
            own,
            memory_total=own.memory_total or same.memory_total,
            memory_free=own.memory_free or same.memory_free,
            unified=own.unified or same.unified,
            bus=same.bus,
            link=same.link,
            identity=f"{same.identity} WebGPU",
        )
        if same.device and not same.unusable:
            reason = tr("PyTorch drives it, as {device}").format(device=same.device)
            described = replace(described, unusable=reason)
        else:
            left.remove(same)
        found.append(described)
    return (*left, *map(_with_gaps, found))


def _described(device: str, adapter: Any, host: Host) -> Accelerator:  # noqa: ANN401
    info = adapter.info
    software = is_software(adapter)
    shared = software or info["adapter_type"] == _INTEGRATED
    vendor = VENDORS.get(info["vendor_id"], Vendor.OTHER)
    reason = tr("no card has been tried with WebGPU yet; --device {device} tries it")
    if software:
        reason = tr("it is a software adapter: the CPU would do its work, slowly")
    return Accelerator(
        device=device,
        name=info["device"],
        vendor=Vendor.APPLE if info["vendor_id"] == _APPLE else vendor,
        memory_total=host.memory_total if shared else None,
        memory_free=host.memory_available if shared else None,
        unified=shared,
        unusable=reason.format(device=device),
        identity=f"{info['backend_type']} {info['device']}",
        driver=" ".join((info["backend_type"], info["description"])).strip(),
        emulated=software,
        by_name=True,
    )


def _same_card(others: Sequence[Accelerator], own: Accelerator) -> Accelerator | None:
    """Return the entry of the same card: of that name, or the only one of that maker."""
    if own.emulated or own.vendor is Vendor.OTHER:
        return None
    alike = [each for each in others if each.vendor is own.vendor and not each.webgpu]
    named = [each for each in alike if each.name and each.name in own.name]
    if named:
        return named[0]
    return alike[0] if len(alike) == 1 else None


def _with_gaps(found: Accelerator) -> Accelerator:
    if found.memory_total is not None:
        return found
    reason = tr("WebGPU does not tell it, and nobody else lists this card")
    return replace(found, missing=(*found.missing, Missing("memory_total", reason)))
