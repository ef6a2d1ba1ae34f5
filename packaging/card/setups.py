"""Both papers' set-ups and a draft of real size, with a scripted acceptance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from card.models import config_of, model_of
from card.steps import Check

GIB = 1 << 30


@dataclass(frozen=True)
class Setup:
    """A pair and its placement.

    Attributes:
        name: for the report.
        target, draft: shapes, or the draft's kind.
        mode: of decoding.
        vram: GiB of the card's memory; None: all of it.
        layers: blocks on the card, "all", or None: as planned.
        acceptance: of each drafted token.
        depth: of the fixed chains beside what the controller chooses.
    """

    name: str
    target: str
    draft: str
    mode: str
    vram: float | None = None
    layers: str | None = None
    acceptance: float = 0.8
    depth: int = 5


SETUPS = {
    "dovetail": (
        Setup("on the CPU alone", "llama2-7b", "dgf-2", "plain", layers="none"),
        Setup("3 GiB, acceptance 0.8", "llama2-7b", "dgf-2", "dovetail", vram=3),
        Setup("7 GiB, acceptance 0.8", "llama2-7b", "dgf-2", "dovetail", vram=7),
        Setup("3 GiB, acceptance 0.6", "llama2-7b", "dgf-2", "dovetail", vram=3, acceptance=0.6),
    ),
    "duo": (
        Setup("acceptance 0.8", "llama2-7b", "llama-160m", "duo"),
        Setup("acceptance 0.6", "llama2-7b", "llama-160m", "duo", acceptance=0.6),
    ),
    "pair": (
        Setup("acceptance 0.8", "qwen2.5-7b", "qwen2.5-0.5b", "dovetail", layers="all"),
        Setup(
            "acceptance 0.6", "qwen2.5-7b", "qwen2.5-0.5b", "dovetail", layers="all", acceptance=0.6
        ),
    ),
}
"""The first of "dovetail" is what its speed-up counts from."""


def run(check: Check, kind: str, stack: str) -> None:
    """Measure the set-ups of a kind, as long as there is time."""
    said: list[str] = []
    for setup in SETUPS[kind]:
        if check.left < 10 and said:
            check.emit("left out", setup=setup.name, why="no time left")
            continue
        try:
            told = _measure(check, kind, setup, stack)
        except Exception as error:  # noqa: BLE001 - the next one may run
            why = check.fail(error, kind_of=kind, stack=stack, setup=setup.name)
            said.append(f"{setup.name}: {why}")
        else:
            check.emit("setup", kind_of=kind, stack=stack, setup=setup.name, **told)
            speeds = f"{told['plain_tokens_per_s']:.1f} -> {told['tokens_per_s']:.1f} tokens/s"
            said.append(f"{setup.name}: {speeds}{'' if told['exact'] else ', TEXTS DIFFER'}")
        check.say("; ".join(said))


def _measure(check: Check, kind: str, setup: Setup, stack: str) -> dict[str, Any]:
    from engine.bench.lanes import rounds_as_csv
    from engine.bench.random_model import RandomPair, random_draft
    from engine.bench.shape_answers import ShapeOptions
    from engine.bench.shape_speed import Placing, measure_shape, plan_models
    from engine.cli.bench_shapes import report
    from engine.commands import ALL_LAYERS, Mode
    from engine.loading.devices import DeviceManager

    mode, manager = Mode(setup.mode), DeviceManager()
    simulated = check.rehearse and stack == "torch"
    cpu_alone = setup.layers == "none"
    device = None if simulated else "cpu" if cpu_alone else check.device(stack)
    machine = manager.look(2 * GIB if simulated else None, device)
    target = model_of(check, setup.target, "q4_0")
    draft = random_draft(target, setup.draft, "q4_0")
    if check.rehearse and not setup.draft.startswith("dgf"):
        draft = replace(random_draft(target, "small"), config=config_of(check, setup.draft))
    pair = RandomPair(target, draft)
    options = ShapeOptions(
        tokens=12 if check.rehearse else 48,
        runs=1 if check.rehearse else 2,
        acceptance=setup.acceptance,
        mode=mode,
        depths=(setup.depth,),
        prompt=24 if check.rehearse else 512,
        rows=(1, 2, 4, 8, 16),
    )
    vram = None if setup.vram is None else round(setup.vram * GIB)
    layers = ALL_LAYERS if setup.layers == "all" else None
    placing = Placing(mode, None if check.rehearse else vram, layers)
    plan = plan_models((machine, manager.speeds(machine)), pair, placing, options)
    measured = measure_shape(pair, options, plan, machine)
    pictured = check.out / f"rounds-{kind}-{stack}.csv"
    if measured.rounds and kind != "pair" and not pictured.exists():  # the papers' own
        pictured.write_text(rounds_as_csv(measured.rounds), "utf-8")
    return report(measured, options)
