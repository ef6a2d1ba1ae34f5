"""A GGUF file's metadata in the words of Hugging Face's config.json.

llama.cpp knows some things by a model's architecture alone, and files do not say them: they stand
here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.families import read_config
from engine.model.families.common import unsupported
from engine.model.families.qwen3_5 import TILED
from engine.model.gguf.file import GgufFile, language_model
from engine.model.json_object import JsonObject
from engine.model.weights.stored import damaged

Members = dict[str, object]

_Number = TypeVar("_Number", int, float)

_MOST = (1 << 32) - 1
_MAX_BLOCKS = 512
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_ENDS = ("eos", "eot", "eom")
_SOFTMAX = 1
_BASE, _WINDOW = "rope.freq_base", "attention.sliding_window"
_FREQUENCIES = "rope_freqs.weight"
_LONG, _SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
_MOST_BYTES = 1 << 14
_EPSILONS = {"gemma2": 1e-6, "gemma3": 1e-6, "qwen2": 1e-6, "qwen3": 1e-6, "qwen3moe": 1e-6}
"""What all models of a family have, as their publishers' configurations say."""
_BASES = {"gemma3": 1e6, "gpt-oss": 150_000.0}
"""Bases of the rotation, likewise; of all others llama.cpp's, which their publishers write down."""
_GEMMA3_STRETCHED = {34: 8.0, 48: 8.0, 62: 8.0}
"""Blocks of the Gemma 3 models that reach further than they were first trained, and how far."""
_STRETCHINGS = ("none", "linear", "yarn", "longrope")


def model_config(file: GgufFile) -> ModelConfig:
    """Read the config of a model in GGUF.

    Raises:
        UserFixable: the file holds no language model, or one of a family or with features that the
            decoder does not have, or numbers that cannot be right.
    """
    return read_config(JsonObject(config_json(file), file.files[0].name))


def is_runnable(architecture: str) -> bool:
    """Return whether an architecture, as llama.cpp names it, can be of a family of ours."""
    return architecture in _FAMILIES


def config_json(file: GgufFile) -> Members:
    """Return what a config.json of the model would say.

    An architecture that is none of ours becomes the `model_type`, and nothing else is said.
    """
    architecture = language_model(file)
    if architecture not in _FAMILIES:
        return {"model_type": architecture}
    return _members(_Model(file, architecture))


def usual_numbers(file: GgufFile) -> Mapping[str, float]:
    """Return what a model of a family of ours leaves out: key -> the value that is used."""
    model = _Model(file, language_model(file))
    _members(model)
    return model.left_out


def _members(model: _Model) -> Members:
    family, more = _FAMILIES[model.architecture]
    members = {"model_type": family, **_vocabulary(model), **_shape(model)}
    return members | _rotation(model) | more(model)


@dataclass(frozen=True, slots=True)
class _Model:
    """A language model in GGUF, and its numbers, whose keys begin with its architecture.

    Numbers that could differ from block to block may be stored as lists. They are read as one
    number; a model whose blocks do differ is refused.

    Attributes:
        left_out: keys that were asked for in vain -> their usual values.
    """

    file: GgufFile
    architecture: str
    left_out: dict[str, float] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.whole("block_count", 1, _MAX_BLOCKS)

    @property
    def head_dim(self) -> int:
        """Numbers per head."""
        usual = self.whole("embedding_length") // self.whole("attention.head_count")
        return self.optional_whole("attention.key_length", 1) or max(usual, 1)

    def has(self, tensor: str) -> bool:
        """Return whether the first block has a tensor of this name."""
        return f"blk.0.{tensor}" in self.file.tensors

    def key(self, name: str) -> str:
        """The full key of a number."""
        return f"{self.architecture}.{name}"

    def whole(self, name: str, low: int = 1, high: int = _MOST) -> int:
        """A whole number that must be there."""
        value = self.optional_whole(name, low, high)
        return self.file.metadata.integer(self.key(name), low, high) if value is None else value

    def optional_whole(self, name: str, low: int = 0, high: int = _MOST) -> int | None:
        """A whole number, or None when absent."""
        return self._one(name, set(self.file.metadata.integers(self.key(name), low, high)))

    def optional_number(self, name: str, low: float = 0.0, high: float = 1e12) -> float | None:
        """A number, or None when absent."""
        return self._one(name, set(self.file.metadata.numbers(self.key(name), low, high)))

    def first_number(self, *names: str) -> float | None:
        """A number under the first of its names that is there: llama.cpp's, old ones, Ollama's."""
        found = (self.optional_number(name) for name in names)
        return next((number for number in found if number is not None), None)

    def usual(self, name: str, stated: _Number | None, usual: _Number) -> _Number:
        """Return what the file states, or else note and return what its family has."""
        if stated is None:
            self.left_out[self.key(name)] = usual
            return usual
        return stated

    def _one(self, name: str, values: set[_Number]) -> _Number | None:
        if len(values) > 1:
            raise unsupported(
                tr("its blocks differ in “{key}”").format(key=name), repr(sorted(values))[:500]
            )
        return next(iter(values), None)


