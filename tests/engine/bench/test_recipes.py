"""llama.cpp's mixtures, against cases worked out by hand from its rules."""

from __future__ import annotations

import pytest
from peer_models import small_config

from engine.bench.recipes import UNIFORM, fitting, tensor_kinds
from engine.bench.shapes import SHAPES, shape
from engine.model.config import ModelConfig
from engine.model.families import parse_config

EIGHTH_OF_32 = {0, 1, 2, 3, 28, 29, 30, 31}
THIRDS_OF_32 = {6, 9, 12, 15, 18, 21, 24, 27}


def of_blocks(config: ModelConfig, recipe: str, part: str) -> list[str]:
    kinds = tensor_kinds(config, recipe)
    return [kinds[f"model.layers.{n}.{part}.weight"] for n in range(config.num_layers)]


def with_blocks(name: str, blocks: int) -> ModelConfig:
    return parse_config({**SHAPES[name], "num_hidden_layers": blocks})


@pytest.mark.parametrize(("recipe", "base"), [("q4_k_m", "Q4_K"), ("q5_k_m", "Q5_K")])
def test_more_bits_at_both_ends_and_in_every_third_block(recipe: str, base: str) -> None:
    config = with_blocks("llama2-7b", 32)
    wanted = ["Q6_K" if n in EIGHTH_OF_32 | THIRDS_OF_32 else base for n in range(32)]
    assert of_blocks(config, recipe, "self_attn.v_proj") == wanted
    assert of_blocks(config, recipe, "mlp.down_proj") == wanted
    for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.o_proj", "mlp.up_proj"):
        assert set(of_blocks(config, recipe, part)) == {base}
    kinds = tensor_kinds(config, recipe)
    assert (kinds["model.embed_tokens.weight"], kinds["lm_head.weight"]) == (base, "Q6_K")


def test_few_blocks() -> None:
    config = with_blocks("llama2-7b", 6)  # an eighth is no block, seven eighths are five
    wanted = ["Q4_K", "Q4_K", "Q6_K", "Q4_K", "Q4_K", "Q6_K"]
    assert of_blocks(config, "q4_k_m", "mlp.down_proj") == wanted


def test_smaller_mixtures() -> None:
    config = with_blocks("llama2-7b", 32)
    first = {n: ["Q5_K"] * n + ["Q4_K"] * (32 - n) for n in (2, 4)}
    assert of_blocks(config, "q3_k_m", "self_attn.v_proj") == first[2]
    assert of_blocks(config, "q3_k_m", "mlp.down_proj") == first[2]
    assert set(of_blocks(config, "q3_k_m", "self_attn.o_proj")) == {"Q4_K"}
    assert set(of_blocks(config, "q3_k_m", "mlp.gate_proj")) == {"Q3_K"}
    assert of_blocks(config, "q4_k_s", "self_attn.v_proj") == first[4]
    assert of_blocks(config, "q4_k_s", "mlp.down_proj") == first[4]
    assert set(of_blocks(config, "q4_k_s", "mlp.up_proj")) == {"Q4_K"}


def test_rows_that_do_not_divide_by_256() -> None:
    config = shape("qwen2.5-0.5b")  # rows of 896, but of 4864 = 19 * 256 in the last product
    kinds = tensor_kinds(config, "q4_k_m")
    assert kinds["model.embed_tokens.weight"] == "Q8_0"
    more = {0, 1, 2, 5, 8, 11, 14, 17, 20, 21, 22, 23}
    values = ["Q8_0" if n in more else "Q5_0" for n in range(24)]
    assert of_blocks(config, "q4_k_m", "self_attn.v_proj") == values
    assert set(of_blocks(config, "q4_k_m", "mlp.gate_proj")) == {"Q5_0"}
    down = ["Q6_K" if n in more else "Q4_K" for n in range(24)]
    assert of_blocks(config, "q4_k_m", "mlp.down_proj") == down
    assert set(of_blocks(config, "q5_k_m", "self_attn.q_proj")) == {"Q5_1"}
    assert set(of_blocks(config, "q3_k_m", "self_attn.q_proj")) == {"Q4_0"}


def test_types_for_other_rows() -> None:
    assert [fitting("IQ4_XS", cols) for cols in (512, 96, 40)] == ["IQ4_XS", "IQ4_NL", "F16"]
    assert [fitting("Q8_0", cols) for cols in (96, 40)] == ["Q8_0", "F16"]
    assert fitting("BF16", 41) == "BF16"


def test_tied_matrices_follow_the_output() -> None:
    tied = shape("llama3.2-1b")
    assert tensor_kinds(tied, "q4_k_m")["model.embed_tokens.weight"] == "Q6_K"
    assert tensor_kinds(tied, "q4_k")["model.embed_tokens.weight"] == "Q4_K"


def test_uniform_formats_have_one_type() -> None:
    config = small_config("llama", hidden_size=256, intermediate_size=512)
    for wanted in UNIFORM:
        assert set(tensor_kinds(config, wanted).values()) == {wanted.upper()}
