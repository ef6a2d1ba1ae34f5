"""Models worth having and the drafts that go with them: a dated list that ships with Duotail.

It says enough of each to plan without a network. What could not be checked when it was made is
told there (`checked`); the hub has the last word.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from engine.hardware.typed_json import decoded
from engine.hub import starter
from engine.model.config import ModelConfig
from engine.model.families import parse_config

_FILE = "pairs.toml"


@dataclass(frozen=True, slots=True)
class PairShape:
    """What a model's config.json says that matters to memory and speed.

    Attributes:
        layers: blocks.
        experts, experts_used, expert_ffn: of a mixture; 0 of a dense model.
        tied: embedding and output matrix are one.
        window: last tokens that a block looks at; 0: at all.
        full_every: every so many blocks one looks at all tokens; 0: none does.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool = False
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0
    window: int = 0
    full_every: int = 0


@dataclass(frozen=True, slots=True)
class CuratedModel:
    """A model to chat with, or to draft.

    Attributes:
        key: what pairs name it by.
        family: its `model_type`.
        licence: as the hub writes it.
        level: how good its answers are among those listed, 0 to 100: our judgement, from what
            its publisher reports; 0: it is here to draft only.
        good_at: "chat", "reasoning", "code".
        safetensors: its repository as published.
        gguf: repositories of quantised ones, the publisher's own first.
        gated: terms have to be accepted first.
        checked: what was seen in print when the list was made: "shape", or a repository.
    """

    key: str
    name: str
    family: str
    parameters: int
    licence: str
    context: int
    safetensors: str
    shape: PairShape
    gguf: tuple[str, ...] = ()
    level: int = 0
    good_at: tuple[str, ...] = ()
    gated: bool = False
    checked: tuple[str, ...] = ()

    @property
    def repositories(self) -> tuple[str, ...]:
        """All its repositories, as published first."""
        return (self.safetensors, *self.gguf)

    @property
    def config(self) -> ModelConfig:
        """Its config as far as planning goes: positions are not rotated as published."""
        return _config(self)


@dataclass(frozen=True, slots=True)
class CuratedPair:
    """A target and a draft, by their keys.

    `note`: why sizes of vocabularies that differ are the same vocabulary.
    """

    target: str
    draft: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class CuratedHead:
    """A published feature head.

    Attributes:
        target: key of the model that it drafts for.
        kind: as `engine.model.config.Fusion` calls it.
        note: what one should know of it.
    """

    repo: str
    target: str
    kind: str
    licence: str = ""
    note: str = ""
    checked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Curated:
    """The list.

    `dated`: when it was made, "2026-11-22".
    """

    dated: str
    models: tuple[CuratedModel, ...]
    pairs: tuple[CuratedPair, ...] = ()
    heads: tuple[CuratedHead, ...] = ()

    def model(self, key: str) -> CuratedModel:
        """Return the model of a key.

        Raises:
            KeyError: there is none.
        """
        for model in self.models:
            if model.key == key:
                return model
        raise KeyError(key)

    def of_repo(self, *repos: str | None) -> CuratedModel | None:
        """Return the model that one of these repositories holds."""
        wanted = {repo.lower() for repo in repos if repo}
        for model in self.models:
            if wanted & {repo.lower() for repo in model.repositories}:
                return model
        return None

    def of_config(self, config: ModelConfig) -> CuratedModel | None:
        """Return the model of this family and shape, which copies and tuned ones share."""
        own = _outline(config)
        return next((model for model in self.models if _outline(model.config) == own), None)

    def drafts_for(self, target: CuratedModel) -> tuple[tuple[CuratedModel, CuratedPair], ...]:
        """Return smaller models that speak a target's tokens, best first."""
        pairs = [pair for pair in self.pairs if pair.target == target.key]
        return tuple((self.model(pair.draft), pair) for pair in pairs)

    def heads_for(self, target: CuratedModel) -> tuple[CuratedHead, ...]:
        """Return a target's feature heads."""
        return tuple(head for head in self.heads if head.target == target.key)


@cache
def curated() -> Curated:
    """Return the list that ships with Duotail."""
    text = (files("resources") / _FILE).read_text(encoding="utf-8")
    return decoded(Curated, tomllib.loads(text), _FILE)


@cache
def _config(model: CuratedModel) -> ModelConfig:
    return parse_config(_members(model))


def _members(model: CuratedModel) -> dict[str, object]:
    """Return a config.json with what is known of a model here."""
    shape = model.shape
    members: dict[str, object] = {
        "model_type": model.family,
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "max_position_embeddings": model.context,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "rope_theta": 1e6,
    }
    if shape.window:
        members["sliding_window"] = shape.window
        members["layer_types"] = [
            "sliding_attention" if (index + 1) % shape.full_every else "full_attention"
            for index in range(shape.layers)
        ]
    return members | _of_family(model.family, shape)


def _of_family(family: str, shape: PairShape) -> dict[str, object]:
    """Return the members that only one family has."""
    if family == "gemma3_text":
        activation: dict[str, object] = {"hidden_activation": "gelu_pytorch_tanh"}
        return activation | {"query_pre_attn_scalar": shape.head_dim}
    if family == "gpt_oss":
        return {
            "num_local_experts": shape.experts,
            "num_experts_per_tok": shape.experts_used,
            "attention_bias": True,
        }
    if family == "qwen3_moe":
        return {
            "num_experts": shape.experts,
            "num_experts_per_tok": shape.experts_used,
            "moe_intermediate_size": shape.expert_ffn,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    return {}


def _outline(config: ModelConfig) -> tuple[object, ...]:
    """Return what tells models of one family apart, whether their embedding is padded or not."""
    experts = config.blocks[0].experts
    return (
        config.family,
        config.num_layers,
        config.hidden_size,
        config.num_heads,
        config.num_kv_heads,
        experts.intermediate_size if experts else config.intermediate_size,
    )


def starter_draft(target: ModelConfig) -> Path | None:
    """Return the starter model's file where it is here and may draft for a model of this shape.

    Nobody has compared the vocabularies: a model of the same shape may speak other tokens.
    """
    listed = curated()
    entry = listed.of_config(target)
    if entry is None:
        return None
    draft = listed.of_repo(starter.REPO)
    paired = any(draft is each for each, _ in listed.drafts_for(entry))
    return starter.starter_path() if paired else None