def _vocabulary(model: _Model) -> Members:
    """The rows of the embedding (which may be padded), and the tokens that end a text."""
    metadata, embedding = model.file.metadata, model.file.tensors.get(_EMBEDDING)
    if embedding is None or len(embedding.shape) != 2:
        raise unsupported(tr("its file holds no table of tokens"))
    rows = embedding.shape[0]
    if len(metadata.texts("tokenizer.ggml.tokens")) > rows:
        raise damaged(embedding.file, tr("it names more tokens than it has rows for"))
    ids = {
        name: metadata.integer(f"tokenizer.ggml.{name}_token_id", -1, _MOST, default=-1)
        for name in ("bos", *_ENDS)
    }
    known = {name: number for name, number in ids.items() if 0 <= number < rows}
    return {
        "vocab_size": rows,
        "tie_word_embeddings": _HEAD not in model.file.tensors,
        "bos_token_id": known.get("bos"),
        "eos_token_id": list(dict.fromkeys(known[name] for name in _ENDS if name in known)),
    }


def _shape(model: _Model) -> Members:
    head_dim = model.head_dim
    heads = model.whole("attention.head_count")
    if model.optional_whole("attention.value_length", 1) not in (None, head_dim):
        raise unsupported(tr("its keys and values have different sizes"))
    return {
        "hidden_size": model.whole("embedding_length"),
        "intermediate_size": model.optional_whole("feed_forward_length", 1)
        or model.optional_whole("expert_feed_forward_length", 1)
        or model.whole("feed_forward_length"),
        "num_hidden_layers": model.blocks,
        "num_attention_heads": heads,
        "num_key_value_heads": model.optional_whole("attention.head_count_kv", 1) or heads,
        "head_dim": head_dim,
        "max_position_embeddings": model.whole("context_length"),
        "rms_norm_eps": _epsilon(model),
    }


def _epsilon(model: _Model) -> float:
    """The number added to what norms divide by; where only one is known, the file may omit it."""
    key, usual = "attention.layer_norm_rms_epsilon", _EPSILONS.get(model.architecture)
    stated = model.optional_number(key, high=1)
    if usual is None:
        return model.file.metadata.number(model.key(key), 0, 1)
    return model.usual(key, stated, usual)


def _rotation(model: _Model) -> Members:
    """The members that describe the rotation of positions."""
    head_dim = model.head_dim
    rotated = model.optional_whole("rope.dimension_count", 1)
    base = model.first_number(_BASE, "rope.global.freq_base")
    return {
        "rope_theta": model.usual(_BASE, base, _BASES.get(model.architecture, 10_000.0)),
        "partial_rotary_factor": _share(rotated or head_dim, head_dim),
        "original_max_position_embeddings": model.optional_whole(
            "rope.scaling.original_context_length", 1
        ),
        "rope_scaling": _explicit(model) or _formula(model),
    }


def _share(rotated: int, head_dim: int) -> float:
    """Return the part of a head that is rotated, such that as many numbers result from it."""
    share = rotated / head_dim
    return share if int(head_dim * share) == rotated else math.nextafter(share, math.inf)


def _explicit(model: _Model) -> Members | None:
    """Divisors of the frequencies, one by one, as the file holds them for Llama 3 and Phi-3.

    They are longrope's; those of Llama 3 are the same for short and long texts.
    """
    if _LONG in model.file.tensors and _SHORT in model.file.tensors:
        return {
            "rope_type": "longrope",
            "short_factor": _divisors(model, _SHORT),
            "long_factor": _divisors(model, _LONG),
            "attention_factor": model.optional_number("rope.scaling.attn_factor"),
        }
    if _FREQUENCIES not in model.file.tensors:
        return None
    if _formula(model) is not None:
        raise unsupported(tr("it uses two RoPE scalings at once"))
    divisors = _divisors(model, _FREQUENCIES)
    return {
        "rope_type": "longrope",
        "short_factor": divisors,
        "long_factor": divisors,
        "attention_factor": 1.0,
    }


