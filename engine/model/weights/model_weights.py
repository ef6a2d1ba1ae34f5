"""A model's weights under their canonical names, read from whatever its files hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING
from engine.model.weights.layout import HEADS, layout, mismatch, unmentioned
from engine.model.weights.parts import FileKind, StoredPart
from engine.model.weights.reader import BYTES, TensorReader, check_readable
from engine.model.weights.safetensors_folder import SafetensorsFolder


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
        for name in source.names():
            if name.endswith(HEADS) and name not in used and not source.same_bytes(name, embedding):
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
