"""A random target and its draft, planned and built where the plan puts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.backend.ledger import Account
from engine.backend.segment import Backend, Share
from engine.backend.shared import Lent, Loan
from engine.bench.random_model import RandomModel, RandomPair
from engine.bench.shape_answers import ShapeOptions
from engine.commands import ALL_LAYERS, Mode, WeightFormat
from engine.loading.devices import DeviceManager, whole
from engine.machine.facts import CPU, Machine
from engine.machine.speeds import Speeds
from engine.plan.facts import DraftFacts, Wish
from engine.plan.plan import Plan
from engine.plan.planner import plan

Known = tuple[Machine, Speeds]
"""A machine, and how fast its devices are."""


@dataclass(frozen=True, slots=True)
class Placing:
    """The wished placement of a target and its draft; sizes in bytes.

    Attributes:
        layers_on_gpu: exactly so many of the target's blocks, or ALL_LAYERS.
    """

    mode: Mode = Mode.AUTO
    vram: int | None = None
    layers_on_gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Both models built; without a draft where the plan has none."""

    plan: Plan
    devices: Mapping[str, Device]
    target: Decoder
    draft: Decoder | None


def plan_models(known: Known, pair: RandomPair, placing: Placing, options: ShapeOptions) -> Plan:
    """Plan where the models run, for the middle of the answers that are wished for.

    Raises:
        UserFixable: it cannot be done.
    """
    mode, layers = placing.mode, placing.layers_on_gpu
    target = pair.target
    draft = DraftFacts(pair.draft.facts, options.acceptance, options.width(pair.draft.config))
    wish = Wish(
        mode,
        options.context,
        lookup=False,
        forced=mode not in (Mode.AUTO, Mode.PLAIN),
        vram=placing.vram,
        layers_on_gpu=target.config.num_layers if layers == ALL_LAYERS else layers,
        parallel=mode is Mode.DUO,
        tokens=options.prompt + options.tokens // 2,
    )
    return plan(*known, target.facts, [] if mode is Mode.PLAIN else [draft], wish)


def build(plan: Plan, machine: Machine, pair: RandomPair, threads: int | None = None) -> Placed:
    """Open the plan's devices and fill them.

    Raises:
        Absent: a device is not here.
        OutOfMemory: a device's budget does not do.
    """
    devices = DeviceManager().open(machine, replace(plan, threads=threads) if threads else plan)
    theirs = _backends(plan.target, devices, "target")
    target = _decoder(pair.target, plan.target, theirs)
    if plan.draft is None or plan.draft_device is None:
        return Placed(plan, devices, target, None)
    if (fusion := pair.draft.config.fusion) is not None:
        target.feed(fusion, Account(devices[CPU].ledger, "target"))
    shares = whole(pair.draft.config.num_layers, plan.draft_device)
    own = _backends(shares, devices, "draft", pair.draft.lent, theirs)
    return Placed(plan, devices, target, _decoder(pair.draft, shares, own))


def _backends(
    shares: Sequence[Share],
    devices: Mapping[str, Device],
    owner: str,
    lent: Mapping[str, Lent] | None = None,
    lenders: Mapping[str, Backend] | None = None,
) -> dict[str, Backend]:
    """Return the backends by device; a head's have what the target's hold on the same device."""

    def loan(device: str) -> Loan | None:
        return Loan(lent, (lenders or {}).get(device)) if lent else None

    names = dict.fromkeys(share.device for share in shares)
    return {name: devices[name].backend(WeightFormat.STORED, owner, loan(name)) for name in names}


def _decoder(
    model: RandomModel, shares: Sequence[Share], backends: Mapping[str, Backend]
) -> Decoder:
    return Decoder.placed(model.config, model.weights(), shares, backends)
