"""WebGPU's own check, in its sandbox: small models on every adapter, compared with the CPU's."""

from __future__ import annotations

from dataclasses import asdict

from card.steps import Check


def run(check: Check) -> None:
    """Try the adapters; what was found is kept for the steps behind this one."""
    from engine.devices.accelerators.adapter_checks import AdapterChecks
    from engine.devices.probe import probe_machine

    found = AdapterChecks().make(probe_machine().accelerators, lambda: False)
    check.emit("adapters", **asdict(found))
    if check.rehearse:
        _as_if_hardware(check)
    tried = [f"{each.name}: {each.verdict} {each.details}".strip() for each in found.adapters]
    check.say("; ".join(tried) or f"none: {found.verdict} {found.details}")


def _as_if_hardware(check: Check) -> None:
    """Compare a software adapter's numbers too, which the product does not do."""
    from engine.backend.webgpu.self_check import wrong_numbers

    check.emit("software adapter", wrong=wrong_numbers(0))
