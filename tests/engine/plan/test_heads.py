"""Feature heads in plans: what they take, where they lie, what they are expected to bring."""

from __future__ import annotations

from dataclasses import replace
from time import thread_time

import pytest
from described import GIB, MACHINES, TARGETS, card, head, host, model
from stopwatch import least

from engine.backend.decoder import MAX_TREE
from engine.bench.random_model import RandomModel, random_draft
from engine.bench.shapes import shape
from engine.commands import Mode
from engine.errors import OutOfMemory
from engine.machine.facts import CPU, Machine
from engine.machine.memory import host_reserve
from engine.machine.speeds import Speeds
from engine.model.tensors import EMBEDDING, HEAD, borrowed_tensors, expected_tensors
from engine.plan.facts import DraftFacts, ModelFacts, Wish, usual_draft
from engine.plan.memory import device_limit
from engine.plan.plan import Plan
from engine.plan.planner import Planning, plan

ASSUMED = Speeds({})
AUTO = Wish(Mode.AUTO, None, lookup=False, forced=False)
DOVETAIL = Wish(Mode.DOVETAIL, None, lookup=False, forced=True)
SHAPES = {"7B": "qwen2.5-7b", "old 7B": "llama2-7b", "13B": "llama2-13b", "8B": "llama3.1-8b"}
HEADS = ("dgf-1", "dgf-5", "eagle", "eagle3")

MORE_MACHINES = {
    "2 GiB card": Machine(host(4, 16, 12), (card("GT 1030", 2, 1.9),)),
    "7 GiB of a card": Machine(host(8, 64, 56), (card("RTX 2080", 8, 7.9),)),
}


def planned(machine: Machine, target: ModelFacts, draft: DraftFacts, wish: Wish = AUTO) -> Plan:
    return plan(machine, ASSUMED, target, [draft], wish)


# ---- what a head takes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "trained"),
    [("dgf-1", 0.2697e9), ("dgf-3", 0.6744e9), ("dgf-5", 1.0791e9), ("eagle", 0.2359e9)],
)
def test_parameters_of_published_heads(name: str, trained: float) -> None:
    """Of the notes: DGF 67.1 million and 202.4 a block, beside an embedding and a head of 262.1."""
    held = head(name, "old 7B", "bf16", "bf16").model.footprint
    borrowed = 2 * 32000 * 4096
    assert held.weight_bytes / 2 - borrowed == pytest.approx(trained, rel=0.001)
    assert held.embedding.nbytes == 32000 * 4096 * 2
    assert len(held.blocks) == int(name[-1] if name[-1].isdigit() else 1)
    assert held.feature_bytes_per_token == 2 * 4096


def test_every_tensor_of_every_head_is_counted() -> None:
    for name in HEADS:
        for target in SHAPES.values():
            drafted = random_draft(RandomModel.published(target, "q4_0"), name, "bf16")
            expected, held = expected_tensors(drafted.config), drafted.facts.footprint
            lent = {*borrowed_tensors(drafted.config)} & {*expected}
            numbers = sum(
                shape[0] * (shape[1] if len(shape) == 2 else 2)  # vectors are fp32
                for tensor, shape in expected.items()
                if tensor not in lent
            )
            borrowed = sum(
                part.nbytes for part, tensor in ((held.embedding, EMBEDDING), (held.head, HEAD))
                if tensor in lent
            )  # fmt: skip
            assert held.weight_bytes - borrowed == pytest.approx(2 * numbers, rel=1e-3)
            assert all(drafted.kinds[tensor] == "Q4_0" for tensor in lent)


def test_a_reduced_vocabulary_has_a_smaller_head() -> None:
    facts = head("eagle3", "8B", "q4_0", "bf16")
    held = facts.model.footprint
    assert held.vocab == 32000
    assert held.head.nbytes == pytest.approx(32000 * 4096 * 2, rel=1e-3)
    assert held.feature_bytes_per_token == 3 * 2 * 4096
    assert held.embedding.nbytes == 128256 * 4096 * 18 // 32


def test_features_are_kept_on_the_host_and_counted_there() -> None:
    machine = MACHINES["rtx 2080"]
    for name, taps in (("dgf-5", 1), ("eagle3", 3)):
        made = planned(machine, model("old 7B", "q4_0"), head(name, "old 7B"), DOVETAIL)
        slots = made.context + MAX_TREE
        assert made.on(CPU).features == pytest.approx(slots * taps * 2 * 4096, abs=4096)
        assert made.on("cuda:0").features == 0
        memory = made.on(CPU)
        parts = memory.target, memory.draft, memory.kv, memory.features, memory.workspace
        assert memory.total == sum(parts) + memory.runtime
        plain = planned(machine, model("old 7B", "q4_0"), head(name, "old 7B"), replace(
            AUTO, mode=Mode.PLAIN))  # fmt: skip
        assert plain.on(CPU).features == 0


