"""The places of canonical tensors in files: whole, as rows of a fused tensor, or transposed.

Two kinds of files name and arrange tensors differently: safetensors as Hugging Face's classes do,
GGUF as llama.cpp does. See `engine.model.tensors` for the canonical names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from engine.model.config import BlockConfig, ModelConfig
from engine.model.tensors import EMBEDDING, FINAL_NORM, HEAD, Shape

FileKind = Literal["safetensors", "gguf"]


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A canonical tensor as a part of a stored one, and the steps that make it out of that.

    A stored tensor of three dimensions counts as a matrix: one expert's rows below the other's. Of
    a vector, rows are single numbers, also where a stored matrix holds one vector per row.

    Attributes:
        stored: name of the stored tensor.
        whole: its shape, if the file is what it should be.
        shape: of the canonical tensor.
        first: its first row.
        step: from one of its rows to the next.
        pairs: heads whose rows lie as neighbouring pairs (0, half, 1, half + 1, ...) because
            llama.cpp rotates neighbours where Hugging Face rotates halves; 0: in order.
        plus_one: the factors of a norm are stored less one.
        groups: rows in groups of so many, of which ranges (first row, rows) are taken: one range
            out of all groups, then the next.
        log_rate: of the rates of a decay the logarithm of their magnitude is stored.
        transposed: stored with rows and columns exchanged, expert by expert.
        scales: name of the tensor that holds the scales of MXFP4 blocks, with its shape.
    """

    stored: str
    whole: Shape
    shape: Shape
    first: int = 0
    step: int = 1
    pairs: int = 0
    groups: tuple[int, tuple[tuple[int, int], ...]] | None = None
    plus_one: bool = False
    log_rate: bool = False
    transposed: bool = False
    scales: tuple[str, Shape] | None = None

    @property
    def tensors(self) -> tuple[tuple[str, Shape], ...]:
        """Names and shapes of all stored tensors it is read from."""
        main = (self.stored, self.whole)
        return (main,) if self.scales is None else (main, self.scales)


_PLACE = re.compile(r"(?P<block>model\.layers\.(?P<index>\d+)\.)(?P<rest>.+)\.(?P<leaf>\w+)")
_EXPERT = re.compile(r"mlp\.experts\.(?P<expert>\d+)\.(?P<which>gate|up|down)_proj")
_FUSED = {"q", "k", "v", "gate", "up"}
Places = Callable[[ModelConfig, str, Shape], Iterator[StoredPart]]


def safetensors_places(config: ModelConfig, name: str, shape: Shape) -> Iterator[StoredPart]:
    """Yield the places where a safetensors file may hold a tensor, the likeliest first.

    Args:
        config: of the model.
        name: canonical name of the tensor.
        shape: its shape.
    """
    if config.family in QWEN3_5:
        yield from _qwen3_5(config, name, shape)
        return
    norm = name.endswith("norm.weight") and config.family.startswith("gemma")
    if config.family == "qwen3_moe":
        name = name.replace(".mlp.router.", ".mlp.gate.")
    plain = StoredPart(name, shape, shape, plus_one=norm)
    match = _PLACE.fullmatch(name)
    if match is None:
        yield plain
        return
    expert = _EXPERT.fullmatch(match["rest"])
    if config.family == "phi3" and match["rest"].endswith("_proj"):
        yield _phi3(config, plain, match)
    elif expert and config.family == "gpt_oss":
        yield from _gpt_oss(config, plain, f"{match['block']}mlp.experts.", expert, match["leaf"])
    elif expert:
        yield plain
        yield _stacked(config, plain, f"{match['block']}mlp.experts.", expert)
    else:
        yield plain


def _qwen3_5(config: ModelConfig, name: str, shape: Shape) -> Iterator[StoredPart]:
    """Yield parts in Qwen3.5's layout; the norm inside a delta layer alone is stored as it is."""
    plain = StoredPart(name.replace(".mlp.router.", ".mlp.gate."), shape, shape)
    match = _PLACE.fullmatch(name)
    if fused := _qwen3_next(config, name):
        yield fused
    elif name.endswith("linear_attn.rate"):
        yield replace(plain, stored=name.replace(".rate", ".A_log"), log_rate=True)
    elif name.endswith("conv1d.weight"):
        yield replace(plain, whole=(shape[0], 1, shape[1]))
    elif match and (expert := _EXPERT.fullmatch(match["rest"])):
        yield plain
        yield _stacked(config, plain, f"{match['block']}mlp.experts.", expert)
    else:
        inside = name.endswith("linear_attn.norm.weight")
        yield replace(plain, plus_one=name.endswith("norm.weight") and not inside)


