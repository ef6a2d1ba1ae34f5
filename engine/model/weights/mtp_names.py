"""The names of an MTP head's tensors among those of its model."""

from __future__ import annotations

import re
from collections.abc import Collection

from engine.model.tensors import FINAL_NORM

_PREFIXES = ("mtp.", "model.mtp.")
_SAFETENSORS = {
    "fc.weight": "fusion.linear.weight",
    "pre_fc_norm_embedding.weight": "fusion.norm.weight",
    "pre_fc_norm_hidden.weight": "fusion.feature_norm.weight",
    "norm.weight": FINAL_NORM,
}
_BLOCK = re.compile(r"(blk\.(\d{1,9})\.)nextn\.")
_FINAL_NORM = "output_norm.weight"
_GGUF = {
    "nextn.eh_proj.weight": "fusion.linear.weight",
    "nextn.enorm.weight": "fusion.norm.weight",
    "nextn.hnorm.weight": "fusion.feature_norm.weight",
    "nextn.shared_head_norm.weight": _FINAL_NORM,
}
_TARGETS = ("nextn.embed_tokens.weight", "nextn.shared_head_head.weight")
"""Copies of the model's own matrices."""


def mtp_blocks(stored: Collection[str]) -> list[str]:
    """Return how the names of each MTP head's tensors begin in GGUF, the first head's first.

    Where there are several, the first drafts all tokens, as it can go on from its own output.
    """
    found = {match[1]: int(match[2]) for match in map(_BLOCK.match, stored) if match}
    return sorted(found, key=lambda block: found[block])


def mtp_names(stored: Collection[str]) -> dict[str, str]:
    """Return the names that an MTP head's tensors would have in a model of one block.

    Args:
        stored: names of all tensors of a model's files.

    Returns:
        These names -> those that the tensors have; empty where the files hold no MTP head.
    """
    for prefix in _PREFIXES:
        if f"{prefix}fc.weight" in stored:
            inside = [name.removeprefix(prefix) for name in stored if name.startswith(prefix)]
            return {_SAFETENSORS.get(name, f"model.{name}"): prefix + name for name in inside}
    block = next(iter(mtp_blocks(stored)), None)
    if block is None or f"{block}nextn.eh_proj.weight" not in stored:
        return {}
    inside = [name.removeprefix(block) for name in stored if name.startswith(block)]
    names = {
        _GGUF.get(name, f"blk.0.{name}"): block + name for name in inside if name not in _TARGETS
    }
    return {_FINAL_NORM: _FINAL_NORM} | names
