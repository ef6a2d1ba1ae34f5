"""A plan as `--json` prints it."""

from __future__ import annotations

from engine.bench.memory_use import MemoryUse
from engine.machine.memory import DeviceMemory
from engine.plan.plan import Plan


def plan_report(plan: Plan) -> dict[str, object]:
    """What the planner decided, and why."""
    return {
        "mode": plan.mode,
        "layers_on_gpu": plan.layers_on_gpu,
        "target": [
            {
                "device": share.device,
                "blocks": [share.blocks.start, share.blocks.stop],
                "embeds": share.embeds,
                "heads": share.heads,
            }
            for share in plan.target
        ],
        "draft_device": plan.draft_device if plan.draft is not None else None,
        "context": plan.context,
        "depth": plan.depth,
        "knee": plan.knee,
        "reasons": list(plan.reasons),
    }


def use_report(use: MemoryUse) -> dict[str, object]:
    """Bytes of one device as planned, as its ledger has them, and as others count."""
    return {
        "predicted": memory_report(use.predicted),
        "ledger": memory_report(use.ledger),
        "touched": use.touched,
        "measured": use.measured,
        "driver": use.driver,
        "peak": use.peak,
        "budget": use.budget,
        "kept_to_budget": use.kept_to_budget,
    }


def memory_report(memory: DeviceMemory) -> dict[str, int]:
    """Bytes by purpose, and together."""
    return {
        "target": memory.target,
        "draft": memory.draft,
        "kv": memory.kv,
        "features": memory.features,
        "workspace": memory.workspace,
        "runtime": memory.runtime,
        "total": memory.total,
    }
