"""How a GGUF model rotates positions, in config.json's words."""

from __future__ import annotations

import math

from engine.language import tr
from engine.model.families.common import unsupported
from engine.model.gguf.file import GgufFile
from engine.model.gguf.metadata import Hyperparameters

_FREQUENCIES = "rope_freqs.weight"
_LONG, _SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
_MOST_BYTES = 1 << 14
_STRETCHINGS = ("none", "linear", "yarn", "longrope")


def rotation(file: GgufFile, numbers: Hyperparameters, head_dim: int) -> dict[str, object]:
    """The members of config.json that tell how positions are rotated."""
    rotated = numbers.optional_whole("rope.dimension_count", 1)
    return {
        "rope_theta": numbers.optional_number("rope.freq_base"),
        "partial_rotary_factor": _share(rotated or head_dim, head_dim),
        "original_max_position_embeddings": numbers.optional_whole(
            "rope.scaling.original_context_length", 1
        ),
        "rope_scaling": _explicit(file, numbers) or _formula(numbers),
    }


def _share(rotated: int, head_dim: int) -> float:
    """Such a part of the head that as many numbers result."""
    share = rotated / head_dim
    return share if int(head_dim * share) == rotated else math.nextafter(share, math.inf)


def _explicit(file: GgufFile, numbers: Hyperparameters) -> dict[str, object] | None:
    """Divisors of the frequencies, one by one, as the file holds them for Llama 3 and Phi-3.

    They are longrope's; those of Llama 3 are the same for short and long texts.
    """
    if _LONG in file.tensors and _SHORT in file.tensors:
        return {
            "rope_type": "longrope",
            "short_factor": _divisors(file, _SHORT),
            "long_factor": _divisors(file, _LONG),
            "attention_factor": numbers.optional_number("rope.scaling.attn_factor"),
        }
    if _FREQUENCIES not in file.tensors:
        return None
    if _formula(numbers) is not None:
        raise unsupported(tr("its positions are stretched in two ways at once"))
    divisors = _divisors(file, _FREQUENCIES)
    return {
        "rope_type": "longrope",
        "short_factor": divisors,
        "long_factor": divisors,
        "attention_factor": 1.0,
    }


def _divisors(file: GgufFile, name: str) -> list[float]:
    if file.tensors[name].nbytes > _MOST_BYTES:
        raise unsupported(tr("its positions are stretched by “{kind}”").format(kind=name))
    values: list[float] = file.reader().float32(name).ravel().tolist()
    return values


def _formula(numbers: Hyperparameters) -> dict[str, object] | None:
    """A stretching that a few numbers describe."""
    kind = numbers.metadata.word(numbers.key("rope.scaling.type")) or "linear"
    factor = numbers.optional_number("rope.scaling.factor")
    if factor is None:  # its name in old files
        factor = numbers.optional_number("rope.scale_linear")
    if kind not in _STRETCHINGS:
        raise unsupported(tr("its positions are stretched by “{kind}”").format(kind=kind))
    if kind in ("none", "longrope") or factor in (None, 0.0, 1.0):  # longrope's are tensors
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    all_dim = numbers.optional_number("rope.scaling.yarn_log_multiplier")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "attention_factor": numbers.optional_number("rope.scaling.yarn_attn_factor"),
        "beta_fast": numbers.optional_number("rope.scaling.yarn_beta_fast"),
        "beta_slow": numbers.optional_number("rope.scaling.yarn_beta_slow"),
        "mscale": 1.0 if all_dim else None,
        "mscale_all_dim": all_dim,
        # What its authors compute with; llama.cpp rounds for all models alike.
        "truncate": numbers.architecture != "gpt-oss",
    }
