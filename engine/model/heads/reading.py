"""Read the config.json of a draft: ours, EAGLE's as published, and those of speculators."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import Fusion, FusionKind, ModelConfig
from engine.model.families import READERS, read_config
from engine.model.heads.description import USUAL_TAPS, DraftOnly
from engine.model.json_object import JsonObject
from engine.model.tensors import EMBEDDING, HEAD, HEAD_IDS

OUR_ARCHITECTURE = "DuotailDraftHead"
OURS = "duotail_head"
OUR_MODEL = "duotail_draft"
KINDS: Mapping[str, FusionKind] = {"dgf": "dgf", "linear": "linear", "eagle3": "eagle3"}
MARKS = ("fc.weight", "model.fc.weight")
"""The matrix that joins feature and token in EAGLE's heads; no stand-alone model has it."""
TOKENS_OF_ROWS = "d2t"
"""Draft to target: the token of each row, less the row's own number."""

_LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
_MOST_TAPS, _MOST_LAYERS = 16, 512
_NOT_YET = ("norm_before_fc", "fc_norm", "norm_output", "use_mtp_layernorm")
"""Switches of EAGLE-3's later variants, which compute something else."""


def is_head(source: JsonObject, stored: Collection[str] = ()) -> bool:
    """Tell whether a config.json, or the names of its stored tensors, are those of a head."""
    names = [str(name).lower() for name in source.items("architectures")]
    said = any("eagle" in name or name == OUR_ARCHITECTURE.lower() for name in names)
    keys = (OURS, "speculators_config", "speculators_model_type", "draft_vocab_size")
    return said or any(source.has(key) for key in keys) or any(mark in stored for mark in MARKS)


def read_head(source: JsonObject, stored: Collection[str]) -> DraftOnly:
    """Check and read a head's config.json.

    Args:
        source: the config.json.
        stored: names of all tensors in the folder, which tell what the head has of its own.

    Raises:
        UserFixable: a kind of head that Duotail does not know, or numbers that cannot be right.
    """
    if (ours := source.member(OURS)) is not None:
        return _ours(source, ours, stored)
    kind = source.text("speculators_model_type")
    if kind is not None or source.has("speculators_config"):
        if kind not in (None, "eagle3"):
            raise _unknown(kind or "")
        return _eagle3(source, source.member("transformer_layer_config") or source, stored)
    names = " ".join(str(name) for name in source.items("architectures"))
    later_kind = "eagle3" in names.lower() or source.has("draft_vocab_size")
    if later_kind or any(name.split(".")[0] == "midlayer" for name in stored):
        return _eagle3(source, source, stored)
    if not any(mark in stored for mark in MARKS):
        raise _unknown(names)
    fusion = Fusion(
        "linear",
        source.integer("hidden_size", 1, 1 << 16, default=4096),
        bias=any(mark.replace("weight", "bias") in stored for mark in MARKS),
        own_embedding=_has(stored, EMBEDDING),
        own_head=_has(stored, HEAD),
    )
    return DraftOnly(_head(_blocks(source), fusion))


def read_reduced(source: JsonObject) -> DraftOnly | None:
    """Read the config.json of a model with few output rows; None where it is another's.

    Raises:
        UserFixable: numbers that cannot be right.
    """
    said = source.member(OUR_MODEL)
    if said is None:
        return None
    config = read_config(source)
    rows = said.integer("rows", 1, config.vocab_size)
    vocabulary = said.text("vocabulary")
    if not vocabulary:
        raise said.wrong("vocabulary", tr("a text"))
    return DraftOnly(
        replace(config, rows=rows, tie_word_embeddings=False),
        (said.text("target") or "")[:200],
        vocabulary=vocabulary,
    )


def _ours(source: JsonObject, ours: JsonObject, stored: Collection[str]) -> DraftOnly:
    """Read what `duotail train-draft` writes."""
    kind = KINDS.get(ours.text("fusion") or "")
    if kind is None:
        raise ours.wrong("fusion", tr("one of {names}").format(names=", ".join(KINDS)))
    blocks = _blocks(source)
    rows = ours.integer("rows", 1, blocks.vocab_size) if ours.has("rows") else None
    layers = ours.integer("target_layers", 1, _MOST_LAYERS) if ours.has("target_layers") else None
    fusion = Fusion(
        kind,
        ours.integer("target_hidden_size", 1, 1 << 16),
        _layer_ids(ours, "taps", first=0),
        bias=ours.flag("bias", default=False),
        residual_normed=ours.flag("residual_normed", default=False),
        own_embedding=EMBEDDING in stored,
        own_head=HEAD in stored,
    )
    name = (ours.text("target") or "")[:200]
    return DraftOnly(_head(blocks, fusion, rows), name, layers)


