"""What the families' config.json files have in common, read and checked."""

from __future__ import annotations

from collections.abc import Collection

from engine.errors import UserFixable
from engine.language import later, tr
from engine.model.config import Activation
from engine.model.json_object import JsonObject

CHOOSE_ANOTHER = later("Choose a model of another family.")
_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def unsupported(what: str, details: str = "") -> UserFixable:
    """The error for a model that is sound, but that the decoder cannot run."""
    return UserFixable(
        tr("Duotail cannot run this model yet: {what}.").format(what=what),
        tr(CHOOSE_ANOTHER),
        details,
    )


def activation(source: JsonObject) -> Activation:
    """What the gate of a feed-forward goes through."""
    name = source.text("hidden_activation") or source.text("hidden_act") or "silu"
    if name not in _ACTIVATIONS:
        raise unsupported(
            tr("its activation function is “{activation}”").format(activation=name[:60])
        )
    return _ACTIVATIONS[name]


def refuse_quantised(source: JsonObject, allowed: Collection[str] = ()) -> None:
    """Raise `UserFixable` for weights quantised by a method that is not among the allowed ones."""
    for key in ("quantization_config", "compression_config"):
        if not source.has(key):
            continue
        member = source.data[key]
        method = member.get("quant_method") if isinstance(member, dict) else None
        if method not in allowed:
            raise UserFixable(
                tr("This model is stored in a quantised format that Duotail cannot read."),
                tr("Choose the original 16-bit version of the model, or one in GGUF format."),
                f"{key} = {member!r}"[:500],
            )


def kv_heads(source: JsonObject, num_heads: int) -> int:
    """Number of key/value heads."""
    found = source.integer("num_key_value_heads", 1, num_heads, default=num_heads)
    if num_heads % found:
        raise source.wrong(
            "num_key_value_heads", tr("a divisor of {num_heads}").format(num_heads=num_heads)
        )
    return found


def head_dim(source: JsonObject, hidden_size: int, num_heads: int) -> int:
    """Numbers per head."""
    if not source.has("head_dim") and hidden_size % num_heads:
        raise source.wrong(
            "hidden_size",
            tr("a multiple of the {num_heads} attention heads").format(num_heads=num_heads),
        )
    found = source.integer("head_dim", 2, 1024, default=hidden_size // num_heads)
    if found % 2 or not 2 <= found <= 1024:
        raise source.wrong("head_dim", tr("an even number from 2 to 1024"))
    return found