def _qwen3_next(config: ModelConfig, name: str) -> StoredPart | None:
    """Return a projection in Qwen3-Next's layout, which fuses them key head by key head.

    A key head has its query, its key, the values and gates z of its value heads; in a second
    matrix their b and a.
    """
    block, _, which = name.rpartition("in_proj_")
    delta = next((own.delta for own in config.blocks if own.delta), None)
    if config.family != QWEN3_NEXT or delta is None or not block:
        return None
    keys, each = delta.key_dim, delta.value_heads // delta.key_heads
    values, fused = each * delta.value_dim, f"{block}in_proj_qkvz.weight"
    rows = 2 * keys + 2 * values
    taken = {
        "qkv.weight": ((0, keys), (keys, keys), (2 * keys, values)),
        "z.weight": ((2 * keys + values, values),),
        "b.weight": ((0, each),),
        "a.weight": ((each, each),),
    }[which]
    if which in ("b.weight", "a.weight"):
        rows, fused = 2 * each, f"{block}in_proj_ba.weight"
    heads = delta.key_heads
    return StoredPart(
        fused,
        (heads * rows, config.hidden_size),
        (heads * sum(count for _, count in taken), config.hidden_size),
        groups=(rows, taken),
    )


def _phi3(config: ModelConfig, plain: StoredPart, match: re.Match[str]) -> StoredPart:
    """Return a part in Phi-3's layout, which fuses queries, keys and values, and gate and up."""
    which = match["rest"].split(".")[1].removesuffix("_proj")
    if which not in _FUSED:
        return plain
    first, rows = _place_in_fused(config.blocks[int(match["index"])], which)
    fused = "self_attn.qkv_proj" if which in "qkv" else "mlp.gate_up_proj"
    stored = f"{match['block']}{fused}.weight"
    return replace(plain, stored=stored, whole=(rows, config.hidden_size), first=first)


def _place_in_fused(block: BlockConfig, which: str) -> tuple[int, int]:
    """First row within the fused matrix, and all its rows."""
    queries, keys = block.heads * block.head_dim, block.kv_heads * block.head_dim
    inner = block.inner
    first = {"q": 0, "k": queries, "v": queries + keys, "gate": 0, "up": inner}[which]
    return first, queries + 2 * keys if which in "qkv" else 2 * inner


def _stacked(
    config: ModelConfig, plain: StoredPart, place: str, match: re.Match[str]
) -> StoredPart:
    """All experts in one tensor, [experts, rows, columns], gate above up (Qwen3)."""
    expert, which = int(match["expert"]), match["which"]
    count, inner = _experts(config)
    rows, columns = plain.shape
    if which == "down":
        whole, first = (count, rows, columns), expert * rows
        return replace(plain, stored=f"{place}down_proj", whole=whole, first=first)
    first = expert * 2 * inner + inner * (which == "up")
    return replace(
        plain, stored=f"{place}gate_up_proj", whole=(count, 2 * inner, columns), first=first
    )


