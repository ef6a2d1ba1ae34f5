"""What the planner makes of machines that people have: the choice that an expert would make."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from described import DRAFTS, GIB, MACHINES, TARGETS, model
from full_models import uneven_config

from engine.backend.simulated.spec import simulated_accelerator
from engine.commands import KvType, Mode, WeightFormat
from engine.errors import Absent, NotPossible, OutOfMemory
from engine.machine.facts import CPU, Machine
from engine.machine.memory import host_reserve
from engine.machine.speeds import Speeds
from engine.plan.facts import ModelFacts, Wish, that_serves
from engine.plan.footprint import footprint
from engine.plan.memory import device_limit
from engine.plan.plan import Plan
from engine.plan.planner import Planning, plan

AUTO = Wish(Mode.AUTO, None, lookup=True, forced=False)
ASSUMED = Speeds({})
ALL = "all"


def planned(machine: str, size: str, wanted: str, draft: str = "none", wish: Wish = AUTO) -> Plan:
    return plan(MACHINES[machine], ASSUMED, model(size, wanted), DRAFTS[draft], wish)


@pytest.mark.parametrize("draft", ["none", "1B"])
@pytest.mark.parametrize("size", ["8B", "32B", "70B"])
def test_the_context_that_a_refusal_offers_fits_and_little_more_does(size: str, draft: str) -> None:
    found, offers = model(size, "q4_k_m"), 0
    for machine in MACHINES:
        longest = replace(AUTO, context=found.max_positions)
        try:
            planned(machine, size, "q4_k_m", draft, longest)
        except OutOfMemory as refused:
            offered = re.search(r"a context of at most ([\d,]+) tokens", refused.remedy)
        else:
            continue
        if offered is None:
            continue
        offers += 1
        tokens = int(offered[1].replace(",", ""))
        asked = replace(AUTO, context=tokens)
        assert planned(machine, size, "q4_k_m", draft, asked).context == tokens
        more = replace(AUTO, context=tokens * 16 // 15)
        with pytest.raises(OutOfMemory):
            planned(machine, size, "q4_k_m", draft, more)
    assert offers


@pytest.mark.parametrize(
    ("machine", "size", "wanted", "draft", "layers", "drafting"),
    [
        # Without an accelerator: a draft on the CPU wherever the target is much larger.
        ("laptop", "0.5B", "q8_0", "none", 0, None),
        ("laptop", "8B", "q4_k_m", "1B", 0, CPU),
        ("laptop 8 GB", "3B", "q4_k_m", "0.5B", 0, CPU),
        ("desktop 64 GB", "70B", "q4_k_m", "1B", 0, CPU),
        ("rx 580 without rocm", "8B", "q4_k_m", "0.5B", 0, CPU),
        ("old card", "8B", "q4_k_m", "none", 0, None),
        ("container", "7B", "q4_k_m", "none", 0, None),
        # What fits goes there whole, with the draft.
        ("gtx 1050", "1.5B", "q4_0", "none", ALL, None),
        ("rtx 2080", "8B", "q4_k_m", "1B", ALL, "cuda:0"),
        ("rtx 3060", "8B", "q4_k_m", "1B", ALL, "cuda:0"),
        ("rtx 3060", "7B", "q8_0", "0.5B", ALL, "cuda:0"),
        ("rtx 4090", "14B", "q4_k_m", "1B", ALL, "cuda:0"),
        ("rtx 4090", "30B-A3B", "q4_k_m", "none", ALL, None),
        ("7900 xtx", "32B", "q4_k_m", "1B", ALL, "cuda:0"),
        ("arc a770", "8B", "q4_k_m", "1B", ALL, "xpu:0"),
        ("m1 8 GB", "3B", "q4_k_m", "1B", ALL, "mps"),
        ("m3 max 64 GB", "32B", "q4_k_m", "1B", ALL, "mps"),
        ("h200", "70B", "q4_k_m", "1B", ALL, "cuda:0"),
        ("container with a card", "8B", "q4_k_m", "1B", ALL, "cuda:0"),
        # What does not is cut in two: Dovetail.
        ("gtx 1050", "8B", "q4_k_m", "1B", range(5, 20), "cuda:0"),
        ("gtx 1050", "13B", "q4_k_m", "1B", range(3, 12), "cuda:0"),
        ("rtx 2080", "13B", "q4_k_m", "1B", range(15, 25), "cuda:0"),
        ("rtx 3060", "32B", "q4_k_m", "1B", range(22, 36), "cuda:0"),
        ("rtx 4090", "70B", "q4_k_m", "1B", range(30, 45), "cuda:0"),
        ("half a game", "8B", "q4_k_m", "1B", range(15, 30), "cuda:0"),
        # A full card has no room for layers, nor for software of its own.
        ("game", "8B", "q4_k_m", "1B", 0, CPU),
        # The card of two that is larger.
        ("two cards", "32B", "q4_k_m", "1B", ALL, "cuda:1"),
        # A core that pretends to be an accelerator is none.
        ("simulated", "3B", "q4_k_m", "0.5B", 0, CPU),
    ],
)
def test_the_choice_of_an_expert(
    machine: str, size: str, wanted: str, draft: str, layers: object, drafting: str | None
) -> None:
    made = planned(machine, size, wanted, draft)
    count = len(model(size, wanted).footprint.blocks)
    if layers == ALL:
        assert made.target[-1].device == made.accelerator
        assert (made.layers_on_gpu, made.target[-1].heads) == (count, True)
    elif isinstance(layers, range):
        assert made.layers_on_gpu in layers
        assert made.mode is Mode.DOVETAIL
    else:
        assert (made.layers_on_gpu, made.accelerator) == (0, None)
    assert (made.draft_device if made.draft is not None else None) == drafting
    assert made.reasons
    assert made.tokens_per_s is not None
    assert made.tokens_per_s > 0.5


@pytest.mark.parametrize(
    ("machine", "size", "wanted"),
    [
        ("laptop", "32B", "q4_k_m"),
        ("laptop 8 GB", "13B", "q4_k_m"),
        ("old laptop 4 GB", "7B", "q4_k_m"),
        ("gtx 1050", "32B", "q4_k_m"),
        ("rtx 3060", "70B", "q4_k_m"),
        ("m1 8 GB", "8B", "q4_k_m"),
        ("container", "13B", "q4_k_m"),
        ("container with a card", "70B", "q4_k_m"),
    ],
)
def test_what_fits_nowhere_is_refused(machine: str, size: str, wanted: str) -> None:
    with pytest.raises(OutOfMemory, match=r"needs \d+\.\d GiB"):
        planned(machine, size, wanted)


def test_a_machine_without_enough_memory_may_have_it_with_a_card() -> None:
    """17 GiB of weights, 12 GiB of memory, 15 GiB of a card."""
    made = planned("half a game", "30B-A3B", "q4_k_m")
    assert 0 < made.layers_on_gpu < 48
    with pytest.raises(OutOfMemory):
        planned("container with a card", "30B-A3B", "q4_k_m", wish=replace(AUTO, vram=0))
    assert planned("container with a card", "30B-A3B", "q4_k_m").layers_on_gpu > 30


# ---- every cell ------------------------------------------------------------------------------

_LEVELS = (None, 0, 0.3, 0.6, 0.9, 1.5)
"""Ceilings in shares of the card's memory."""


