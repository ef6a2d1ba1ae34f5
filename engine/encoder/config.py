"""What an encoder is, by a model folder's files or a GGUF file's metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.gguf.file import Metadata
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.small_file import read_at_most

_BERT, _ROBERTA = ("bert",), ("roberta", "xlm-roberta", "camembert")
_NOMIC = ("nomic_bert", "nomic-bert")
_MOST = 1 << 20
_MOST_BLOCKS, _MOST_WIDTH = 1000, 1 << 16
_SMALLEST = 1e-30


class Pooling(StrEnum):
    """The hidden states that stand for a whole text."""

    MEAN = "mean"
    FIRST = "cls"
    LAST = "lasttoken"


_GGUF_POOLING = {1: Pooling.MEAN, 2: Pooling.FIRST, 3: Pooling.LAST}


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """Sizes and kinds of an encoder.

    Attributes:
        blocks, width, heads, inner: of the transformer; `inner` of its feed-forward.
        vocabulary: tokens.
        longest: tokens that a text may have.
        epsilon: of the norms.
        activation: of the feed-forward: "gelu", "gelu_tanh", "relu" or "silu".
        pooling: what stands for a text.
        first: row of the first position; RoBERTa's tables begin with rows for padding.
        rotary: base of rotary positions; None: positions have a table.
        gated: whether the feed-forward has a gate.
    """

    blocks: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    longest: int
    epsilon: float
    activation: str
    pooling: Pooling
    first: int = 0
    rotary: float | None = None
    gated: bool = False


_ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu",
}  # fmt: skip


def of_folder(folder: Path) -> EncoderConfig:
    """Read what a folder's files say, those of sentence-transformers included.

    Raises:
        UserFixable: it is no encoder, or of a kind that is not known.
    """
    config = JsonObject.read(folder / "config.json")
    family = config.text("model_type") or ""
    rotary: float | None = None
    if family in _NOMIC:
        ropes = config.member("rope_parameters") or config
        rotary = ropes.number("rope_theta", 1, 1e9, default=1000.0)
    elif family not in (*_BERT, *_ROBERTA):
        raise no_encoder(folder.name, family)
    kind = config.text("position_embedding_type") or "absolute"
    if kind != "absolute" or config.flag("is_decoder", default=False):
        raise no_encoder(folder.name, f"{family}, {kind}")
    activation = config.text("hidden_act") or "gelu"
    if activation not in _ACTIVATIONS:
        raise no_encoder(folder.name, activation)
    padding = config.integer("pad_token_id", 0, _MOST, default=1)
    first = padding + 1 if family in _ROBERTA else 0
    rows = config.integer("max_position_embeddings", 1, _MOST)
    return EncoderConfig(
        blocks=config.integer("num_hidden_layers", 1, _MOST_BLOCKS),
        width=config.integer("hidden_size", 1, _MOST_WIDTH),
        heads=_heads(config, "num_attention_heads", "hidden_size"),
        inner=config.integer("intermediate_size", 1, _MOST_WIDTH),
        vocabulary=config.integer("vocab_size", 1, 1 << 24),
        longest=_longest(folder, rows - first),
        epsilon=config.number("layer_norm_eps", _SMALLEST, 1, default=1e-12),
        activation=_ACTIVATIONS[activation],
        pooling=_pooling(folder),
        first=first,
        rotary=rotary,
        gated=rotary is not None,
    )


def of_metadata(told: Metadata) -> EncoderConfig:
    """Read what a GGUF file says.

    Raises:
        UserFixable: it is no encoder, or of a kind that is not known.
    """
    family = told.word("general.architecture") or ""
    if family not in (*_BERT, *_NOMIC):
        raise no_encoder(told.origin, family)
    pooling = told.integer(f"{family}.pooling_type", 0, 100, default=1)
    if pooling not in _GGUF_POOLING:
        raise no_encoder(told.origin, f"pooling {pooling}")
    gated, base = family in _NOMIC, f"{family}.rope.freq_base"
    return EncoderConfig(
        blocks=told.integer(f"{family}.block_count", 1, _MOST_BLOCKS),
        width=told.integer(f"{family}.embedding_length", 1, _MOST_WIDTH),
        heads=_heads(told, f"{family}.attention.head_count", f"{family}.embedding_length"),
        inner=told.integer(f"{family}.feed_forward_length", 1, _MOST_WIDTH),
        vocabulary=len(told.texts("tokenizer.ggml.tokens")),
        longest=told.integer(f"{family}.context_length", 1, _MOST),
        epsilon=told.number(f"{family}.attention.layer_norm_epsilon", _SMALLEST, 1, default=1e-12),
        activation="silu" if gated else "gelu",
        pooling=_GGUF_POOLING[pooling],
        rotary=told.number(base, 1, 1e9, default=1000.0) if gated else None,
        gated=gated,
    )


def no_encoder(name: str, what: str) -> UserFixable:
    """Return the error for a model that is none of those that are known."""
    return UserFixable(
        tr("{name} is not an embedding model that Duotail can use.").format(name=name),
        tr(
            "Choose a model of the BERT family (all-MiniLM, BGE, E5, GTE, nomic-embed and others), "
            "as a GGUF file or a folder with safetensors."
        ),
        what,
    )


def _heads(config: JsonObject, heads: str, width: str) -> int:
    count = config.integer(heads, 1, 1024)
    if config.integer(width, 1, _MOST_WIDTH) % count:
        raise config.wrong(heads, tr("a divisor of “{name}”").format(name=width))
    return count


def _longest(folder: Path, rows: int) -> int:
    """Return how long a text may be: some models were taught with shorter ones than they take."""
    told = JsonObject.read_optional(folder / "sentence_bert_config.json")
    return min(rows, told.integer("max_seq_length", 1, _MOST, default=rows))


def _pooling(folder: Path) -> Pooling:
    """Return what sentence-transformers' files say; the mean where there are none."""
    for kind in _modules(folder):
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise no_encoder(folder.name, kind)
    told = JsonObject.read_optional(folder / "1_Pooling" / "config.json")
    modes = {each for each in told.data if each.startswith("pooling_mode_")}
    chosen = {mode.removeprefix("pooling_mode_") for mode in modes if told.data[mode] is True}
    if (mode := told.text("pooling_mode")) is not None:
        chosen = {mode}
    named = {"mean_tokens": Pooling.MEAN, "cls_token": Pooling.FIRST, "mean": Pooling.MEAN}
    named |= {"cls": Pooling.FIRST, "lasttoken": Pooling.LAST}
    if len(chosen) > 1 or not chosen <= named.keys():
        raise no_encoder(folder.name, ", ".join(sorted(chosen)))
    return named[chosen.pop()] if chosen else Pooling.MEAN


def _modules(folder: Path) -> list[str]:
    """Return the kinds of the steps that sentence-transformers lists, in order."""
    path = folder / "modules.json"
    if not path.exists():
        return []
    try:
        told = json.loads(read_at_most(path, _MOST))
        return [str(each["type"]).rpartition(".")[2] for each in told]
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
        raise UserFixable(
            tr("{file} cannot be read.").format(file=path.name), tr(DOWNLOAD_AGAIN), str(error)
        ) from error