def test_matrices_of_all_tokens_are_held_once_on_a_device() -> None:
    """Where the target's are on the CPU, the card has both once more."""
    target, draft = model("13B", "q4_0"), head("dgf-5", "13B")
    held = draft.model.footprint
    apart = planned(MACHINES["rtx 2080"], target, draft, DOVETAIL)
    assert 0 < apart.layers_on_gpu < 40
    assert (apart.on("cuda:0").draft, apart.on(CPU).draft) == (held.weight_bytes, 0)
    # The target's embedding stays on the CPU, its output matrix is on the card with the last layer.
    together = planned(MACHINES["rtx 4090"], target, draft, DOVETAIL)
    assert together.target[-1].heads
    assert together.on("cuda:0").draft == held.weight_bytes - held.head.nbytes
    on_cpu = planned(MACHINES["desktop 64 GB"], target, draft, replace(DOVETAIL, mode=Mode.CPU))
    borrowed = held.embedding.nbytes + held.head.nbytes
    assert on_cpu.on(CPU).draft == held.weight_bytes - borrowed
    assert on_cpu.on(CPU).draft < held.weight_bytes - 2 * 32000 * 5120 // 2


def test_a_tied_target_lends_one_matrix() -> None:
    lender = RandomModel.published("qwen2.5-1.5b", "q4_0")
    draft = usual_draft(random_draft(lender, "dgf-2", "q4_0").facts)
    held = draft.model.footprint
    assert held.tied
    for machine, cpu in (("rtx 4090", False), ("desktop 64 GB", True)):
        wish = replace(DOVETAIL, mode=Mode.CPU) if cpu else DOVETAIL
        made = planned(MACHINES[machine], lender.facts, draft, wish)
        assert sum(memory.draft for memory in made.memory) == sum(
            part.nbytes for part in held.blocks
        )
    own = usual_draft(random_draft(lender, "eagle3", "q4_0").facts)
    made = planned(MACHINES["rtx 4090"], lender.facts, own, DOVETAIL)
    whole = own.model.footprint
    assert made.on("cuda:0").draft == whole.weight_bytes - whole.embedding.nbytes


# ---- where it lies ---------------------------------------------------------------------------


@pytest.mark.parametrize("wish", [AUTO, DOVETAIL])
@pytest.mark.parametrize("name", ["dgf-5", "dgf-3"])
def test_a_small_card_has_the_head_and_the_cpu_the_target(name: str, wish: Wish) -> None:
    """2 GiB, of which software takes a third: a head of 0.7 GiB fits, and hardly a layer more."""
    machine, wish = MORE_MACHINES["2 GiB card"], replace(wish, context=2048)
    made = planned(machine, model("old 7B", "q4_0"), head(name, "old 7B"), wish)
    assert (made.mode, made.draft_device) == (Mode.DOVETAIL, "cuda:0")
    assert made.layers_on_gpu <= (0 if name == "dgf-5" else 3)
    assert made.on("cuda:0").draft > 0.4 * GIB
    assert made.on("cuda:0").total <= made.on("cuda:0").budget


@pytest.mark.parametrize(
    ("wanted", "own", "layers"),
    [("bf16", "bf16", range(6, 13)), ("q8_0", "q8_0", range(16, 26)), ("q4_0", "q4_0", (32,))],
)
def test_seven_gibibytes(wanted: str, own: str, layers: range | tuple[int, ...]) -> None:
    """The paper puts 10 of 32 layers in fp16 beside its head; in fewer bits more of them fit."""
    wish = replace(AUTO if wanted == "q4_0" else DOVETAIL, vram=7 * GIB, context=1024)
    machine = MORE_MACHINES["7 GiB of a card"]
    made = planned(machine, model("old 7B", wanted), head("dgf-5", "old 7B", wanted, own), wish)
    assert (made.mode, made.draft_device) == (Mode.DOVETAIL, "cuda:0")
    assert made.layers_on_gpu in layers
    assert 0.85 * 7 * GIB < made.on("cuda:0").total <= 7 * GIB or made.layers_on_gpu == 32


def test_three_gibibytes_hold_the_paper_s_head_in_halves_and_nothing_else() -> None:
    machine, wish = MORE_MACHINES["7 GiB of a card"], replace(DOVETAIL, vram=int(3.4 * GIB))
    wish = replace(wish, context=512)
    made = planned(machine, model("old 7B", "q8_0"), head("dgf-5", "old 7B", "bf16", "bf16"), wish)
    assert made.layers_on_gpu == 0
    assert made.on("cuda:0").draft == pytest.approx(1.341e9 * 2, rel=0.01)


