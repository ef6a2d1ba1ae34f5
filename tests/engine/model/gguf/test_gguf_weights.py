"""Canonical weights out of a GGUF file, as llama.cpp's converter writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf_files import F32, TEXT, U32, Info, header, padded, pair
from numpy.typing import NDArray

from engine.model.gguf.config import model_config
from engine.model.gguf.file import open_gguf
from engine.model.weights.model_weights import ModelWeights

HIDDEN, INNER, HEADS, KV_HEADS, ROWS = 32, 48, 4, 2, 40
HEAD_DIM = HIDDEN // HEADS
NUMBERS = {
    "block_count": (U32, 1),
    "context_length": (U32, 64),
    "embedding_length": (U32, HIDDEN),
    "feed_forward_length": (U32, INNER),
    "attention.head_count": (U32, HEADS),
    "attention.head_count_kv": (U32, KV_HEADS),
    "attention.layer_norm_rms_epsilon": (F32, 1e-5),
}
SHAPES = {
    "model.embed_tokens.weight": (ROWS, HIDDEN),
    "model.norm.weight": (HIDDEN,),
    "model.layers.0.input_layernorm.weight": (HIDDEN,),
    "model.layers.0.post_attention_layernorm.weight": (HIDDEN,),
    "model.layers.0.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
    "model.layers.0.self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "model.layers.0.self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "model.layers.0.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
    "model.layers.0.self_attn.q_proj.bias": (HIDDEN,),
    "model.layers.0.self_attn.k_proj.bias": (KV_HEADS * HEAD_DIM,),
    "model.layers.0.self_attn.v_proj.bias": (KV_HEADS * HEAD_DIM,),
    "model.layers.0.self_attn.o_proj.bias": (HIDDEN,),
    "model.layers.0.mlp.gate_proj.weight": (INNER, HIDDEN),
    "model.layers.0.mlp.up_proj.weight": (INNER, HIDDEN),
    "model.layers.0.mlp.down_proj.weight": (HIDDEN, INNER),
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def stored_name(name: str) -> str:
    stem, _, leaf = name.rpartition(".")
    inside = stem.removeprefix("model.layers.0.")
    return ("blk.0." if inside != stem else "") + f"{NAMES[inside]}.{leaf}"


def paired(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of heads as llama.cpp wants them: number i beside number i + half."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def write(file: Path, tensors: dict[str, NDArray[np.float32]]) -> None:
    pairs = [pair("general.architecture", TEXT, "llama")]
    pairs += [pair(f"llama.{key}", kind, number) for key, (kind, number) in NUMBERS.items()]
    infos, data = [], b""
    for name, values in tensors.items():
        infos.append(Info(name, values.shape[::-1], 0, len(data)))
        data += values.tobytes()
        data += bytes(-len(data) % 32)
    file.write_bytes(padded(header(pairs, infos), data))


@pytest.mark.parametrize("fused", [False, True])
def test_heads_in_pairs_and_fused(tmp_path: Path, fused: bool) -> None:
    rng = np.random.default_rng(3)
    wanted = {name: rng.random(shape, dtype=np.float32) for name, shape in SHAPES.items()}
    stored = {stored_name(name): values for name, values in wanted.items()}
    for leaf in ("weight", "bias"):
        q, k, v = (f"blk.0.attn_{part}.{leaf}" for part in "qkv")
        stored[q], stored[k] = paired(stored[q], HEADS), paired(stored[k], KV_HEADS)
        if fused:
            parts = [stored.pop(name) for name in (q, k, v)]
            stored[f"blk.0.attn_qkv.{leaf}"] = np.concatenate(parts)
    write(tmp_path / "m.gguf", stored)
    file = open_gguf(tmp_path / "m.gguf")
    weights = ModelWeights.open(model_config(file), file.reader(), "gguf")
    assert set(weights.names()) == set(SHAPES)
    for name, values in wanted.items():
        np.testing.assert_array_equal(weights.float32(name), values, err_msg=name)