def _divisors(model: _Model, name: str) -> list[float]:
    if model.file.tensors[name].nbytes > _MOST_BYTES:
        raise unsupported(tr("its RoPE scaling is “{kind}”").format(kind=name))
    values: list[float] = model.file.reader().float32(name).ravel().tolist()
    return values


def _formula(model: _Model) -> Members | None:
    """A stretching that a few numbers describe."""
    kind = model.file.metadata.word(model.key("rope.scaling.type")) or "linear"
    factor = model.first_number("rope.scaling.factor", "rope.scale_linear")
    if model.architecture == "gemma3" and model.blocks in _GEMMA3_STRETCHED:  # not in Ollama's
        factor = model.usual("rope.scaling.factor", factor, _GEMMA3_STRETCHED[model.blocks])
    if kind not in _STRETCHINGS:
        raise unsupported(tr("its RoPE scaling is “{kind}”").format(kind=kind))
    if kind in ("none", "longrope") or factor in (None, 0.0, 1.0):  # longrope's are tensors
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    all_dim = model.optional_number("rope.scaling.yarn_log_multiplier")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "attention_factor": model.optional_number("rope.scaling.yarn_attn_factor"),
        "beta_fast": model.optional_number("rope.scaling.yarn_beta_fast"),
        "beta_slow": model.optional_number("rope.scaling.yarn_beta_slow"),
        "mscale": 1.0 if all_dim else None,
        "mscale_all_dim": all_dim,
        # What its authors compute with; llama.cpp rounds for all models alike.
        "truncate": model.architecture != "gpt-oss",
    }


def _llama(model: _Model) -> Members:
    """Llama, and what llama.cpp takes for one: Mistral and, refused later, Mixtral."""
    if model.optional_whole("expert_count"):
        return {"model_type": "mixtral"}
    window = model.optional_whole(_WINDOW)
    if window:
        return {"model_type": "mistral", "sliding_window": window}
    return _biases(model)


def _mistral(model: _Model) -> Members:
    """Mistral Small from 3.1 on; the scores of Ministral 3 depend on the position."""
    if model.optional_number("attention.temperature_scale"):
        return {"model_type": "ministral3"}
    return {"sliding_window": model.optional_whole(_WINDOW) or None}


def _biases(model: _Model) -> Members:
    return {
        "attention_bias": any(model.has(f"attn_{name}.bias") for name in ("q", "qkv", "output")),
        "mlp_bias": model.has("ffn_up.bias"),
    }


def _qwen3(model: _Model) -> Members:
    return {**_biases(model), "use_sliding_window": False}


