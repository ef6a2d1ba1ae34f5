"""A model as the tensors and metadata of a GGUF file, weight for weight the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isclose, log, prod

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import Format
from engine.backend.native.matrix import pack
from engine.backend.native.pool import shared_pool
from engine.backend.native.stretches import BLOCK, TYPES, ggml_rows
from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import Delta, ModelConfig, RopeConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.rope import longrope_attention_factor, rope_frequencies
from engine.model.tensors import expected_tensors
from engine.model.weights.parts import (
    GGUF_LEAVES,
    GGUF_OUTSIDE,
    GGUF_RATES,
    WITH_OUTPUT_NORMS,
)
from engine.model.weights.readable import Floats, Readable, Stretch, Weights

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "smollm3": "smollm3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe_text": "qwen35moe",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "phi3": "phi3",
    "gpt_oss": "gpt-oss",
}
"""llama.cpp's names of our families."""

_PERIODS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2}
"""Every so many blocks one has no window, the others have one: llama.cpp knows without a word."""

_PLAIN_PERIOD = 4
"""SmolLM3 rotates in all but every fourth block."""

_SECTIONS = [11, 11, 10, 0]
"""Qwen3.5 divides its rotation among the axes of a picture; text is the same whatever they are."""

Metadata = dict[str, str | int | float | list[int] | list[bool]]
Bytes = NDArray[np.uint8]