def test_a_smaller_head_leaves_room_for_layers() -> None:
    """Head and layers are weighed together: whichever of two heads wins, both were considered."""
    machine = MORE_MACHINES["7 GiB of a card"]
    target = model("old 7B", "q8_0")
    drafts = [head("dgf-5", "old 7B", "q8_0", "bf16"), head("dgf-1", "old 7B", "q8_0", "q4_0")]
    wish = replace(AUTO, vram=4 * GIB, context=1024)
    both = plan(machine, ASSUMED, target, drafts, wish)
    alone = [plan(machine, ASSUMED, target, [draft], wish) for draft in drafts]
    assert both.tokens_per_s == max(each.tokens_per_s or 0 for each in alone)
    assert alone[0].layers_on_gpu < alone[1].layers_on_gpu


@pytest.mark.release(keep=6, reason="every machine")
@pytest.mark.parametrize("machine", [*MACHINES, *MORE_MACHINES])
def test_no_plan_with_a_head_is_over_budget_and_more_is_never_slower(machine: str) -> None:
    described = MACHINES.get(machine) or MORE_MACHINES[machine]
    largest = max((found.memory_total or 0 for found in described.usable), default=0)
    for size in ("7B", "13B"):
        facts = model(size, "q4_k_m" if size == "7B" else "q4_0")
        for name in ("dgf-5", "eagle3"):
            try:
                planning = Planning(described, ASSUMED, facts, [head(name, size)], AUTO)
            except OutOfMemory:
                continue
            rates = []
            for level in (0, 0.2, 0.4, 0.6, 0.8, 1.0) if largest else (0,):
                wish = replace(AUTO, vram=int(level * largest))
                try:
                    made = plan(described, ASSUMED, facts, [head(name, size)], wish)
                except OutOfMemory:
                    assert not rates
                    continue
                _check_budgets(described, made, wish)
                point = planning.curve().at(wish.vram or 0)
                assert point is not None
                assert made.tokens_per_s == point.tokens_per_s
                rates.append(made.tokens_per_s or 0)
            assert rates == sorted(rates)


def _check_budgets(machine: Machine, made: Plan, wish: Wish) -> None:
    on_host = made.on(CPU).total
    for found in machine.usable:
        held = made.on(found.device).total
        assert held <= min(device_limit(found), wish.vram or 0)
        on_host += held if found.unified or found.simulated else 0
    assert on_host <= machine.host.memory_available - host_reserve(machine.host)
    assert (made.on(CPU).features > 0) == (made.draft is not None)


# ---- what it brings --------------------------------------------------------------------------


def test_reasons_speak_of_the_head() -> None:
    made = planned(MACHINES["rtx 2080"], model("13B", "q4_0"), head("dgf-5", "13B"))
    assert "dgf-5 proposes tokens on RTX 2080." in made.reasons
    assert any(
        reason.startswith("dgf-5 is a feature head: it drafts from what 13B has computed, of which")
        for reason in made.reasons
    )
    assert any("layers fit beside the draft" in reason for reason in made.reasons)


def test_a_head_can_draft_while_the_target_computes() -> None:
    """In DUO it does, on the CPU. AUTO has it beside the target: there it is faster."""
    wish = Wish(Mode.DUO, None, lookup=False, forced=True)
    for machine in ("rtx 4090", "m2 16 GB"):
        made = planned(MACHINES[machine], model("7B", "q4_0"), head("dgf-1", "7B"))
        assert made.mode is not Mode.DUO
        made = planned(MACHINES[machine], model("7B", "q4_0"), head("dgf-1", "7B"), wish)
        assert made.mode is Mode.DUO
        assert made.draft_device == CPU
        assert made.on(CPU).features > 0


def test_deeper_heads_are_expected_to_be_right_more_often() -> None:
    guesses = [head(f"dgf-{blocks}", "old 7B").acceptance for blocks in range(1, 8)]
    assert guesses == sorted(guesses)
    assert guesses[4] == guesses[6]
    assert {head(name, "old 7B").width for name in HEADS} == {10}
    assert usual_draft(model("0.5B", "q8_0")) == DraftFacts(model("0.5B", "q8_0"), 0.7)
    assert usual_draft(head("eagle", "old 7B").model, 0.4).acceptance == 0.4


def test_all_targets_have_heads() -> None:
    """Whatever blocks a target has, a head's are dense."""
    for name in ("qwen3-30b-a3b", "gpt-oss-20b", "gemma3-1b", "phi4-mini", "bench"):
        drafted = random_draft(RandomModel.published(name, "q4_0"), "dgf-2").facts
        assert drafted.footprint.hidden == shape(name).hidden_size
        assert 0 < drafted.footprint.weight_bytes < 4 * GIB
    assert len(TARGETS) > 10


@pytest.mark.release(reason="a stopwatch")
def test_a_plan_takes_some_milliseconds() -> None:
    """The slider asks at every move."""

    def once() -> float:
        began = thread_time()
        planned(MACHINES["rtx 2080"], model("13B", "q4_0"), head("dgf-5", "13B"))
        return thread_time() - began

    assert least(once, 5e-3, attempts=20) < 5e-3