def _qwen3_moe(model: _Model) -> Members:
    """Experts in all blocks, whose weights sum to 1."""
    if model.optional_whole("expert_gating_func") not in (None, 0, _SOFTMAX):
        raise unsupported(tr("its experts are not chosen by a softmax"))
    key = model.key("expert_weights_norm")
    return _qwen3(model) | {
        "num_experts": model.whole("expert_count"),
        "num_experts_per_tok": model.whole("expert_used_count"),
        "moe_intermediate_size": _inner(model),
        "norm_topk_prob": model.file.metadata.flag(key, default=True),
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _inner(model: _Model) -> int:
    """Width of an expert; old files only say that of all experts a token uses."""
    inner = model.optional_whole("expert_feed_forward_length")
    together = model.optional_whole("feed_forward_length", 1) or 0
    return inner or together // model.whole("expert_used_count")


def _qwen35(model: _Model) -> Members:
    """Blocks with states and blocks that attend; the blocks of an MTP head are counted as well."""
    count = model.blocks - (model.optional_whole("nextn_predict_layers", 0, _MAX_BLOCKS) or 0)
    stated = model.file.metadata.items(model.key("attention.recurrent_layers"))[:count]
    every = model.optional_whole("full_attention_interval", 1) or 4
    states = [bool(flag) for flag in stated] or [bool((i + 1) % every) for i in range(count)]
    value_heads = model.whole("ssm.time_step_rank")
    return _biases(model) | {
        "num_hidden_layers": count,
        "layer_types": ["linear_attention" if own else "full_attention" for own in states],
        "linear_conv_kernel_dim": model.whole("ssm.conv_kernel"),
        "linear_key_head_dim": model.whole("ssm.state_size"),
        "linear_value_head_dim": model.whole("ssm.inner_size") // value_heads,
        "linear_num_key_heads": model.whole("ssm.group_count"),
        "linear_num_value_heads": value_heads,
        TILED: True,
    }


def _qwen35_moe(model: _Model) -> Members:
    """Experts in all blocks, whose weights sum to 1, and one that all tokens share."""
    return _qwen35(model) | {
        "num_experts": model.whole("expert_count"),
        "num_experts_per_tok": model.whole("expert_used_count"),
        "moe_intermediate_size": _inner(model),
        "shared_expert_intermediate_size": model.whole("expert_shared_feed_forward_length"),
    }


def _qwen3_next(model: _Model) -> Members:
    """Experts and states as of Qwen3.5, but the value heads of a key head lie side by side."""
    return _qwen35_moe(model) | {TILED: False}


def _smollm3(model: _Model) -> Members:
    """Every fourth block knows no positions."""
    return {**_biases(model), "no_rope_layer_interval": 4, "use_sliding_window": False}


def _phi3(model: _Model) -> Members:
    """A window of 0 says that there is none."""
    return {"sliding_window": model.optional_whole(_WINDOW) or None}


def _gemma2(model: _Model) -> Members:
    """Every other block looks through a window; the largest model scales scores by its width."""
    scores, logits = "attn_logit_softcapping", "final_logit_softcapping"
    return {
        "sliding_window": model.usual(_WINDOW, model.optional_whole(_WINDOW, 1), 4096),
        "layer_types": _layer_types(model, 2),
        "query_pre_attn_scalar": _score_scale(model, largest=46),
        "attn_logit_softcapping": model.usual(scores, model.optional_number(scores), 50.0),
        "final_logit_softcapping": model.usual(logits, model.optional_number(logits), 30.0),
    }


def _gemma3(model: _Model) -> Members:
    """Five blocks look through a window, with a rotation of their own, the sixth does not."""
    window, near = model.optional_whole(_WINDOW), "rope.freq_base_swa"
    return {
        "sliding_window": window or None,
        "layer_types": _layer_types(model, 6 if window else 1),
        "query_pre_attn_scalar": _score_scale(model, largest=62),
        "final_logit_softcapping": model.optional_number("final_logit_softcapping"),
        "rope_local_base_freq": model.usual(
            near, model.first_number(near, "rope.local.freq_base"), 10_000.0
        ),
    }


def _gpt_oss(model: _Model) -> Members:
    """Windows in every other block, experts in all."""
    return {
        "intermediate_size": _inner(model),
        "num_local_experts": model.whole("expert_count"),
        "num_experts_per_tok": model.whole("expert_used_count"),
        "sliding_window": model.whole(_WINDOW),
        "layer_types": _layer_types(model, 2),
        "attention_bias": True,
    }


def _layer_types(model: _Model, usual: int) -> list[str]:
    """The kind of each block: in each run of `usual` blocks the last one sees everything.

    The file may say otherwise: which blocks see everything, or how long the runs are.
    """
    key = model.key("attention.sliding_window_pattern")
    stated = model.file.metadata.items(key)
    if len(stated) > 1:
        slides = [bool(flag) for flag in stated]
    else:
        turn = model.optional_whole("attention.sliding_window_pattern", 1) or usual
        slides = [bool((index + 1) % turn) for index in range(model.blocks)]
    return ["sliding_attention" if near else "full_attention" for near in slides]


def _score_scale(model: _Model, largest: int) -> float:
    """The number by whose root attention scores are divided.

    It is the size of a head, but in the largest model the width per head.
    """
    if model.blocks == largest:
        hidden = model.whole("embedding_length")
        return hidden // model.whole("attention.head_count")
    return model.head_dim


_FAMILIES: dict[str, tuple[str, Callable[[_Model], Members]]] = {
    "llama": ("llama", _llama),
    "mistral3": ("mistral", _mistral),
    "qwen2": ("qwen2", lambda _: {"use_sliding_window": False}),
    "qwen3": ("qwen3", _qwen3),
    "qwen3moe": ("qwen3_moe", _qwen3_moe),
    "qwen35": ("qwen3_5_text", _qwen35),
    "qwen3next": ("qwen3_next", _qwen3_next),
    "qwen35moe": ("qwen3_5_moe_text", _qwen35_moe),
    "smollm3": ("smollm3", _smollm3),
    "phi3": ("phi3", _phi3),
    "gemma2": ("gemma2", _gemma2),
    "gemma3": ("gemma3_text", _gemma3),
    "gpt-oss": ("gpt_oss", _gpt_oss),
}
"""llama.cpp's architecture -> `model_type`, and a reader of what only this family has."""
