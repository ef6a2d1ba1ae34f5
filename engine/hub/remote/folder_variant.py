"""The safetensors of a repository as one model: its weights by their index, and what reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.errors import UserFixable
from engine.hub.remote.answer import ServerObject
from engine.hub.remote.left_out import LeftOut, Reason
from engine.hub.remote.listing import Packaging, RemoteFile, Variant
from engine.model.families import READERS, parse_config
from engine.model.heads.reading import is_head
from engine.model.json_object import JsonObject
from engine.model.other_family import is_other, read_other

ENDING = ".safetensors"
CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_BESIDE = (
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
_TOKENIZERS = (("tokenizer.json",), ("vocab.json", "merges.txt"))
"""Best first; without one of them, any `tokenizer.model*` or `*.tiktoken`."""
_LARGEST_BESIDE = 64 << 20
"""Bytes; larger ones are not read later."""
_TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
_ADAPTERS = ("adapter_model.safetensors", "adapter_config.json")
_HEAD_LAYERS = 1
"""Blocks of a config that may be a draft head, which has no tokenizer of its own."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """Facts that a repository gives about the model in its top folder.

    Attributes:
        config: its config.json, None where nobody could read it.
        shards: files that the index names; None where there is no index, or nobody could read it.
    """

    files: Mapping[str, RemoteFile]
    config: ServerObject | None
    shards: frozenset[str] | None
    model: ServerObject


def folder_variant(folder: FolderFiles) -> tuple[Variant | None, tuple[LeftOut, ...]]:
    """Return the model, and the files that belong to none."""
    weights = tuple(path for path in folder.files if path.lower().endswith(ENDING))
    if not weights:
        return None, ()
    ours = _weights(folder, weights)
    left_out = [LeftOut(_why_not(path), path) for path in weights if path not in ours]
    if not ours:
        return None, tuple(left_out)
    reason = _unusable(folder, ours)
    if reason is not None:
        return None, tuple(left_out) + tuple(
            LeftOut(reason.reason, path, reason.words) for path in ours
        )
    return _variant(folder, ours), tuple(left_out)


def _weights(folder: FolderFiles, stored: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the weights in order; an index goes before a single file."""
    if INDEX in folder.files:
        if folder.shards is not None:
            return tuple(sorted(folder.shards))
        return tuple(sorted(path for path in stored if _SHARD.fullmatch(path)))
    return (SINGLE,) if SINGLE in folder.files else ()


def _why_not(path: str) -> Reason:
    return Reason.ADAPTER if path.endswith(_ADAPTERS[0]) else Reason.ELSEWHERE


def _unusable(folder: FolderFiles, weights: Sequence[str]) -> LeftOut | None:
    first = weights[0]
    there = [folder.files[path] for path in weights if path in folder.files]
    if len(there) < len(weights) or not all(file.nbytes for file in there):
        return LeftOut(Reason.INCOMPLETE, first)
    if CONFIG not in folder.files:
        adapter = _ADAPTERS[1] in folder.files
        return LeftOut(Reason.ADAPTER if adapter else Reason.NO_CONFIG, first)
    if folder.config is not None:
        reason = _not_runnable(folder.config)
        if reason is not None:
            return reason
    if not _tokenizer(folder.files) and not _may_be_head(folder.config):
        return LeftOut(Reason.NO_TOKENIZER, first)
    return None


def _not_runnable(config: ServerObject) -> LeftOut | None:
    """Return why the engine cannot run a model of this config; None: it can."""
    source = JsonObject(config.data, CONFIG)
    family = config.text("model_type")
    try:
        if is_head(source):
            return None
        if is_other(source):
            read_other(source)
        else:
            parse_config(config.data)
    except UserFixable as error:
        if config.member("auto_map").data and family not in READERS:
            return LeftOut(Reason.REMOTE_CODE, "")
        return LeftOut(Reason.UNKNOWN_MODEL, "", error.cause)
    return None


def _may_be_head(config: ServerObject | None) -> bool:
    if config is None:
        return False
    return is_head(JsonObject(config.data, CONFIG)) or (
        config.count("num_hidden_layers") == _HEAD_LAYERS
    )


def _tokenizer(files: Mapping[str, RemoteFile]) -> tuple[str, ...]:
    for names in _TOKENIZERS:
        if all(name in files for name in names):
            return names
    return tuple(
        path
        for path in sorted(files)
        if "/" not in path and (path.startswith("tokenizer.model") or path.endswith(".tiktoken"))
    )


def _variant(folder: FolderFiles, weights: Sequence[str]) -> Variant:
    index = (INDEX,) if INDEX in folder.files else ()
    beside = (*index, CONFIG, *_tokenizer(folder.files), *_BESIDE)
    small = [
        folder.files[path]
        for path in beside
        if path in folder.files and folder.files[path].nbytes <= _LARGEST_BESIDE
    ]
    large = [folder.files[path] for path in weights]
    nbytes = sum(file.nbytes for file in large)
    return Variant(_name(folder), Packaging.SAFETENSORS, (*large, *small), nbytes)


def _name(folder: FolderFiles) -> str:
    """Return the type of most of a model's numbers."""
    kinds = folder.model.member("safetensors").member("parameters")
    counts = {kind: kinds.count(kind) or 0 for kind in kinds.data if kind.isprintable()}
    if counts:
        return max(counts, key=lambda kind: counts[kind])[:20]
    config = folder.config or ServerObject({})
    said = config.text("torch_dtype") or config.text("dtype")
    return _TYPES.get(said, "safetensors")