@pytest.mark.release(keep=2, reason="every machine")
@pytest.mark.parametrize("machine", MACHINES)
def test_no_plan_is_over_budget(machine: str) -> None:
    described = MACHINES[machine]
    largest = max((found.memory_total or 0 for found in described.usable), default=0)
    possible = 0
    for size, wanted in TARGETS:
        for draft in ("none", "both"):
            for level in _LEVELS if largest else (None,):
                vram = None if level is None else int(level * largest)
                try:
                    made = planned(machine, size, wanted, draft, replace(AUTO, vram=vram))
                except OutOfMemory:
                    continue
                possible += 1
                check_budgets(machine, made, vram)
                assert made.mode in (Mode.PLAIN, Mode.CPU, Mode.DOVETAIL, Mode.DUO)
                blocks = [block for share in made.target for block in share.blocks]
                assert blocks == [*range(len(model(size, wanted).footprint.blocks))]
    assert possible >= 2


def check_budgets(machine: str, made: Plan, vram: int | None) -> None:
    """No device is asked for more than it has, or than was allowed."""
    described = MACHINES[machine]
    host = described.host
    on_host = made.on(CPU).total
    for found in described.usable:
        held = made.on(found.device)
        assert held.total <= device_limit(found)
        assert held.total <= held.budget or not held.total
        if vram is not None:
            assert held.total <= vram
        if found.unified or found.simulated:
            on_host += held.total
    assert on_host <= host.memory_available - host_reserve(host)
    assert sum(1 for memory in made.memory if memory.device != CPU) <= 1


