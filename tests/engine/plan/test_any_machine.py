"""Machines and wishes that nobody thought of: no plan is over budget, more is never slower."""

from __future__ import annotations

from dataclasses import replace

from described import DRAFTS, GIB, model
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.commands import Mode
from engine.errors import UserFixable
from engine.machine.facts import CPU, Accelerator, Host, Machine, Vendor
from engine.machine.memory import host_reserve
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds
from engine.plan.facts import Wish
from engine.plan.memory import device_limit
from engine.plan.planner import Planning, plan

gibibytes = st.floats(0, 160).map(lambda size: int(size * GIB))
free_shares = st.floats(0, 1) | st.floats(0.7, 1)
rates = st.floats(1e8, 4e12)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    total, memory = draw(gibibytes), draw(gibibytes)
    host = Host(draw(st.integers(1, 128)), memory, int(memory * draw(free_shares)))
    kind = draw(st.sampled_from(["none", "unusable", "unified", "simulated", *["card"] * 4]))
    if kind == "none":
        return Machine(host)
    vendor, free = draw(st.sampled_from(Vendor)), int(total * draw(free_shares))
    found = Accelerator(
        "cuda:0", "A card", vendor, total, free,
        unified=kind == "unified", simulated=kind == "simulated",
        unusable="broken" if kind == "unusable" else "",
    )  # fmt: skip
    return Machine(host, (found,))


@st.composite
def speeds(draw: st.DrawFn) -> Speeds:
    """Anything that could have been measured."""
    devices = {}
    for name in draw(st.sampled_from([(), (CPU,), (CPU, "cuda:0")])):
        first, more = draw(rates), draw(st.floats(0.1, 1))
        product = ProductSpeed((1, 8), (first, first * more))
        devices[name] = DeviceSpeeds(name, first, {"Q4_0": product}, 1e-5, 1e-5, 1e-6, product)
    link = LinkSpeed("cuda:0", draw(rates), draw(rates), draw(st.floats(0, 1e-3)))
    return Speeds(devices, {"cuda:0": link})


wishes = st.builds(
    Wish,
    st.sampled_from([*Mode, *[Mode.AUTO] * 4]),
    st.sampled_from([None] * 3 + [1, 300, 8192]),
    lookup=st.booleans(),
    forced=st.booleans(),
    vram=st.none() | gibibytes,
    layers_on_gpu=st.sampled_from([None] * 8 + [0, 1, 7, 24]),
    parallel=st.booleans(),
)
targets = st.sampled_from(
    [("0.5B", "q8_0"), ("8B", "q4_k_m"), ("32B", "q4_k_m"), ("30B-A3B", "q4_k_m")]
)


@settings(max_examples=150, deadline=None)
@given(machines(), speeds(), targets, st.sampled_from(sorted(DRAFTS)), wishes)
def test_every_plan_keeps_to_its_budgets(
    machine: Machine, known: Speeds, target: tuple[str, str], draft: str, wish: Wish
) -> None:
    facts = model(*target)
    try:
        made = plan(machine, known, facts, DRAFTS[draft], wish)
    except UserFixable:
        return
    on_host = made.on(CPU).total
    for found in machine.usable:
        held = made.on(found.device).total
        assert held <= min(device_limit(found), wish.vram if wish.vram is not None else held)
        on_host += held if found.unified or found.simulated else 0
    assert on_host <= machine.host.memory_available - host_reserve(machine.host)
    assert [b for share in made.target for b in share.blocks] == [
        *range(len(facts.footprint.blocks))
    ]
    assert made.target[0].embeds
    assert made.target[-1].heads
    if wish.layers_on_gpu is not None:
        assert made.layers_on_gpu == wish.layers_on_gpu
    if wish.mode not in (Mode.AUTO, Mode.CPU):
        assert made.mode is wish.mode
    if wish.mode is Mode.CPU:
        assert made.mode in (Mode.CPU, Mode.PLAIN)
        assert made.accelerator is None
    assert wish.parallel or made.mode is not Mode.DUO or wish.mode is Mode.DUO
    assert all(reason.strip() for reason in made.reasons)


@settings(max_examples=60, deadline=None)
@given(machines(), speeds(), targets, st.sampled_from(sorted(DRAFTS)), st.booleans())
def test_more_is_never_slower(
    machine: Machine, known: Speeds, target: tuple[str, str], draft: str, parallel: bool
) -> None:
    wish = Wish(Mode.AUTO, None, lookup=True, forced=False, parallel=parallel)
    planning = Planning(machine, known, model(*target), DRAFTS[draft], wish)
    rate, layers = 0.0, dict[object, int]()
    for step in range(33):
        placement = planning.placement(planning.limit * step // 32)
        if placement is None:
            assert not rate
            continue
        assert placement.rate >= rate
        assert placement.cut >= layers.get(placement.strategy, 0)
        rate, layers[placement.strategy] = placement.rate, placement.cut
    if rate:
        made = plan(machine, known, model(*target), DRAFTS[draft], replace(wish, vram=None))
        assert (made.tokens_per_s or 0) >= 0.95 * rate * (1 - 1e-9)
