"""Real models, 2,000 tokens teacher-forced: our log-probabilities against the exact ones.

The reference is transformers' own class with the same file's weights, dequantised to fp32, keys and
values in fp32 too. What is left is what activations in 8 bits and keys in 16 bits cost, and the
bounds lie a little above what the kernels give: a wrong scale, a lost bias, a swapped head shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backend.decoder import Decoder
from engine.backend.native.segment import NativeBackend
from engine.commands import WeightFormat
from engine.loading.inspected_model import InspectedModel
from engine.model.config import ModelConfig

pytestmark = pytest.mark.release(reason="forwards of real models over 2,000 tokens, twice")

TEXTS = ("data/copying.jsonl", "everyday_prompts.txt")
ROOT = Path(__file__).parents[2]
TOKENS, CHUNK = 2_000, 125
_ROOM = 16 << 30


@dataclass(frozen=True)
class Bound:
    """Mean KL divergence in nats and its most at a token, and how often the best token is one."""

    mean: float
    worst: float
    same: float


BOUNDS = {
    "starter": Bound(0.0025, 0.08, 0.975),
    "0.5b": Bound(0.00033, 0.005, 0.992),
    "1.5b": Bound(0.00032, 0.22, 0.995),
}


@pytest.fixture(params=BOUNDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(name: str, request: pytest.FixtureRequest, bench_models: Path) -> Path:
    """The file of a real model."""
    if name == "starter":
        return Path(request.getfixturevalue("starter"))
    found = bench_models / f"qwen2.5-coder-{name}-instruct-q4_k_m.gguf"
    if not found.exists():
        pytest.skip(f"{name} is not here: packaging/bench_models.py fetches it")
    return found


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))


def exact_model(file: Path) -> Any:
    """transformers' own class with the weights that the gguf package makes of a file, in fp32."""
    import gguf
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    reader = gguf.GGUFReader(file)
    kind = str(reader.get_field("general.architecture").contents())

    def said(key: str) -> Any:
        return reader.get_field(f"{kind}.{key}").contents()

    weights = {t.name: t for t in reader.tensors}
    shape = {
        "hidden_size": said("embedding_length"),
        "intermediate_size": said("feed_forward_length"),
        "num_hidden_layers": said("block_count"),
        "num_attention_heads": said("attention.head_count"),
        "num_key_value_heads": said("attention.head_count_kv"),
        "max_position_embeddings": said("context_length"),
        "rms_norm_eps": said("attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": said("rope.freq_base")},
        "vocab_size": int(weights["token_embd.weight"].shape[1]),
        "tie_word_embeddings": "output.weight" not in weights,
    }
    with torch.device("meta"):
        qwen = kind == "qwen2"
        model = (Qwen2ForCausalLM if qwen else LlamaForCausalLM)(
            (Qwen2Config if qwen else LlamaConfig)(**shape)
        )
    model = model.to_empty(device="cpu").float().eval()
    model.tie_weights()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            stored = weights[stored_name(name)]
            values = gguf.dequantize(stored.data, stored.tensor_type).astype(np.float32)
            heads = shape["num_key_value_heads" if "k_proj" in name else "num_attention_heads"]
            if not qwen and ("q_proj" in name or "k_proj" in name):  # halves were neighbours
                pairs = values.reshape(heads, -1, 2, values.shape[-1])
                values = pairs.swapaxes(1, 2).reshape(values.shape)
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)).reshape(parameter.shape))
    rotary = model.model.rotary_emb
    fresh = type(rotary)(model.config)
    rotary.inv_freq.copy_(fresh.inv_freq)
    rotary.original_inv_freq = fresh.inv_freq
    return model


def stored_name(name: str) -> str:
    """The name in a GGUF file of a parameter of transformers'."""
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, block, rest = name.split(".", 3)
    part, _, what = rest.rpartition(".")
    return f"blk.{block}.{_PARTS[part]}.{what}"


_PARTS = {
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


def test_log_probabilities(name: str, file: Path) -> None:
    import torch

    ours = InspectedModel.of(file, WeightFormat.AUTO, _ROOM)
    assert isinstance(ours.config, ModelConfig)
    text = "".join((ROOT / name).read_text("utf-8") for name in TEXTS)
    tokens = ours.model.tokenizer().encode_text(text)[:TOKENS]
    assert len(tokens) == TOKENS
    decoder = Decoder.build(ours.config, ours.weights, NativeBackend(None))
    state = decoder.new_state(TOKENS)
    theirs = exact_model(file)
    past: Any = None
    divergences, same = list[float](), 0
    for start in range(0, TOKENS, CHUNK):
        piece = tokens[start : start + CHUNK]
        approximate = decoder.forward(state, piece).logits.copy()
        state.commit(range(len(piece)))
        with torch.inference_mode():
            told = theirs(torch.tensor([piece]), past_key_values=past, use_cache=True)
        past, exact = told.past_key_values, told.logits[0].numpy()
        same += int((approximate.argmax(-1) == exact.argmax(-1)).sum())
        p, q = log_softmax(exact), log_softmax(approximate)
        divergences += (np.exp(p) * (p - q)).sum(-1).tolist()
    bound, mean, worst = BOUNDS[name], float(np.mean(divergences)), max(divergences)
    told_as = f"{name}: KL {mean:.6f}, at most {worst:.4f}, same best token {same / TOKENS:.4f}"
    assert mean < bound.mean, told_as
    assert worst < bound.worst, told_as
    assert same / TOKENS > bound.same, told_as