@pytest.mark.release(keep=7, reason="every machine")
@pytest.mark.parametrize(
    "machine",
    ["gtx 1050", "rtx 2080", "rtx 4090", "arc a770", "m2 16 GB", "two cards", "simulated"],
)
@pytest.mark.parametrize("parallel", [True, False])
def test_a_higher_ceiling_is_never_slower_and_never_takes_layers_away(
    machine: str, parallel: bool
) -> None:
    described = MACHINES[machine]
    largest = max(found.memory_total or 0 for found in described.usable)
    wish = replace(AUTO, parallel=parallel)
    for size, wanted in TARGETS:
        try:
            target = model(size, wanted)
            planning = Planning(described, ASSUMED, target, DRAFTS["both"], wish)
        except OutOfMemory:
            continue
        rate, layers = 0.0, dict[object, int]()
        for step in range(65):
            placement = planning.placement(largest * step // 64)
            if placement is None:
                assert not rate, "what fitted fits no more"
                continue
            assert placement.rate >= rate
            assert placement.cut >= layers.get(placement.strategy, 0)
            rate, layers[placement.strategy] = placement.rate, placement.cut


def test_the_knee_is_the_least_that_is_about_the_best() -> None:
    for machine in ("gtx 1050", "rtx 2080", "7900 xtx", "m3 max 64 GB", "laptop"):
        for size, wanted in TARGETS:
            try:
                made = planned(machine, size, wanted, "1B")
            except OutOfMemory:
                continue
            if made.knee is None:
                assert machine == "laptop"
                continue
            assert made.tokens_per_s is not None
            at_knee = planned(machine, size, wanted, "1B", replace(AUTO, vram=made.knee))
            most = planned(machine, size, wanted, "1B", replace(AUTO, vram=1 << 50))
            assert at_knee.tokens_per_s == made.tokens_per_s >= 0.95 * (most.tokens_per_s or 0)
            assert at_knee.target == made.target
            if made.knee:
                try:
                    less = planned(machine, size, wanted, "1B", replace(AUTO, vram=made.knee - 1))
                except OutOfMemory:
                    continue
                assert (less.tokens_per_s or 0) < 0.95 * (most.tokens_per_s or 0)


def test_an_accelerator_that_stays_idle_does_not_cut_the_context() -> None:
    host = MACHINES["desktop 64 GB"].host
    alone = plan(Machine(host), ASSUMED, model("7B", "q4_0"), [], AUTO)
    beside = Machine(host, (simulated_accelerator(2 * GIB),))
    made = plan(beside, ASSUMED, model("7B", "q4_0"), [], AUTO)
    assert made.accelerator is None
    assert (made.context, made.mode) == (alone.context, alone.mode)


def test_the_context_does_not_hang_on_the_ceiling() -> None:
    for machine in ("gtx 1050", "rtx 3060", "m2 16 GB"):
        contexts = {
            planned(machine, "3B", "q4_k_m", "0.5B", replace(AUTO, vram=gib * GIB)).context
            for gib in range(12)
        }
        assert len(contexts) == 1


# ---- forced ----------------------------------------------------------------------------------


@pytest.mark.release(keep=68, reason="every machine")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.CPU, Mode.DOVETAIL, Mode.DUO])
def test_a_forced_mode_is_honoured_or_refused_in_words(machine: str, mode: Mode) -> None:
    wish = Wish(mode, None, lookup=True, forced=mode is not Mode.PLAIN)
    usable = bool(MACHINES[machine].usable)
    for size, wanted in (("3B", "q4_k_m"), ("8B", "q4_k_m"), ("70B", "q4_k_m")):
        try:
            made = planned(machine, size, wanted, "1B", wish)
        except OutOfMemory:
            continue
        except Absent:
            assert not usable
            continue
        assert made.mode is mode
        check_budgets(machine, made, None)
        if mode is Mode.CPU:
            assert made.accelerator is None
        if mode is Mode.DUO:
            assert made.draft_device == CPU
            assert made.target[-1].device == made.accelerator


def test_why_modes_are_refused() -> None:
    forced = Wish(Mode.DUO, None, lookup=True, forced=True)
    words = r"needs a GPU .* GTX 680 is not used: this torch has no"
    with pytest.raises(Absent, match=words):
        planned("old card", "3B", "q4_k_m", "1B", forced)
    with pytest.raises(NotPossible, match="needs a draft model"):
        planned("rtx 4090", "3B", "q4_k_m", "none", forced)
    with pytest.raises(OutOfMemory, match="of GTX 1050 for that"):
        planned("gtx 1050", "8B", "q4_k_m", "0.5B", forced)
    nothing = Wish(Mode.DOVETAIL, None, lookup=False, forced=True)
    with pytest.raises(NotPossible, match="needs something that drafts"):
        planned("rtx 4090", "3B", "q4_k_m", "none", nothing)


@pytest.mark.parametrize("layers", [0, 1, 7, 32])
def test_layers_are_put_where_they_were_asked_for(layers: int) -> None:
    made = planned("rtx 2080", "8B", "q4_k_m", "0.5B", replace(AUTO, layers_on_gpu=layers))
    assert made.layers_on_gpu == layers


def test_layers_that_cannot_be_there() -> None:
    with pytest.raises(NotPossible, match="has 32 layers; 33 cannot"):
        planned("rtx 2080", "8B", "q4_k_m", wish=replace(AUTO, layers_on_gpu=33))
    with pytest.raises(OutOfMemory, match="of GTX 1050 for that, and the budget there is"):
        planned("gtx 1050", "8B", "q4_k_m", wish=replace(AUTO, layers_on_gpu=32))
    with pytest.raises(Absent, match="can only run on a GPU"):
        planned("laptop", "8B", "q4_k_m", wish=replace(AUTO, layers_on_gpu=1))


