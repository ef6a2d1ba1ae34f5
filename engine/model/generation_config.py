"""The sampling that a model's publisher recommends: generation_config.json, or GGUF metadata.

As in vLLM, what the file does not name is left out. The GGUF names are llama.cpp's; its converter
copies the values from generation_config.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.errors import UserFixable
from engine.model.json_object import JsonObject
from engine.request import SamplingParams

FILE = "generation_config.json"
_RANGES = {
    "temperature": (0.0, 2.0),
    "top_k": (0, 1000),
    "top_p": (0.01, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.5, 2.0),
}
_GGUF_NAMES = {"temperature": "temp", "repetition_penalty": "penalty_repeat"}
_DRAWING = {"temperature", "top_k", "top_p", "min_p"}
"""Members that say that the model is meant to be sampled from."""


def folder_sampling(folder: Path) -> SamplingParams | None:
    """Return what a folder's generation_config.json recommends.

    None where it recommends nothing, greedy decoding, or what makes no sense: then the model is as
    usable as without it.
    """
    try:
        return _sampling(JsonObject.read_optional(folder / FILE), {})
    except UserFixable:
        return None


def gguf_sampling(metadata: Mapping[str, object]) -> SamplingParams | None:
    """Return what a GGUF file's metadata recommend; None as for `folder_sampling`."""
    names = {field: f"general.sampling.{_GGUF_NAMES.get(field, field)}" for field in _RANGES}
    try:
        return _sampling(JsonObject(metadata, "GGUF"), names)
    except UserFixable:
        return None


def _sampling(source: JsonObject, names: Mapping[str, str]) -> SamplingParams | None:
    found = {}
    for field, (low, high) in _RANGES.items():
        value = source.optional_number(names.get(field, field), low, high)
        if value is not None:
            found[field] = round(value, 4)  # GGUF holds them in 32 bits
    if not source.flag("do_sample", default=not _DRAWING.isdisjoint(found)):
        return None
    params = SamplingParams(
        temperature=found.get("temperature", 1.0),
        top_k=int(found.get("top_k", 0)),
        top_p=found.get("top_p", 1.0),
        min_p=found.get("min_p", 0.0),
        repetition_penalty=found.get("repetition_penalty", 1.0),
    )
    return None if params.greedy else params
