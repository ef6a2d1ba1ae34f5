"""A random target and its draft, planned and built where the plan puts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.backend.cpu import CpuDevice, threads_for
from engine.backend.device import Device
from engine.bench.random_model import RandomModel
from engine.commands import ALL_LAYERS, Mode, WeightFormat
from engine.errors import Absent
from engine.language import tr
from engine.model.decoder import Decoder
from engine.plan.facts import DraftFacts, Wish
from engine.plan.machine import CPU, Machine
from engine.plan.plan import Plan, Share
from engine.plan.planner import plan
from engine.plan.speeds import Speeds

Known = tuple[Machine, Speeds]
"""What is known of a machine."""


@dataclass(frozen=True, slots=True)
class Placing:
    """Where things should run; bytes.

    Attributes:
        layers_on_gpu: exactly so many of the target's blocks, or ALL_LAYERS.
    """

    mode: Mode = Mode.AUTO
    vram: int | None = None
    layers_on_gpu: int | None = None

    def wish(self, context: int, blocks: int) -> Wish:
        """The same for the planner."""
        return Wish(
            mode=self.mode,
            context=context,
            lookup=False,
            forced=self.mode not in (Mode.AUTO, Mode.PLAIN),
            vram=self.vram,
            layers_on_gpu=blocks if self.layers_on_gpu == ALL_LAYERS else self.layers_on_gpu,
            parallel=False,
        )


@dataclass(frozen=True, slots=True)
class Placed:
    """Both models built; without a draft where the plan has none."""

    plan: Plan
    devices: Mapping[str, Device]
    target: Decoder
    draft: Decoder | None


def plan_models(known: Known, target: RandomModel, acceptance: float, wish: Wish) -> Plan:
    """What the planner makes of it; `acceptance` is that of the target's small draft.

    Raises:
        UserFixable: it cannot be done.
    """
    if wish.mode is Mode.DUO:
        raise Absent(
            tr("Drafting and verifying at the same time is not built yet."),
            tr("Choose another mode."),
        )
    drafts = [] if wish.mode is Mode.PLAIN else [DraftFacts(target.small_draft().facts, acceptance)]
    return plan(*known, target.facts, drafts, wish)


def build(plan: Plan, target: RandomModel, threads: int | None = None) -> Placed:
    """Open the plan's devices and fill them.

    Raises:
        Absent: a device is not here.
        OutOfMemory: a device's budget does not do.
    """
    threads = threads or plan.threads or threads_for(plan.on(CPU).target)
    devices = {CPU: CpuDevice(threads=threads)}
    small = None
    if plan.draft is not None and plan.draft_device is not None:
        draft = target.small_draft()
        blocks = range(draft.config.num_layers)
        small = _decoder(draft, (Share(plan.draft_device, blocks, True, True),), devices, "draft")
    return Placed(plan, devices, _decoder(target, plan.target, devices, "target"), small)


def _decoder(
    model: RandomModel, shares: tuple[Share, ...], devices: Mapping[str, Device], owner: str
) -> Decoder:
    backends = {
        share.device: devices[share.device].backend(WeightFormat.STORED, owner) for share in shares
    }
    return Decoder.placed(model.config, model.weights(), shares, backends)
