"""Facts in, a plan out: what fits, how much context, and the reasons in words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from engine.backend.decoder import MAX_TREE
from engine.backend.segment import Share
from engine.bench.random_model import RandomModel
from engine.commands import Mode, WeightFormat
from engine.errors import Absent, OutOfMemory, UserFixable
from engine.machine.facts import CPU, Host, Machine
from engine.machine.memory import host_reserve
from engine.machine.speeds import DeviceSpeeds, Speeds
from engine.model.families import parse_config
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Footprint, WeightPart, footprint
from engine.plan.memory import KV_SHARE, SMALLEST_CONTEXT
from engine.plan.plan import Plan
from engine.plan.planner import plan

GIB, MIB, KIB = 2**30, 2**20, 2**10


def model(
    name: str, fmt: WeightFormat, weights: int, kv: int, positions: int, kind: str = "F32"
) -> ModelFacts:
    """A model of one block."""
    block = WeightPart(((kind, weights),))
    held = Footprint(fmt, WeightPart(), (block,), WeightPart(), False, (kv,))
    return ModelFacts(name, held, positions)


TARGET = model("Target", WeightFormat.F32, 4 * GIB, 64 * KIB, 8192)
SMALL_TARGET = model("Target", WeightFormat.Q4, 4 * GIB, 64 * KIB, 8192, kind="Q4_0")
DRAFT = model("Draft", WeightFormat.Q8, GIB, 16 * KIB, 4096)
CHEAP = model("Draft", WeightFormat.Q8, 32 * MIB, 16 * KIB, 4096)
ANYTHING = Wish(Mode.AUTO, None, lookup=True, forced=False)


def on_the_cpu(target: ModelFacts, draft: ModelFacts | None, asked: Wish, free: int) -> Plan:
    """A plan for a machine with so many free bytes and no accelerator."""
    drafts = [DraftFacts(draft, 0.7)] if draft else []
    return plan(Machine(Host(2, free, free)), Speeds({}), target, drafts, asked)


def with_reserve(room: int) -> int:
    """Free bytes of which `room` may be used."""
    free = room
    for _ in range(20):
        free = room + host_reserve(Host(1, free, free))
    return free


def wish(mode: Mode = Mode.AUTO, context: int | None = None, **more: bool) -> Wish:
    return Wish(mode, context, **{"lookup": False, "forced": False, **more})


@pytest.mark.parametrize(
    ("free", "context"),
    [
        (64 * GIB, 8192),  # all of it
        (4 * GIB + 2 * GIB, 8192),  # a quarter of the 2 GiB left: 0.5 GiB / 64 KiB, just so
        (4 * GIB + GIB, 4096),
        (4 * GIB + GIB // 4, 1024),
        (4 * GIB + 32 * MIB, SMALLEST_CONTEXT),  # its share would be 128 tokens
        (4 * GIB + 20 * MIB, SMALLEST_CONTEXT),  # the last that fits, with room for a tree
    ],
)
def test_the_context_takes_a_share_of_what_is_free(free: int, context: int) -> None:
    made = on_the_cpu(TARGET, None, ANYTHING, with_reserve(free))
    assert made.context == context
    assert made.on(CPU).kv == (context + MAX_TREE) * 64 * KIB
    assert made.on(CPU).total <= free
    cut = any("cut to" in reason for reason in made.reasons)
    assert cut == (context < TARGET.max_positions)


@pytest.mark.parametrize(
    ("room", "asked", "needs"),
    [
        (4 * GIB + 19 * MIB, None, "4.1 GiB"),
        (GIB, None, "4.1 GiB"),
        (0, None, "4.0 GiB"),
        (4 * GIB + GIB // 2, 8192, "4.6 GiB"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(
    room: int, asked: int | None, needs: str
) -> None:
    free = with_reserve(room)
    with pytest.raises(OutOfMemory) as refused:
        on_the_cpu(TARGET, None, wish(context=asked), free)
    assert refused.value.cause == (
        f"Target needs {needs} of memory here, and {free / GIB:.1f} GiB are free."
    )


@pytest.mark.parametrize(
    ("target", "room", "asked", "remedy"),
    [
        (TARGET, GIB, None, "In the format q4_0 it would take about 0.6 GiB"),
        (TARGET, 4 * GIB + GIB // 2, 8192, "Choose a context of at most 7"),
        (SMALL_TARGET, GIB, None, "choose a shorter context or a smaller model"),
    ],
)
def test_a_refusal_offers_what_would_fit(
    target: ModelFacts, room: int, asked: int | None, remedy: str
) -> None:
    with pytest.raises(OutOfMemory) as refused:
        on_the_cpu(target, None, wish(context=asked), with_reserve(room))
    assert remedy in refused.value.remedy


@pytest.mark.parametrize("name", ["qwen3.5-27b", "qwen3.5-4b", "qwen3-4b"])
def test_a_context_that_a_refusal_offers_fits(name: str) -> None:
    """Recurrent states and workspace take their part whatever the context is."""
    found = RandomModel.published(name, "q4_0").facts
    free = with_reserve(found.footprint.weight_bytes + GIB)
    with pytest.raises(OutOfMemory, match="of memory here") as refused:
        on_the_cpu(found, None, wish(Mode.PLAIN, found.max_positions), free)
    offered = re.search(r"a context of at most ([\d,]+) tokens", refused.value.remedy)
    assert offered is not None
    tokens = int(offered[1].replace(",", ""))
    assert on_the_cpu(found, None, wish(Mode.PLAIN, tokens), free).context == tokens
    with pytest.raises(OutOfMemory):
        on_the_cpu(found, None, wish(Mode.PLAIN, tokens * 16 // 15), free)


def test_a_chosen_context_is_planned_to_the_byte() -> None:
    enough = 4 * GIB + (8192 + MAX_TREE) * 64 * KIB
    made = on_the_cpu(TARGET, None, wish(context=8192), with_reserve(enough))
    assert (made.context, made.on(CPU).total) == (8192, enough)
    assert not any("cut to" in reason for reason in made.reasons)
    with pytest.raises(OutOfMemory):
        on_the_cpu(TARGET, None, wish(context=8192), with_reserve(enough - 40))


def test_a_draft_counts() -> None:
    made = on_the_cpu(TARGET, DRAFT, replace(ANYTHING, forced=True), 64 * GIB)
    assert made.on(CPU).draft == GIB
    assert made.on(CPU).kv == (8192 + MAX_TREE) * 64 * KIB + (4096 + MAX_TREE) * 16 * KIB
    with pytest.raises(OutOfMemory, match=r"needs 5\.2 GiB"):
        on_the_cpu(TARGET, DRAFT, replace(ANYTHING, forced=True), 5 * GIB)


def test_a_draft_that_nobody_asked_for_makes_way() -> None:
    made = on_the_cpu(TARGET, DRAFT, ANYTHING, with_reserve(5 * GIB))
    assert (made.draft, made.lookup, made.context) == (None, True, 4096)
    assert any("Draft was left out: it does not fit" in reason for reason in made.reasons)


@pytest.mark.parametrize("context", [-1, 0, 8193])
def test_a_context_out_of_range(context: int) -> None:
    with pytest.raises(UserFixable, match=f"context of {context} tokens .* up to 8192"):
        on_the_cpu(TARGET, None, wish(context=context), 64 * GIB)


@pytest.mark.parametrize("mode", [Mode.DOVETAIL, Mode.DUO])
def test_modes_of_a_card(mode: Mode) -> None:
    with pytest.raises(Absent, match=f"“{mode}” needs a GPU"):
        on_the_cpu(TARGET, DRAFT, wish(mode), 64 * GIB)


@pytest.mark.parametrize(
    ("draft", "asked", "mode", "chosen", "words"),
    [
        (CHEAP, wish(lookup=True), Mode.CPU, 0, "Draft and the conversation"),
        (CHEAP, wish(), Mode.CPU, 0, "Draft proposes tokens."),
        (None, wish(lookup=True), Mode.CPU, None, "The conversation itself (lookup)"),
        (None, wish(), Mode.PLAIN, None, "no draft was chosen"),
        (None, wish(Mode.PLAIN), Mode.PLAIN, None, "you asked for plain decoding"),
        (None, wish(Mode.PLAIN, lookup=True), Mode.PLAIN, None, "you asked for plain decoding"),
        (None, wish(Mode.CPU), Mode.PLAIN, None, "no draft was chosen"),
    ],
)
def test_modes_and_their_reasons(
    draft: ModelFacts | None, asked: Wish, mode: Mode, chosen: int | None, words: str
) -> None:
    made = on_the_cpu(TARGET, draft, asked, 64 * GIB)
    assert (made.mode, made.draft) == (mode, chosen)
    drafting = mode is Mode.CPU
    assert made.draft_device == (CPU if drafting else None)
    assert made.lookup == (drafting and asked.lookup)
    assert made.target == (Share(CPU, range(1), embeds=True, heads=True),)
    assert any(words in reason for reason in made.reasons)
    assert "4.00 GiB" in made.reasons[0]
    assert any("If drafting does not pay" in reason for reason in made.reasons) == drafting


def test_a_draft_that_would_not_pay_is_left_out_unless_asked_for() -> None:
    made = on_the_cpu(TARGET, DRAFT, wish(), 64 * GIB)
    assert (made.mode, made.draft, made.on(CPU).draft) == (Mode.PLAIN, None, 0)
    assert any("drafting with it would give 0." in reason for reason in made.reasons)
    made = on_the_cpu(TARGET, DRAFT, wish(forced=True), 64 * GIB)
    assert (made.mode, made.draft) == (Mode.CPU, 0)


@pytest.mark.parametrize(("weights", "expected"), [(8 * MIB, 4e3), (32 * MIB, 1e3)])
def test_a_small_target_is_predicted_by_speeds_of_its_own(weights: int, expected: float) -> None:
    large = DeviceSpeeds(CPU, 1e15, {}, block_s=1e-3)
    speeds = Speeds({CPU: replace(large, small=replace(large, block_s=0.25e-3))})
    target = model("Target", WeightFormat.Q8, weights, KIB, 1024, kind="Q8_0")
    machine = Machine(Host(4, 16 * GIB, 8 * GIB))
    found = plan(machine, speeds, target, [], wish()).plain_tokens_per_s
    assert found == pytest.approx(expected, rel=1e-3)


def test_a_forced_draft_is_not_said_to_stop() -> None:
    made = on_the_cpu(TARGET, DRAFT, wish(Mode.CPU, forced=True), 64 * GIB)
    assert not any("does not pay" in reason for reason in made.reasons)


def test_the_footprint_of_a_known_model() -> None:
    """Llama 3.1 8B: 8,030,261,248 parameters; 2 x 32 layers x 8 heads x 128 numbers per token."""
    config = parse_config(
        {
            "model_type": "llama",
            "vocab_size": 128256,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        }
    )
    numbers, vectors = 2 * 32 * 8 * 128, 65 * 4096
    bytes_per_weight = {"f32": 4, "bf16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}
    for name, expected in bytes_per_weight.items():
        size = footprint(config, WeightFormat(name))
        assert size.weight_bytes == expected * (8_030_261_248 - vectors) + 4 * vectors
        assert size.kv_bytes_per_token == numbers * (4 if name == "f32" else 2)
    assert KV_SHARE < 1


def test_wished_threads_are_planned() -> None:
    asked = replace(ANYTHING, threads=3)
    assert on_the_cpu(TARGET, None, asked, with_reserve(64 * GIB)).threads == 3
    assert on_the_cpu(TARGET, None, ANYTHING, with_reserve(64 * GIB)).threads is None