def _eagle3(source: JsonObject, layer: JsonObject, stored: Collection[str]) -> DraftOnly:
    """Read EAGLE-3 as published by its authors, SpecForge, AngelSlim, NVIDIA and Red Hat."""
    details = source.member("eagle_config") or JsonObject({}, source.origin)
    for place in (source, details):
        for key in _NOT_YET:
            if place.flag(key, default=False):
                raise _unknown(key)
    if not details.flag("use_aux_hidden_state", default=True):
        raise _unknown("use_aux_hidden_state = false")
    blocks = _blocks(layer)
    own = source if source.has("draft_vocab_size") else details
    rows = own.integer("draft_vocab_size", 1, blocks.vocab_size, default=blocks.vocab_size)
    reduced = rows < blocks.vocab_size or TOKENS_OF_ROWS in stored or HEAD_IDS in stored
    hidden = source if source.has("target_hidden_size") else details
    taps = _published_taps(source, details)
    fusion = Fusion(
        "eagle3",
        hidden.integer("target_hidden_size", 1, 1 << 16, default=blocks.hidden_size),
        USUAL_TAPS if taps is None else taps,
        # Speculators' own default; EAGLE's authors add to what is not normed.
        residual_normed=source.flag("norm_before_residual", default=layer is not source),
        own_embedding=_has(stored, EMBEDDING),
        own_head=reduced or _has(stored, HEAD),
    )
    config = _head(blocks, fusion, rows if reduced else None)
    return DraftOnly(config, _verifier(source), usual_taps=taps is None)


def _published_taps(source: JsonObject, details: JsonObject) -> tuple[int, ...] | None:
    """Read the target blocks whose outputs are taken; None: what EAGLE-3 takes unless told.

    At the top of the file (vLLM, speculators) a number names the layer that a hidden state enters,
    so it is the output of the block before. Within `eagle_config` (SGLang, SpecForge, NVIDIA) it
    names the block whose output it is. Both agree on what is usual: 2, n / 2 and n - 3 there,
    1, n / 2 - 1 and n - 4 here.
    """
    for place, first in ((source, 1), (details, 0)):
        if place.items(_LAYER_IDS):
            return _layer_ids(place, _LAYER_IDS, first)
    return None


def _layer_ids(source: JsonObject, key: str, first: int) -> tuple[int, ...]:
    """Read numbers of blocks, which are counted from `first` in the file."""
    found = source.items(key)
    numbers = [value for value in found if isinstance(value, int) and not isinstance(value, bool)]
    right = all(first <= number < _MOST_LAYERS for number in numbers)
    if len(numbers) != len(found) or len(found) > _MOST_TAPS or not right:
        raise source.wrong(key, tr("numbers of layers"))
    return tuple(number - first for number in numbers)


def _head(blocks: ModelConfig, fusion: Fusion, rows: int | None = None) -> ModelConfig:
    """Join the shape of a head's blocks with what comes before them.

    Embeddings enter a head as they lie in the target's file, without the factor that Gemma applies
    in its forward: published heads were trained on the bare matrix, and so are ours.
    """
    return replace(blocks, tie_word_embeddings=False, embedding_scale=1.0, fusion=fusion, rows=rows)


def _blocks(source: JsonObject) -> ModelConfig:
    """Read the shape of a head's blocks as that of a small model."""
    family = source.text("model_type") or "llama"
    if family not in READERS:
        family = "llama" if family == "eagle" else family
    config = read_config(
        JsonObject({**source.data, "model_type": family, "architectures": None}, source.origin)
    )
    if config.output_norms or config.sinks or any(block.experts for block in config.blocks):
        raise _unknown(family)
    return config


def _has(stored: Collection[str], name: str) -> bool:
    return name in stored or name.removeprefix("model.") in stored


def _verifier(source: JsonObject) -> str:
    """Read the target's name, where the file tells it."""
    speculators = source.member("speculators_config")
    verifier = speculators.member("verifier") if speculators else None
    return ((verifier.text("name_or_path") if verifier else None) or "")[:200]


def _unknown(what: str) -> UserFixable:
    return UserFixable(
        tr("Duotail does not know this kind of draft head yet ({what}).").format(what=what[:100]),
        tr("Choose a DGF, EAGLE, EAGLE-2 or EAGLE-3 head, or another draft."),
    )
