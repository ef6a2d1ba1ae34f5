"""A feature head's weights under their canonical names: its own, and what its target lends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import EMBEDDING, HEAD, HEAD_IDS, borrowed_tensors
from engine.model.weights.head_layout import head_layout
from engine.model.weights.layout import mismatch
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.parts import StoredPart
from engine.model.weights.reader import INTEGERS, TensorReader


class HeadWeights:
    """All tensors that a head computes with; see `engine.backend.segment.Readable`.

    Args:
        own: what lies in its folder.
        tokens: the token of each row of its output matrix, where these are not all.
        target: the weights it borrows from.
        lent: what it borrows -> the target's name of it.
    """

    def __init__(
        self,
        own: ModelWeights,
        tokens: NDArray[np.float32] | None,
        target: ModelWeights,
        lent: Mapping[str, str],
    ) -> None:
        self._own, self._tokens, self._target, self.lent = own, tokens, target, lent

    @classmethod
    def open(
        cls, config: ModelConfig, folder: TensorReader, target: ModelWeights, *, target_tied: bool
    ) -> HeadWeights:
        """Find and check everything; of tensors, only the head's list of tokens is read.

        Args:
            config: of the head.
            folder: what lies in its folder.
            target: the weights of the model that it drafts for.
            target_tied: whether that model's output matrix is its embedding.

        Raises:
            UserFixable: the folder holds other tensors than the config describes, or some that
                cannot be read.
        """
        own, tokens = open_own(config, folder)
        output = EMBEDDING if target_tied else HEAD
        names = {EMBEDDING: EMBEDDING, HEAD: output}
        lent = {name: names[name] for name in borrowed_tensors(config)}
        if config.tie_word_embeddings:
            lent.pop(HEAD, None)
        return cls(own, tokens, target, lent)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as stored, the borrowed ones included."""
        borrowed = sum(self._target.stored_bytes(name) for name in set(self.lent.values()))
        return self._own.nbytes + borrowed

    @property
    def files(self) -> tuple[Path, ...]:
        """The head's own weight files."""
        return self._own.files

    def names(self) -> tuple[str, ...]:
        """Canonical names of all tensors."""
        tokens = () if self._tokens is None else (HEAD_IDS,)
        return (*self.lent, *self._own.names(), *tokens)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        if name == HEAD_IDS and self._tokens is not None:
            return self._tokens.shape
        weights, stored = self._place(name)
        return weights.shape(stored)

    def kind(self, name: str) -> str:
        """What `stretches` gives, in ggml's words."""
        if name == HEAD_IDS:
            return "F32"
        weights, stored = self._place(name)
        return weights.kind(stored)

    def stored_bytes(self, name: str) -> int:
        """Bytes that a tensor takes in its file."""
        if name == HEAD_IDS and self._tokens is not None:
            return self._tokens.nbytes
        weights, stored = self._place(name)
        return weights.stored_bytes(stored)

    def float32(self, name: str) -> NDArray[np.float32]:
        """A C-contiguous float32 copy of a tensor."""
        if name == HEAD_IDS and self._tokens is not None:
            return self._tokens.copy()
        weights, stored = self._place(name)
        return weights.float32(stored)

    def stretches(self, name: str) -> Iterator[NDArray[Any]]:
        """A matrix as it is stored, some megabytes of rows at a time."""
        weights, stored = self._place(name)
        return weights.stretches(stored)

    def _place(self, name: str) -> tuple[ModelWeights, str]:
        """Whose it is, and its name there."""
        lent = self.lent.get(name)
        return (self._own, name) if lent is None else (self._target, lent)


def open_own(
    config: ModelConfig, source: TensorReader
) -> tuple[ModelWeights, NDArray[np.float32] | None]:
    """What lies in a head's folder: its own tensors, and the tokens of its rows.

    Raises:
        UserFixable: see `HeadWeights.open`.
    """
    where = str(source.files[0].parent) if source.files else ""
    shapes = {name: source.shape(name) for name in source.names()}
    parts, tokens = head_layout(config, shapes, where)
    own = ModelWeights.of_parts(source, parts, where)
    return own, None if tokens is None else _tokens(config, source, tokens, where)


def _tokens(
    config: ModelConfig, source: TensorReader, part: StoredPart, where: str
) -> NDArray[np.float32]:
    """The token of each row: absolute in our folders, as an offset from the row in published ones.

    Floats hold them exactly.
    """
    if source.kind(part.stored) not in (*INTEGERS, "F32"):
        raise mismatch(tr("{name} cannot be read").format(name=part.stored), where)
    values = source.integers(part.stored).astype(np.float64)
    if part.stored != HEAD_IDS:
        values += np.arange(len(values))
    right = (values >= 0) & (values < config.vocab_size) & (values == np.floor(values))
    if not right.all() or len(np.unique(values)) != len(values):
        raise mismatch(
            tr("{name} names tokens that the model does not have, or one twice").format(
                name=part.stored
            ),
            where,
        )
    return values.astype(np.float32)
