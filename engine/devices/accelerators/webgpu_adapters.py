"""Accelerators that WebGPU drives: every maker's, through the graphics driver of the system.

WebGPU tells names and drivers, but no bus address and no free memory. So an adapter is matched with
what other sources list, by its maker and name. One that has passed its check is used like any other
accelerator; a software adapter only where the user names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.devices.accelerators.adapter_checks import AdapterCheck, CheckedAdapter, CheckResult
from engine.devices.accelerators.system_gpus import VENDORS
from engine.language import tr
from engine.machine.facts import BY_WEBGPU, WEBGPU, Accelerator, Host, Missing, Vendor

_APPLE = 0x106B
_INTEGRATED = "IntegratedGPU"


def with_adapters(
    others: Sequence[Accelerator], host: Host, check: AdapterCheck | None
) -> tuple[Accelerator, ...]:
    """Return accelerators that other sources list, and all adapters.

    A card that nobody else can use is listed once, as an adapter; where a second entry could not
    be used, that of torch stands for both.

    Args:
        others: what other sources list.
        host: whose memory integrated ones work in.
        check: what WebGPU has found; None: it was not tried yet.
    """
    if check is None:
        untried = tr("WebGPU is tried when the devices are measured")
        return tuple(_also(each, untried) for each in others)
    left, found = list(others), []
    for number, adapter in enumerate(check.adapters):
        own = _described(f"{WEBGPU}{number}", adapter, host)
        same = _same_card(left, own)
        if same is None:
            found.append(own)
            continue
        own = replace(
            own,
            memory_total=own.memory_total or same.memory_total,
            memory_free=own.memory_free or same.memory_free,
            unified=own.unified or same.unified,
            bus=same.bus,
            link=same.link,
            identity=same.identity,
        )
        place = left.index(same)
        if same.unusable:
            path = tr("through WebGPU, as {reason}").format(reason=same.unusable)
            found.append(_also(replace(own, path="" if own.unusable else path), same.unusable))
            del left[place]
        elif own.unusable:
            path = tr("through PyTorch, as {reason}").format(reason=own.unusable)
            left[place] = replace(same, path=path)
        else:
            path = tr(
                "through {one}; {other} can run it too, as {device}: the faster one by "
                "measurement is used"
            )
            first = path.format(one="PyTorch", other="WebGPU", device=own.device)
            second = path.format(one="WebGPU", other="PyTorch", device=same.device)
            left[place] = replace(same, path=first)
            found.append(replace(own, path=second, identity=same.identity + BY_WEBGPU))
    missed = _words(check.verdict, check.details) or tr("WebGPU finds no driver for it")
    return (*(_also(each, missed) for each in left), *map(_with_gaps, found))


def _also(found: Accelerator, reason: str) -> Accelerator:
    """Add a reason to that for which an accelerator is not used; name the path of one that is."""
    if found.emulated:
        return found
    if not found.unusable:
        return replace(found, path=found.path or tr("through PyTorch"))
    return replace(found, unusable=f"{found.unusable}; {reason}")


def _described(device: str, adapter: CheckedAdapter, host: Host) -> Accelerator:
    shared = adapter.is_software or adapter.kind == _INTEGRATED
    vendor = VENDORS.get(adapter.vendor_id, Vendor.OTHER)
    reason = _words(adapter.verdict, adapter.details)
    if adapter.is_software:
        reason = tr("it is a software adapter: the CPU would do its work, slowly")
    return Accelerator(
        device=device,
        name=adapter.name,
        vendor=Vendor.APPLE if adapter.vendor_id == _APPLE else vendor,
        memory_total=host.memory_total if shared else adapter.memory or None,
        memory_free=host.memory_available if shared else None,
        unified=shared,
        unusable=reason,
        identity=f"{adapter.driver.partition(' ')[0]} {adapter.name}",
        driver=adapter.driver,
        emulated=adapter.is_software,
        by_name=adapter.is_software,
        path="" if reason else tr("through WebGPU"),
    )


def _words(verdict: CheckResult, details: str) -> str:
    """Return why an adapter is not used; empty where it is."""
    match verdict:
        case CheckResult.CRASHED:
            return tr("the GPU's driver crashed when WebGPU was tried")
        case CheckResult.HUNG:
            return tr("the GPU's driver did not respond when WebGPU was tried")
        case CheckResult.WRONG:
            said = tr("WebGPU computes wrong numbers with its driver ({details})")
            return said.format(details=details)
        case CheckResult.FAILED:
            return tr("WebGPU cannot use it ({details})").format(details=details)
        case CheckResult.UNTRIED | CheckResult.PASSED:
            return ""


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
    reason = tr("WebGPU does not report it, and nothing else lists this GPU")
    return replace(found, missing=(*found.missing, Missing("memory_total", reason)))
