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
    tried = [f"{each.name}: {each.verdict} {each.details}".strip() for each in found.adapters]
    check.say("; ".join(tried) or f"none: {found.verdict} {found.details}")
