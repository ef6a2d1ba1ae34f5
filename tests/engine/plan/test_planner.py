"""Facts in, a plan out: what fits, how much context, and the reasons in words."""

from __future__ import annotations

import pytest

from engine.commands import Mode, WeightFormat
from engine.errors import Absent, UserFixable
from engine.model.config import ModelConfig
from engine.plan.footprint import Footprint, footprint
from engine.plan.planner import GIB, KV_SHARE, SMALLEST_CONTEXT, ModelFacts, Wish, plan

KIB = 2**10
TARGET = ModelFacts("Target", Footprint(WeightFormat.F32, 4 * GIB, 64 * KIB), 8192)
DRAFT = ModelFacts("Draft", Footprint(WeightFormat.Q8, GIB, 16 * KIB), 4096)
ANYTHING = Wish(Mode.AUTO, None, lookup=True, forced=False)


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
    made = plan(TARGET, None, ANYTHING, free, "s")
    assert made.context == context
    assert made.context_limit == TARGET.max_positions
    assert made.kv_bytes == context * 64 * KIB
    assert made.target_bytes + made.kv_bytes <= free
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
        plan(TARGET, None, wish(context=asked), free, "s")
    assert not isinstance(refused.value, Absent)
    assert refused.value.cause == (
        f"Target needs {needs} of memory here, and {free / GIB:.1f} GiB are free."
    )
    assert "smaller model" in refused.value.remedy


def test_a_chosen_context_is_planned_to_the_byte() -> None:
    enough = 4 * GIB + GIB // 2
    made = plan(TARGET, None, wish(context=8192), enough, "s")
    assert (made.context, made.target_bytes + made.kv_bytes) == (8192, enough)
    assert not any("cut to" in reason for reason in made.reasons)


def test_a_draft_counts() -> None:
    made = plan(TARGET, DRAFT, ANYTHING, 64 * GIB, "s")
    assert made.draft_bytes == GIB
    assert made.kv_bytes == 8192 * 80 * KIB
    with pytest.raises(UserFixable, match=r"needs 5\.0 GiB"):
        plan(TARGET, DRAFT, ANYTHING, 5 * GIB, "s")
    assert plan(TARGET, None, ANYTHING, 5 * GIB, "s").context == 4096


@pytest.mark.parametrize("context", [-1, 0, 8193])
def test_a_context_out_of_range(context: int) -> None:
    with pytest.raises(UserFixable, match=f"context of {context} tokens .* up to 8192"):
        plan(TARGET, None, wish(context=context), 64 * GIB, "s")


@pytest.mark.parametrize("mode", [Mode.DOVETAIL, Mode.DUO])
def test_modes_of_a_card(mode: Mode) -> None:
    with pytest.raises(Absent, match=f"“{mode}” needs a graphics card"):
        plan(TARGET, DRAFT, wish(mode), 64 * GIB, "s")


@pytest.mark.parametrize(
    ("draft", "asked", "mode", "name", "words"),
    [
        (DRAFT, wish(lookup=True), Mode.CPU, "Draft + lookup", "Draft and the conversation"),
        (DRAFT, wish(), Mode.CPU, "Draft", "Draft proposes tokens."),
        (None, wish(lookup=True), Mode.CPU, "lookup", "The conversation itself (lookup)"),
        (None, wish(), Mode.PLAIN, None, "no draft was chosen"),
        (None, wish(Mode.PLAIN), Mode.PLAIN, None, "you asked for plain decoding"),
        (None, wish(Mode.PLAIN, lookup=True), Mode.PLAIN, None, "you asked for plain decoding"),
        (None, wish(Mode.CPU), Mode.PLAIN, None, "no draft was chosen"),
    ],
)
def test_modes_and_their_reasons(
    draft: ModelFacts | None, asked: Wish, mode: Mode, name: str | None, words: str
) -> None:
    made = plan(TARGET, draft, asked, 64 * GIB, "signature")
    assert (made.mode, made.draft) == (mode, name)
    assert made.draft_device == (None if name is None else "CPU")
    assert (made.target_device, made.signature) == ("CPU", "signature")
    assert any(words in reason for reason in made.reasons)
    assert "4.00 GiB" in made.reasons[0]
    assert any("If drafting does not pay" in reason for reason in made.reasons) == bool(name)


def test_a_forced_draft_is_not_said_to_stop() -> None:
    made = plan(TARGET, DRAFT, wish(Mode.CPU, forced=True), 64 * GIB, "s")
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
    numbers = 2 * 32 * 8 * 128
    bytes_per_weight = {"f32": 4, "bf16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}
    for name, expected in bytes_per_weight.items():
        size = footprint(config, WeightFormat(name))
        assert size.weight_bytes == int(expected * 8_030_261_248)
        assert size.kv_bytes_per_token == numbers * (4 if name == "f32" else 2)
    assert KV_SHARE < 1
