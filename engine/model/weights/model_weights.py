"""A model's weights under their canonical names: found among the stored ones, and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING, Shape, borrowed_tensors, expected_tensors
from engine.model.weights.mtp_names import mtp_blocks, mtp_names
from engine.model.weights.parts import PLACES, QWEN3_5, FileKind, StoredPart
from engine.model.weights.reader import BYTES, TensorReader, check_readable
from engine.model.weights.safetensors_folder import SafetensorsFolder

_MOST_EXPERTS = 1 << 16
_TEXT = ("language_model.", "model.language_model.")
"""Beginnings of the text part's names in a model that sees pictures: published, and as
transformers 5 saves it."""
_PICTURES = ("vision_tower.", "multi_modal_projector.", "visual.")
_TOWERS = ("v.", "a.", "mm.")
"""Beginnings of GGUF names of what sees or hears, which Ollama's files keep beside the text."""
_POSITIONS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""Tensors of GGUF files that describe the rotation; they are read with the config."""
HEADS = ("lm_head.weight", "output.weight")


def layout(
    config: ModelConfig, stored: Mapping[str, Shape], file_kind: FileKind, where: str = ""
) -> dict[str, StoredPart]:
    """Canonical name -> where it is stored, for exactly what the config describes.

    Stored rotation frequencies are ignored (they are recomputed), and so is what sees pictures. A
    head beside a tied embedding is for the caller to compare. Of an MTP head, what it has of its
    own among its model's tensors.

    Args:
        config: of the model, or of its MTP head.
        stored: names and shapes of all stored tensors.
        file_kind: which names to look for.
        where: the file or folder, for messages.

    Raises:
        UserFixable: tensors are missing, of the wrong shape, or more than the config describes.
    """
    names = _text_names(stored, file_kind) if config.fusion is None else mtp_names(stored)
    _check_counts(config, len(names), where)
    found: dict[str, StoredPart] = {}
    borrowed = borrowed_tensors(config)
    for name, shape in expected_tensors(config).items():
        if name in borrowed:
            continue
        places = list(PLACES[file_kind](config, name, shape))
        part = next((p for p in places if all(t in names for t, _ in p.tensors)), None)
        if part is None:
            said = tr("{name} of its MTP head is missing") if borrowed else tr("{name} is missing")
            own = places[0].stored.removeprefix("blk.0.") if borrowed else places[0].stored
            raise mismatch(said.format(name=own), where)
        found[name] = checked_part(part, names, stored, where)
    used = {name for part in found.values() for name, _ in part.tensors}
    heads = _own_heads(config, stored)
    for name in names.values():
        if name in used or name.endswith("rotary_emb.inv_freq") or name in _POSITIONS:
            continue
        if config.tie_word_embeddings and name.endswith(HEADS):
            continue
        if name.startswith(heads):
            continue
        raise unmentioned(name, where)
    return found


def _own_heads(config: ModelConfig, stored: Collection[str]) -> tuple[str, ...]:
    """Return how tensors begin that are of heads which draft for this very model (MTP)."""
    if config.family not in QWEN3_5:
        return ()
    return "mtp.", "model.mtp.", f"blk.{config.num_layers}.", *mtp_blocks(stored)


def mismatch(what: str, where: str) -> UserFixable:
    """The error for weights that are not those of the config."""
    return UserFixable(
        tr("The weights do not fit the model's own description: {what}.").format(what=what),
        tr("Download the model again; all its files must come from the same source."),
        where,
    )


def unmentioned(name: str, where: str) -> UserFixable:
    """The error for a tensor that the model has no place for."""
    return mismatch(
        tr("the weights hold {name}, which it does not mention").format(name=name[:100]),
        where,
    )


def left_aside(stored: Collection[str], file_kind: FileKind) -> frozenset[str]:
    """Return the names of the tensors that see or hear, of which nothing is read."""
    return frozenset(stored) - frozenset(_text_names(stored, file_kind).values())


def _text_names(stored: Collection[str], file_kind: FileKind) -> dict[str, str]:
    """The names that the text part would have alone -> those it has here."""
    if file_kind == "gguf":
        return {name: name for name in stored if not name.startswith(_TOWERS)}
    prefix = next((p for p in _TEXT if any(name.startswith(p) for name in stored)), None)
    if prefix is None:
        return {name: name for name in stored}
    root = "model." if prefix.startswith("model.") else ""
    pictures = tuple(root + other for other in _PICTURES)
    return {
        root + name.removeprefix(prefix) if name.startswith(prefix) else name: name
        for name in stored
        if not name.startswith(pictures)
    }


def _check_counts(config: ModelConfig, tensors: int, where: str) -> None:
    """Refuse hostile counts, which would cost time before the first name is missed."""
    if config.num_layers > tensors:
        raise mismatch(
            tr("it describes {count} blocks, more than there are weights").format(
                count=config.num_layers
            ),
            where,
        )
    experts = sum(block.experts.count for block in config.blocks if block.experts)
    if experts > _MOST_EXPERTS:
        raise mismatch(tr("it describes {count} experts").format(count=experts), where)


def checked_part(
    part: StoredPart, names: Mapping[str, str], stored: Mapping[str, Shape], where: str
) -> StoredPart:
    """Return a part under the real names of its stored tensors.

    Args:
        part: with names that the tensors would have in a text-only model.
        names: those names -> the real ones.
        stored: shapes of all stored tensors, by their real names.
        where: the file or folder, for messages.

    Raises:
        UserFixable: a shape is not what it should be.
    """
    for name, wanted in part.tensors:
        actual = stored[names[name]]
        if actual != wanted:
            sizes = tr("{name} is {size}, not {wanted}").format(
                name=names[name], size=_size(actual), wanted=_size(wanted)
            )
            raise mismatch(sizes, where)
    scales = part.scales
    if scales is not None:
        scales = (names[scales[0]], scales[1])
        if part.shape[1] % 32:
            raise mismatch(tr("{name} cannot be read").format(name=part.stored), where)
    if (names[part.stored], scales) == (part.stored, part.scales):
        return part
    return replace(part, stored=names[part.stored], scales=scales)


def _size(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or tr("a single number")


class ModelWeights(TensorReader):
    """The tensors that a config describes, by canonical name, as backends read them."""

    __slots__ = ()

    @classmethod
    def open(cls, config: ModelConfig, source: TensorReader, file_kind: FileKind) -> Self:
        """Find and check everything; reads no weights, but for a head that should be tied.

        Args:
            config: of the model.
            source: all tensors of its files, by their stored names.
            file_kind: how the files name and arrange them.

        Raises:
            UserFixable: the files hold other tensors than the config describes, or some that
                cannot be read.
        """
        where = str(source.files[0].parent) if source.files else ""
        shapes = {name: source.shape(name) for name in source.names()}
        parts = layout(config, shapes, file_kind, where)
        weights = cls.of_parts(source, parts, where)
        used = {tensor for part in parts.values() for tensor, _ in part.tensors}
        embedding = parts[EMBEDDING].stored
        heads = _own_heads(config, shapes)
        for name in set(shapes) - used:
            if name.startswith(heads):
                continue
            if name.endswith(HEADS) and not source.same_bytes(name, embedding):
                raise unmentioned(name, where)
        return weights

    @classmethod
    def of_parts(cls, source: TensorReader, parts: Mapping[str, StoredPart], where: str) -> Self:
        """Return the tensors whose places are known and checked.

        Args:
            source: all tensors of the files, by their stored names.
            parts: canonical name -> its place.
            where: the file or folder, for messages.

        Raises:
            UserFixable: some cannot be read.
        """
        found = {name: source.found(part) for name, part in parts.items()}
        for part, tensor, scales, _ in found.values():
            if scales is None:
                check_readable(part.stored, tensor)
            elif tensor.kind != BYTES or scales.kind != BYTES:
                raise mismatch(tr("{name} cannot be read").format(name=part.stored), where)
        return cls(found)

    @classmethod
    def of_folder(cls, config: ModelConfig, folder: Path) -> Self:
        """Return the weights of a folder with safetensors; see `open`."""
        return cls.open(config, SafetensorsFolder.open(folder), "safetensors")