def _gpt_oss(
    config: ModelConfig, plain: StoredPart, place: str, match: re.Match[str], leaf: str
) -> Iterator[StoredPart]:
    """Gate and up by turns; MXFP4 in rows, 16 bit in columns."""
    expert, which = int(match["expert"]), match["which"]
    count, _ = _experts(config)
    down = which == "down"
    step = 1 if down else 2
    rows = plain.shape[0] * step
    name = f"{place}{'down' if down else 'gate_up'}_proj"
    part = replace(plain, first=expert * rows + (which == "up"), step=step)
    if leaf == "bias":
        yield replace(part, stored=f"{name}_bias", whole=(count, rows))
        return
    columns = plain.shape[1]
    yield replace(
        part,
        stored=f"{name}_blocks",
        whole=(count, rows, columns // 32, 16),
        scales=(f"{name}_scales", (count, rows, columns // 32)),
    )
    yield replace(part, stored=name, whole=(count, columns, rows), transposed=True)


def _experts(config: ModelConfig) -> tuple[int, int]:
    """Count and inner size of the experts."""
    experts = next(block.experts for block in config.blocks if block.experts is not None)
    return experts.count, experts.intermediate_size


GGUF_LEAVES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.router": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
}
"""Tensors of a block by the ends of their canonical names, as GGUF files call them."""
WITH_OUTPUT_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
"""Those of families that norm what a block's halves add."""
GGUF_OUTSIDE = {
    EMBEDDING: "token_embd.weight",
    FINAL_NORM: "output_norm.weight",
    HEAD: "output.weight",
}
"""Tensors outside the blocks."""
GGUF_RATES = {"rate": "ssm_a", "dt_bias": "ssm_dt.bias"}
"""Vectors of a delta layer, whose names end in other words than "weight" and "bias"."""
QWEN3_NEXT = "qwen3_next"
QWEN3_5 = ("qwen3_5_text", "qwen3_5_moe_text", QWEN3_NEXT)
_PAIRED = ("llama", "mistral", "ministral", "smollm3")
"""Families whose queries and keys llama.cpp rotates by neighbouring pairs."""


def gguf_places(config: ModelConfig, name: str, shape: Shape) -> Iterator[StoredPart]:
    """Yield the places where a GGUF file may hold a tensor, the likeliest first.

    Args:
        config: of the model.
        name: canonical name of the tensor.
        shape: its shape.
    """
    if name in GGUF_OUTSIDE or name.startswith("fusion."):
        yield StoredPart(GGUF_OUTSIDE.get(name, name), shape, shape)
        return
    match = _PLACE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is no canonical name")
    block, leaf, rest = f"blk.{match['index']}.", match["leaf"], match["rest"]
    if expert := _EXPERT.fullmatch(rest):
        yield from _gguf_expert(config, block, leaf, expert, shape)
        return
    which = rest.rpartition(".")[2].removesuffix("_proj")
    own = config.blocks[int(match["index"])]
    plain = StoredPart(block + _gguf_name(config, rest, leaf), shape, shape)
    if rest in ("linear_attn.in_proj_b", "linear_attn.in_proj_a") and (
        by_head := _qwen3_next(config, name)
    ):
        yield replace(by_head, stored=f"{block}ssm_ba.weight")
    if rest == "mlp.shared_expert_gate":
        plain = replace(plain, whole=shape[1:])  # the one row is stored as a vector
    if config.family == "phi3" and which in ("gate", "up"):
        first, rows = _place_in_fused(own, which)
        fused = f"{block}ffn_up.weight"
        yield replace(plain, stored=fused, whole=(rows, config.hidden_size), first=first)
        return
    if config.family in _PAIRED and which in ("q", "k"):
        plain = replace(plain, pairs=own.heads if which == "q" else own.kv_heads)
    yield plain
    if which in ("q", "k", "v"):
        first, rows = _place_in_fused(own, which)
        fused = f"{block}attn_qkv.{leaf}"
        yield replace(plain, stored=fused, whole=(rows, *shape[1:]), first=first)


def _gguf_name(config: ModelConfig, rest: str, leaf: str) -> str:
    """A tensor's name within its block."""
    if leaf == "sinks":
        return "attn_sinks.weight"
    if config.output_norms and rest in WITH_OUTPUT_NORMS:
        return f"{WITH_OUTPUT_NORMS[rest]}.{leaf}"
    if leaf in GGUF_RATES:
        return GGUF_RATES[leaf]
    if config.family in ("gpt_oss", *QWEN3_5) and rest == "post_attention_layernorm":
        return "post_attention_norm.weight"
    return f"{GGUF_LEAVES[rest]}.{leaf}"


def _gguf_expert(
    config: ModelConfig, block: str, leaf: str, match: re.Match[str], shape: Shape
) -> Iterator[StoredPart]:
    """All experts in one tensor per matrix, or gate above up in one."""
    expert, which = int(match["expert"]), match["which"]
    count, inner = _experts(config)
    name, rows = f"{block}ffn_{which}_exps.{leaf}", shape[0]
    yield StoredPart(name, (count, *shape), shape, first=expert * rows)
    if which != "down":
        first = expert * 2 * inner + inner * (which == "up")
        name = f"{block}ffn_gate_up_exps.{leaf}"
        yield StoredPart(name, (count, 2 * inner, *shape[1:]), shape, first=first)


PLACES: dict[FileKind, Places] = {"safetensors": safetensors_places, "gguf": gguf_places}