def test_layers_that_share_keys_and_values_stay_together() -> None:
    config = uneven_config()
    target = ModelFacts("Tiny", footprint(config, WeightFormat.Q4), config.max_positions)
    machine = Machine(MACHINES["rtx 2080"].host, (simulated_accelerator(2 * GIB),))
    with pytest.raises(NotPossible, match="be split after 2 layers") as refused:
        plan(machine, ASSUMED, target, [], replace(AUTO, layers_on_gpu=2))
    assert refused.value.remedy == "Choose one of 0, 4, 5, 6."
    made = plan(machine, ASSUMED, target, [], replace(AUTO, layers_on_gpu=4))
    assert made.layers_on_gpu == 4
    torch = that_serves(MACHINES["rtx 2080"], config).accelerators[0]
    assert torch.unusable == "Duotail runs models whose blocks differ on the CPU or through WebGPU"


@pytest.mark.parametrize(
    "wish", [Wish(Mode.DOVETAIL, None, False, False), replace(AUTO, layers_on_gpu=1)]
)
def test_another_family_stays_on_the_cpu(wish: Wish) -> None:
    other = replace(model("8B", "q4_k_m"), other_family="gptj")
    with pytest.raises(NotPossible, match="through the transformers library, on the CPU only"):
        plan(MACHINES["rtx 2080"], ASSUMED, other, [], wish)


def test_nobody_misses_a_draft_beside_a_model_of_another_family() -> None:
    other = replace(model("8B", "q4_k_m"), other_family="gptj")
    made = plan(MACHINES["rtx 2080"], ASSUMED, other, DRAFTS["1B"], AUTO)
    assert made.draft is None
    assert not any("left out" in reason for reason in made.reasons)


# ---- reasons ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "size", "draft", "gib", "words"),
    [
        ("rtx 2080", "8B", "1B", 4, "8B needs 5."),
        ("rtx 2080", "8B", "1B", 4, "layers fit beside the draft, so the CPU verifies the rest"),
        ("rtx 2080", "8B", "1B", None, "8B fits on RTX 2080 whole: 4."),
        ("rtx 2080", "8B", "1B", None, "1B on RTX 2080 and the conversation itself"),
        ("rtx 2080", "8B", "1B", None, "take turns: a drafted token takes 0."),
        ("rtx 2080", "8B", "1B", None, "GiB of RTX 2080 are left to other programs"),
        ("rtx 2080", "8B", "1B", 0, "RTX 2080 is not used, because you allowed it no memory"),
        ("rtx 2080", "0.5B", "0.5B", None, "0.5B was left out: drafting with it would give 0."),
        ("game", "8B", "1B", None, "RTX 4070 is not used: too little of its memory is free"),
        ("simulated", "3B", "none", None, "is not used: the CPU alone is"),
        ("old card", "3B", "none", None, "GTX 680 is not used: this torch has no kernels"),
        ("two alike", "8B", "1B", None, "RTX 2080 is not used: a model runs on one GPU only"),
        ("m2 16 GB", "3B", "none", None, "one budget covers both"),
        ("laptop", "8B", "1B", None, "8B runs on the CPU: 4."),
    ],
)
def test_reasons(machine: str, size: str, draft: str, gib: int | None, words: str) -> None:
    wish = replace(AUTO, vram=None if gib is None else gib * GIB)
    wanted = "q8_0" if size == "0.5B" else "q4_k_m"
    reasons = planned(machine, size, wanted, draft, wish).reasons
    assert any(words in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("held", "layers", "words"),
    [
        (KvType.Q8, 0, "The KV cache is in 8 bits, as you asked."),
        (KvType.Q8, 7, "in 8 bits on the CPU; on RTX 2080 it stays in 16."),
        (KvType.F16, 0, "not in 8 bits: only Duotail's native CPU backend has that."),
    ],
)
def test_what_became_of_a_kv_cache_in_8_bits(held: KvType, layers: int, words: str) -> None:
    target = model("8B", "q4_k_m")
    target = replace(target, footprint=replace(target.footprint, kv=held))
    wish = replace(AUTO, kv=KvType.Q8, layers_on_gpu=layers)
    reasons = plan(MACHINES["rtx 2080"], ASSUMED, target, [], wish).reasons
    assert any(words in reason for reason in reasons), reasons


def test_the_larger_of_two_cards_says_so_of_the_other() -> None:
    reasons = planned("two cards", "32B", "q4_k_m", "1B").reasons
    assert any(reason.startswith("RTX 3060 is not used") for reason in reasons)