_OF_BLOCK = GGUF_LEAVES | {
    "self_attn.sinks": "attn_sinks",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
_PHI3 = {
    **{f"self_attn.{part}_proj": "attn_qkv" for part in "qkv"},
    "mlp.gate_proj": "ffn_up",
}
_NAMES = {
    "gemma2": _OF_BLOCK | WITH_OUTPUT_NORMS,
    "gemma3": _OF_BLOCK | WITH_OUTPUT_NORMS,
    "phi3": _OF_BLOCK | _PHI3,
    **dict.fromkeys(
        ("gpt-oss", "qwen35", "qwen35moe"),
        _OF_BLOCK | {"post_attention_layernorm": "post_attention_norm"},
    ),
}
"""Canonical names to those in GGUF. What has the same name there lies one below the other."""

_NEIGHBOURS = ("llama", "smollm3")
"""Families for which llama.cpp rotates neighbouring numbers; else halves, as we always do."""


class BlockWeights:
    """Weights as packing in one native format leaves them, told in ggml's blocks.

    Packing rounds every row by itself, so these are the weights that a decoder holds.
    """

    def __init__(self, config: ModelConfig, weights: Weights, fmt: Format) -> None:
        self._shapes = expected_tensors(config)
        self._weights, self._format = weights, fmt

    def float32(self, name: str) -> Floats:
        """The tensor as it was before; vectors are never packed."""
        return self._weights.float32(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._shapes[name]

    def kind(self, name: str) -> str:
        """Return the type of a tensor, in ggml's words."""
        return TYPES[self._format] if len(self._shapes[name]) == 2 else "F32"

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix in one piece.

        Raises:
            ValueError: ggml cannot hold rows of this length in blocks of 32.
        """
        packed = pack(shared_pool(), self._weights, [name], self._format)
        cols = packed.struct.cols
        if cols % BLOCK:
            raise ValueError(f"rows of {cols} weights do not divide into blocks of {BLOCK}")
        rows = ggml_rows(packed.struct, 0, packed.struct.rows)
        floats = self._format in (Format.BF16, Format.F16)
        yield rows.view(np.uint16) if floats else rows


def refused(why: str) -> UserFixable:
    """The error for a model that llama.cpp cannot have alike."""
    return UserFixable(
        tr("This model cannot be compared with llama.cpp: {why}.").format(why=why),
        tr("Measure it without --peer."),
    )


def architecture_of(config: ModelConfig) -> str:
    """llama.cpp's name of the family.

    Raises:
        UserFixable: it has none, or none with these features.
    """
    architecture = ARCHITECTURES.get(config.family)
    if architecture is None:
        raise refused(tr("its family is “{family}”").format(family=config.family))
    blocks = range(config.num_layers)
    period = _PERIODS.get(architecture)
    windows = [period is not None and n % period < period - 1 for n in blocks]
    if period is not None and windows != [block.window > 0 for block in config.blocks]:
        raise refused(tr("its sliding windows are in other blocks than in llama.cpp"))
    plain = [architecture == "smollm3" and n % _PLAIN_PERIOD == _PLAIN_PERIOD - 1 for n in blocks]
    if plain != [block.rope is None and block.delta is None for block in config.blocks]:
        raise refused(tr("other blocks than in llama.cpp have no positions"))
    if any(block.delta and _grouped(block.delta) for block in config.blocks):
        raise refused(tr("the heads of its states are in another order"))
    if config.uneven or len({block.inner for block in config.blocks}) > 1:
        raise refused(tr("its blocks differ in size"))
    own = config.typical
    if not isclose(own.attention_scale, own.head_dim**-0.5, rel_tol=1e-6):
        raise refused(tr("its attention scale differs from llama.cpp's"))
    return architecture


def _grouped(delta: Delta) -> bool:
    """Tell whether value heads of one key head lie side by side, as in safetensors."""
    return not delta.tiled and delta.key_heads < delta.value_heads


def metadata_of(config: ModelConfig) -> Metadata:
    """The pairs of the file, without a vocabulary.

    Raises:
        UserFixable: as `architecture_of`, and for positions that GGUF cannot describe.
    """
    architecture, block = architecture_of(config), config.typical
    own: Metadata = {
        "context_length": config.max_positions,
        "embedding_length": config.hidden_size,
        "block_count": config.num_layers,
        "feed_forward_length": block.inner,
        "attention.head_count": block.heads,
        "attention.head_count_kv": block.kv_heads,
        "attention.key_length": block.head_dim,
        "attention.value_length": block.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "vocab_size": config.vocab_size,
        **_positions(config),
        **_extras(config, architecture),
    }
    prefixed = {f"{architecture}.{key}": value for key, value in own.items()}
    # Tokens go in and logits come out as numbers: llama.cpp needs no words.
    return {**prefixed, "tokenizer.ggml.model": "none"}


def main_rope(config: ModelConfig) -> RopeConfig:
    """Return the rotation of the blocks without windows, which the file describes first."""
    ropes = [(block.window, block.rope) for block in config.blocks if block.rope is not None]
    return min(ropes, key=lambda pair: pair[0] > 0)[1]


def _extras(config: ModelConfig, architecture: str) -> Metadata:
    """Keys that only some families have."""
    own: Metadata = {}
    if architecture in _PERIODS:
        own["attention.sliding_window"] = max(block.window for block in config.blocks)
    if config.attention_softcap:
        own["attn_logit_softcapping"] = config.attention_softcap
    if config.logit_softcap:
        own["final_logit_softcapping"] = config.logit_softcap
    if experts := config.blocks[0].experts:
        own["expert_count"] = experts.count
        own["expert_used_count"] = experts.used
        own["expert_feed_forward_length"] = experts.intermediate_size
        if experts.shared:
            own["expert_shared_feed_forward_length"] = experts.intermediate_size
    if delta := next((block.delta for block in config.blocks if block.delta), None):
        own |= {
            "rope.dimension_sections": _SECTIONS,
            "attention.recurrent_layers": [block.delta is not None for block in config.blocks],
            "ssm.conv_kernel": delta.width,
            "ssm.state_size": delta.key_dim,
            "ssm.group_count": delta.key_heads,
            "ssm.time_step_rank": delta.value_heads,
            "ssm.inner_size": delta.mixed,
        }
    return own


def _positions(config: ModelConfig) -> Metadata:
    rope = main_rope(config)
    own: Metadata = {"rope.dimension_count": rope.dim, "rope.freq_base": rope.theta}
    local = next((block.rope for block in config.blocks if block.window and block.rope), rope)
    if local.theta != rope.theta:
        own["rope.freq_base_swa"] = local.theta
    if rope.kind in ("none", "llama3"):  # llama3's frequencies are a tensor
        return own
    original = {"rope.scaling.original_context_length": rope.original_max_positions}
    if rope.kind == "linear":
        return own | {"rope.scaling.type": "linear", "rope.scaling.factor": rope.factor}
    if rope.kind == "longrope":
        return own | original | {"rope.scaling.attn_factor": longrope_attention_factor(rope)}
    if rope.kind == "yarn":
        usual = 0.1 * log(rope.factor) + 1
        return own | {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": rope.factor,
            **original,
            "rope.scaling.attn_factor": (rope.attention_factor or usual) / usual,
            "rope.scaling.yarn_beta_fast": rope.beta_fast,
            "rope.scaling.yarn_beta_slow": rope.beta_slow,
        }
    raise refused(tr("its RoPE scaling “{kind}” cannot be exported").format(kind=rope.kind))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file; `read` gives its bytes piece by piece, made when they are needed.

    Attributes:
        shape: in weights, rows first; a matrix per expert makes three dimensions.
        kind: ggml's name of the type.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    read: Callable[[], Iterator[Bytes]]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        kind = KIND_OF_NAME[self.kind]
        return prod(self.shape) // kind.numbers * kind.nbytes


@dataclass(frozen=True, slots=True)
class Export:
    """Contents of the file: flat metadata, and the tensors in file order."""

    architecture: str
    metadata: Metadata
    tensors: tuple[Tensor, ...]


def export(config: ModelConfig, weights: Readable) -> Export:
    """Return the contents of a GGUF file with these very weights.

    Raises:
        UserFixable: llama.cpp cannot have the same model.
    """
    architecture = architecture_of(config)
    stacks: dict[str, list[str]] = defaultdict(list)
    for name, stored in gguf_names(config).items():
        stacks[stored].append(name)
    tensors = [_tensor(config, weights, name, parts) for name, parts in stacks.items()]
    tensors += _rope_factors(config)
    return Export(architecture, metadata_of(config), tuple(tensors))


def gguf_names(config: ModelConfig) -> dict[str, str]:
    """Canonical name -> the tensor that it is in, or is a part of, in GGUF."""
    names = _NAMES.get(architecture_of(config), _OF_BLOCK)
    return {name: _gguf_name(name, names) for name in expected_tensors(config)}


def _gguf_name(name: str, names: dict[str, str]) -> str:
    if name in GGUF_OUTSIDE:
        return GGUF_OUTSIDE[name]
    words = name.removeprefix("model.layers.").split(".")
    ending = words.pop() if words[-1] in ("weight", "bias") else "weight"
    part = ".".join(word for word in words[1:] if not word.isdigit())
    if (rate := part.removeprefix("linear_attn.")) in GGUF_RATES:
        return f"blk.{words[0]}.{GGUF_RATES[rate]}"
    return f"blk.{words[0]}.{names[part]}.{ending}"


def _tensor(config: ModelConfig, weights: Readable, name: str, parts: Sequence[str]) -> Tensor:
    shapes = [weights.shape(part) for part in parts]
    matrix = len(shapes[0]) == 2
    kinds = {weights.kind(part) if matrix else "F32" for part in parts}
    if len(kinds) > 1:
        raise refused(tr("matrices that llama.cpp fuses have different types"))
    kind = kinds.pop()
    if shapes[0][-1] % KIND_OF_NAME[kind].numbers and matrix:
        raise refused(tr("its rows do not divide into blocks"))
    shape = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    if ".experts." in parts[0]:
        shape = (len(parts), *shapes[0])
    if parts[0].endswith("shared_expert_gate.weight"):
        shape = shapes[0][1:]
    heads = _turned_heads(config, parts[0])

    def read() -> Iterator[Bytes]:
        for part in parts:
            stretches = weights.stretches(part) if matrix else [weights.float32(part)]
            if not heads:
                yield from (_bytes(stretch) for stretch in stretches)
                continue
            rows = np.concatenate([np.array(stretch) for stretch in stretches])
            yield _bytes(_neighbours(rows, heads))

    return Tensor(name, shape, kind, read)


def _bytes(rows: NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)


def _turned_heads(config: ModelConfig, name: str) -> int:
    """Heads whose rows go side by side: row i of each half."""
    if architecture_of(config) not in _NEIGHBOURS:
        return 0
    if ".q_proj." in name:
        return config.typical.heads
    return config.typical.kv_heads if ".k_proj." in name else 0


def _neighbours(rows: NDArray[np.generic], heads: int) -> NDArray[np.generic]:
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def _rope_factors(config: ModelConfig) -> Iterator[Tensor]:
    """Tensors of the numbers that llama.cpp divides the plain frequencies by."""
    rope = main_rope(config)
    if rope.kind == "llama3":
        exponents = np.arange(0, rope.dim, 2) / rope.dim
        yield _factors("rope_freqs", rope.theta**-exponents / rope_frequencies(rope)[0])
    if rope.kind == "longrope":
        yield _factors("rope_factors_long", np.array(rope.long_factors))
        yield _factors("rope_factors_short", np.array(rope.short_factors))


def _factors(name: str, values: NDArray[np.floating]) -> Tensor:
    data = _bytes(values.astype(np.float32))
    return Tensor(f"{name}.weight", (len(values),), "F32", lambda: iter([data]))
