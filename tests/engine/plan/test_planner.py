"""Facts in, a plan out: what fits, how much context, and the reasons in words."""

from __future__ import annotations

import pytest

from engine.commands import Mode, WeightFormat
from engine.errors import Absent, UserFixable
from engine.model.config import ModelConfig
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Footprint, Part, Widths, footprint
from engine.plan.machine import CPU, Host, Machine
from engine.plan.plan import Plan, Share
from engine.plan.planner import GIB, KV_SHARE, SMALLEST_CONTEXT, plan
from engine.plan.speeds import Speeds

KIB = 2**10


def model(name: str, fmt: WeightFormat, weights: int, kv: int, positions: int) -> ModelFacts:
    """A model of one block."""
    block = Part((("F32", weights),))
    held = Footprint(
        fmt, Part(), (block,), Part(), tied=False, kv_bytes_per_block=kv, widths=Widths()
    )
    return ModelFacts(name, held, positions)


TARGET = model("Target", WeightFormat.F32, 4 * GIB, 64 * KIB, 8192)
DRAFT = model("Draft", WeightFormat.Q8, GIB, 16 * KIB, 4096)
ANYTHING = Wish(Mode.AUTO, None, lookup=True, forced=False)


def on_the_cpu(target: ModelFacts, draft: ModelFacts | None, asked: Wish, free: int) -> Plan:
    """A plan for a machine with so many free bytes and no accelerator."""
    drafts = [DraftFacts(draft, 0.7)] if draft else []
    return plan(Machine(Host(2, free, free)), Speeds({}), target, drafts, asked)


def wish(mode: Mode = Mode.AUTO, context: int | None = None, **more: bool) -> Wish:
    return Wish(mode, context, **{"lookup": False, "forced": False, **more})


@pytest.mark.parametrize(
    ("free", "context"),
    [
        (64 * GIB, 8192),  # all of it
        (4 * GIB + 2 * GIB, 8192),  # a quarter of the 2 GiB left: 0.5 GiB / 64 KiB, just so
        (4 * GIB + GIB, 4096),
        (4 * GIB + GIB // 4, 1024),
        (4 * GIB + 32 * 2**20, SMALLEST_CONTEXT),  # its share would be 128 tokens
        (4 * GIB + 16 * 2**20, SMALLEST_CONTEXT),  # the last that fits
    ],
)
def test_the_context_takes_a_share_of_what_is_free(free: int, context: int) -> None:
    made = on_the_cpu(TARGET, None, ANYTHING, free)
    assert made.context == context
    assert made.on(CPU).kv == context * 64 * KIB
    assert made.on(CPU).total <= free
    cut = any("cut to" in reason for reason in made.reasons)
    assert cut == (context < TARGET.max_positions)


@pytest.mark.parametrize(
    ("free", "asked", "needs"),
    [
        (4 * GIB + 15 * 2**20, None, "4.0 GiB"),
        (GIB, None, "4.0 GiB"),
        (0, None, "4.0 GiB"),
        (4 * GIB + GIB // 2 - 1, 8192, "4.5 GiB"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(
    free: int, asked: int | None, needs: str
) -> None:
    with pytest.raises(UserFixable) as refused:
        on_the_cpu(TARGET, None, wish(context=asked), free)
    assert not isinstance(refused.value, Absent)
    assert refused.value.cause == (
        f"Target needs {needs} of memory here, and {free / GIB:.1f} GiB are free."
    )
    assert "smaller model" in refused.value.remedy


def test_a_chosen_context_is_planned_to_the_byte() -> None:
    enough = 4 * GIB + GIB // 2
    made = on_the_cpu(TARGET, None, wish(context=8192), enough)
    assert (made.context, made.on(CPU).total) == (8192, enough)
    assert not any("cut to" in reason for reason in made.reasons)


def test_a_draft_counts() -> None:
    made = on_the_cpu(TARGET, DRAFT, ANYTHING, 64 * GIB)
    assert made.on(CPU).draft == GIB
    assert made.on(CPU).kv == 8192 * 80 * KIB
    with pytest.raises(UserFixable, match=r"needs 5\.0 GiB"):
        on_the_cpu(TARGET, DRAFT, ANYTHING, 5 * GIB)
    assert on_the_cpu(TARGET, None, ANYTHING, 5 * GIB).context == 4096


@pytest.mark.parametrize("context", [-1, 0, 8193])
def test_a_context_out_of_range(context: int) -> None:
    with pytest.raises(UserFixable, match=f"context of {context} tokens .* up to 8192"):
        on_the_cpu(TARGET, None, wish(context=context), 64 * GIB)


@pytest.mark.parametrize("mode", [Mode.DOVETAIL, Mode.DUO])
def test_modes_of_a_card(mode: Mode) -> None:
    with pytest.raises(Absent, match=f"“{mode}” needs a graphics card"):
        on_the_cpu(TARGET, DRAFT, wish(mode), 64 * GIB)


@pytest.mark.parametrize(
    ("draft", "asked", "mode", "chosen", "words"),
    [
        (DRAFT, wish(lookup=True), Mode.CPU, 0, "Draft and the conversation"),
        (DRAFT, wish(), Mode.CPU, 0, "Draft proposes tokens."),
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


def test_a_forced_draft_is_not_said_to_stop() -> None:
    made = on_the_cpu(TARGET, DRAFT, wish(Mode.CPU, forced=True), 64 * GIB)
    assert not any("does not pay" in reason for reason in made.reasons)


def test_the_footprint_of_a_known_model() -> None:
    """Llama 3.1 8B: 8,030,261,248 parameters; 2 x 32 layers x 8 heads x 128 numbers per token."""
    config = ModelConfig.from_json(
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
