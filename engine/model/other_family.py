"""Configs of model families without a decoder of our own.

The transformers library runs them. Here it is not imported: that takes seconds and brings torch.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from engine import pytorch
from engine.errors import UserFixable
from engine.language import tr
from engine.model.families import READERS
from engine.model.families.common import refuse_quantised, unsupported
from engine.model.json_object import JsonObject

_TABLE = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_WIDTHS = ("hidden_size", "n_embd", "d_model", "dim", "n_embed")
_USUAL_POSITIONS = 2048
"""The context of a model that names none: what most of them were trained on."""


@dataclass(frozen=True, slots=True)
class OtherConfig:
    """A model that runs through the transformers library.

    Attributes:
        family: its `model_type`.
        architecture: the class of transformers that runs it.
        kv_numbers_per_token: keys and values that a token adds at most.
    """

    family: str
    architecture: str
    vocab_size: int
    max_positions: int
    kv_numbers_per_token: int


def read_other(source: JsonObject) -> OtherConfig:
    """Check and read the config.json of a family that transformers runs.

    Raises:
        UserFixable: transformers does not know it either, or other packages are needed.
    """
    family = source.text("model_type") or ""
    names = source.items("architectures")
    if pytorch.is_installed():
        architecture = runnable_families().get(family)
    else:  # whether it knows this one is seen when it is here
        architecture = next((str(name) for name in names if _writes_text(name)), None)
    if architecture is None or not names:
        raise unsupported(tr("its family is “{family}”").format(family=family[:60]))
    if architecture not in names:
        raise unsupported(tr("its architecture is “{name}”").format(name=str(names[0])[:60]))
    if source.flag("is_encoder_decoder", default=False):
        raise unsupported(tr("it is an encoder-decoder model, which cannot continue a text"))
    refuse_quantised(source)
    return OtherConfig(
        family=family,
        architecture=architecture,
        vocab_size=source.integer("vocab_size", 1, 1 << 21),
        max_positions=_first(source, _POSITIONS, 1 << 24, _USUAL_POSITIONS),
        kv_numbers_per_token=2 * _first(source, _LAYERS, 512, 32) * _kv_width(source),
    )


def is_other(source: JsonObject) -> bool:
    """Return whether only transformers has a class for this family that writes text.

    Where it is not installed, it may have one for every architecture that is called so.
    """
    family = source.text("model_type") or ""
    if family in READERS:
        return False
    if not pytorch.is_installed():
        return any(map(_writes_text, source.items("architectures")))
    return family in runnable_families()


def _writes_text(architecture: object) -> bool:
    return str(architecture).endswith(("ForCausalLM", "LMHeadModel"))


def runnable_families() -> dict[str, str]:
    """`model_type` -> class, as the installed transformers lists them in its source."""
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        return {}
    return _listed(Path(spec.origin).parent / "models" / "auto" / "modeling_auto.py")


@cache
def _listed(file: Path) -> dict[str, str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError):
        return {}
    tables = (node for node in tree.body if isinstance(node, ast.Assign))
    for table in tables:
        if ast.unparse(table.targets[0]) == _TABLE and isinstance(table.value, ast.Call):
            pairs = ast.literal_eval(table.value.args[0])
            return {family: name for family, name in pairs if isinstance(name, str)}
    return {}


def _first(source: JsonObject, names: tuple[str, ...], most: int, default: int) -> int:
    """A number that goes by several names."""
    name = next((each for each in names if source.has(each)), names[0])
    return source.integer(name, 1, most, default=default)


def _kv_width(source: JsonObject) -> int:
    """Numbers in a token's keys of one layer."""
    heads = _first(source, _HEADS, 1 << 12, 1)
    width = _first(source, _WIDTHS, 1 << 17, 4096)
    own = _first(source, ("num_key_value_heads", "num_kv_heads"), 1 << 12, heads)
    return own * source.integer("head_dim", 1, 1 << 14, default=max(width // heads, 1))


def not_loadable(family: str, details: str) -> UserFixable:
    """The error for a model that transformers should run, and does not."""
    return UserFixable(
        tr("The transformers library cannot load this “{family}” model.").format(family=family),
        tr("Download the model again, or choose another one."),
        details,
    )
