"""Models worth having and the drafts that go with them: a dated list that ships with Duotail.

It says enough of each to plan without a network. What could not be checked when it was made is
told there (`checked`); the hub has the last word.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.typed_json import decoded

_FILE = "pairs.toml"
_USUAL = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 1e6}
"""Members of config.json that planning does not look at."""


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
        context: tokens it was trained for.
        safetensors: its repository as published.
        shape: members of its config.json that matter to memory and speed.
        gguf: repositories of quantised ones, the publisher's own first.
        mtp: its files bring an MTP head; the first of `gguf` keeps it.
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
    shape: Mapping[str, object] = field(hash=False)
    gguf: tuple[str, ...] = ()
    level: int = 0
    good_at: tuple[str, ...] = ()
    mtp: bool = False
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
    members = {"model_type": model.family, "max_position_embeddings": model.context}
    return parse_config(_USUAL | members | dict(model.shape))


def _outline(config: ModelConfig) -> tuple[object, ...]:
    """Return what tells models of one family apart, whether their embedding is padded or not."""
    own = config.typical
    return (
        config.family,
        config.num_layers,
        config.hidden_size,
        own.heads,
        own.kv_heads,
        own.experts.intermediate_size if own.experts else own.inner,
    )
