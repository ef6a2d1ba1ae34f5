"""What an accelerator's own software takes: as measured, as declared, or as is usual."""

from __future__ import annotations

from dataclasses import replace

from described import DRAFTS, GIB, MIB, model

from engine.backend.simulated.spec import SimulatedSpec, simulated_accelerator
from engine.commands import Mode
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.machine.speeds import Speeds
from engine.plan.facts import Wish
from engine.plan.memory import runtime_bytes
from engine.plan.planner import plan

CARD = Accelerator("cuda:0", "A card", Vendor.NVIDIA, 12 * GIB, 12 * GIB)
MACHINE = Machine(Host(8, 64 * GIB, 64 * GIB), (CARD,))
WISH = Wish(Mode.DOVETAIL, 4096, lookup=True, forced=True, layers_on_gpu=12)


def test_a_device_takes_what_its_software_was_measured_to_take() -> None:
    usual = runtime_bytes(CARD)
    assert runtime_bytes(replace(CARD, software=usual + 300 * MIB)) == usual + 300 * MIB
    assert runtime_bytes(replace(CARD, software=1 << 50)) == 4 * GIB
    assert runtime_bytes(replace(CARD, software=1)) > 1
    known = replace(MACHINE, accelerators=(replace(CARD, software=usual - 200 * MIB),))
    made = plan(known, Speeds({}), model("8B", "q4_k_m"), DRAFTS["1B"], WISH)
    assert made.on("cuda:0").runtime == usual - 200 * MIB


def test_a_simulated_accelerator_declares_what_its_software_takes() -> None:
    spec = SimulatedSpec.of(GIB)
    assert runtime_bytes(simulated_accelerator(GIB)) == spec.runtime_bytes == GIB // 32
