"""A model as the tensors and metadata of a GGUF file, weight for weight the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.bench.peer.metadata import Metadata, architecture_of, main_rope, metadata_of, refused
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.rope import rope_frequencies
from engine.model.tensors import expected_tensors
from engine.model.weights.readable import Readable

Bytes = NDArray[np.uint8]

_WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_OF_BLOCK = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.sinks": "attn_sinks",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
_GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_PHI3 = {
    **{f"self_attn.{part}_proj": "attn_qkv" for part in "qkv"},
    "mlp.gate_proj": "ffn_up",
}
_NAMES = {
    "gemma2": _OF_BLOCK | _GEMMA,
    "gemma3": _OF_BLOCK | _GEMMA,
    "phi3": _OF_BLOCK | _PHI3,
    "gpt-oss": _OF_BLOCK | {"post_attention_layernorm": "post_attention_norm"},
}
"""Canonical names to those in GGUF. What has the same name there lies one below the other."""

_NEIGHBOURS = ("llama", "smollm3")
"""Families for which llama.cpp rotates neighbouring numbers; else halves, as we always do."""


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
    if name in _WHOLE:
        return _WHOLE[name]
    words = name.removeprefix("model.layers.").split(".")
    ending = words.pop() if words[-1] in ("weight", "bias") else "weight"
    part = ".".join(word for word in words[1:] if not word.isdigit())
    return f"blk.{words[0]}.{names[part]}.{ending}"


def _tensor(config: ModelConfig, weights: Readable, name: str, parts: Sequence[str]) -> Tensor:
    shapes = [weights.shape(part) for part in parts]
    matrix = len(shapes[0]) == 2
    kinds = {weights.kind(part) if matrix else "F32" for part in parts}
    if len(kinds) > 1:
        raise refused(tr("matrices that are one there have different types here"))
    kind = kinds.pop()
    if shapes[0][-1] % KIND_OF_NAME[kind].numbers and matrix:
        raise refused(tr("its rows do not divide into blocks"))
    shape = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    if ".experts." in parts[0]:
        shape = (len(parts), *shapes[0])
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
        return config.num_heads
    return config.num_kv_heads if ".k_proj." in name else 0


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
