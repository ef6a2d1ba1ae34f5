"""A feature head's weights under their canonical names: its own, and what its target lends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import (
    EMBEDDING,
    HEAD,
    HEAD_IDS,
    Shape,
    borrowed_tensors,
    expected_tensors,
)
from engine.model.weights.model_weights import (
    ModelWeights,
    checked_part,
    layout,
    mismatch,
    unmentioned,
)
from engine.model.weights.parts import FileKind, StoredPart
from engine.model.weights.reader import INTEGERS, FoundPart, TensorReader

_OFFSETS = "d2t"
"""Draft to target: the token of each row of a reduced vocabulary, less the row's own number."""
_JOINING = {
    "fusion.features.weight": "fc.weight",
    "fusion.linear.weight": "fc.weight",
    "fusion.linear.bias": "fc.bias",
}
_IGNORED = ("t2d", "model.t2d")
"""Target to draft: which tokens have a row, which `d2t` tells as well."""
_TARGETS = ("verifier_",)
"""Prefixes of the target's own tensors, which some tools save too."""


class HeadWeights(TensorReader):
    """All tensors that a head computes with, those that it borrows as whole as its target has them.

    Of an output matrix of which it borrows some rows, `Shortlisted` takes these.

    Args:
        own: what lies in its folder.
        ids: its list of the tokens of its output rows, where these are not all.
        tokens: those tokens.
        target: the weights it borrows from.
        lent: what it borrows -> the target's name of it.
    """

    __slots__ = ("_files", "_tokens", "lent")

    def __init__(
        self,
        own: ModelWeights,
        ids: FoundPart | None,
        tokens: NDArray[np.float32] | None,
        target: ModelWeights,
        lent: Mapping[str, str],
    ) -> None:
        parts = {name: target.parts[its] for name, its in lent.items()} | dict(own.parts)
        super().__init__(parts if ids is None else {**parts, HEAD_IDS: ids})
        self._files, self._tokens, self.lent = own.files, tokens, lent

    @classmethod
    def open(
        cls,
        config: ModelConfig,
        source: TensorReader,
        target: ModelWeights,
        *,
        target_tied: bool,
        within: FileKind | None = None,
    ) -> HeadWeights:
        """Find and check everything; of tensors, only the head's list of tokens is read.

        Args:
            config: of the head.
            source: what lies in its folder, or in its model's files.
            target: the weights of the model that it drafts for.
            target_tied: whether that model's output matrix is its embedding.
            within: as in `open_own`.

        Raises:
            UserFixable: there are other tensors than the config describes, or some that cannot be
                read.
        """
        lent = _lent(config, target_tied=target_tied)
        return cls(*open_own(config, source, within), target, lent)

    @property
    def files(self) -> tuple[Path, ...]:
        """The head's own weight files."""
        return self._files

    def as_floats(self) -> Self:
        """Return the same tensors, the head's own widened as they are read."""
        wide = super().as_floats()
        wide.parts = {**wide.parts, **{name: self.parts[name] for name in self.lent}}
        return wide

    def kind(self, name: str) -> str:
        """Type of the numbers that `stretches` gives; tokens are read as floats."""
        return "F32" if name == HEAD_IDS else super().kind(name)

    def float32(self, name: str, *, check_finite: bool = False) -> NDArray[np.float32]:
        """A C-contiguous float32 copy of a tensor."""
        if name == HEAD_IDS and self._tokens is not None:
            return self._tokens.copy()
        return super().float32(name, check_finite=check_finite)


def _lent(config: ModelConfig, *, target_tied: bool) -> dict[str, str]:
    """Return what a head borrows -> the target's name of it."""
    names = {EMBEDDING: EMBEDDING, HEAD: EMBEDDING if target_tied else HEAD}
    lent = {name: names[name] for name in borrowed_tensors(config)}
    if config.tie_word_embeddings:
        lent.pop(HEAD, None)
    return lent


def open_own(
    config: ModelConfig, source: TensorReader, within: FileKind | None = None
) -> tuple[ModelWeights, FoundPart | None, NDArray[np.float32] | None]:
    """Return the tensors that a head has, its list of the tokens of its rows, and these tokens.

    Args:
        config: of the head.
        source: what lies in its folder, or in its model's files.
        within: how the files of models name and arrange tensors, which an MTP head is among; None
            for a head that has files of its own making.

    Raises:
        UserFixable: see `HeadWeights.open`.
    """
    where = str(source.files[0].parent) if source.files else ""
    shapes = {name: source.shape(name) for name in source.names()}
    if within is None:
        parts, tokens = _layout(config, shapes, where)
    else:
        parts, tokens = layout(config, shapes, within, where), None
    own = ModelWeights.of_parts(source, parts, where)
    if tokens is None:
        return own, None, None
    return own, source.found(tokens), _tokens(config, source, tokens, where)


def _tokens(
    config: ModelConfig, source: TensorReader, part: StoredPart, where: str
) -> NDArray[np.float32]:
    """Read the token of each row: our folders have tokens, published ones offsets from the row.

    fp32 holds them exactly.
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


def _layout(
    config: ModelConfig, stored: Mapping[str, Shape], where: str = ""
) -> tuple[dict[str, StoredPart], StoredPart | None]:
    """Return where the head's own tensors are stored, by canonical name, and its list of tokens.

    Args:
        config: of the head.
        stored: names and shapes of all stored tensors.
        where: the folder, for messages.

    Raises:
        UserFixable: tensors are missing, of the wrong shape, or more than the head has.
    """
    if config.num_layers > len(stored):
        count = config.num_layers
        raise mismatch(
            tr("it describes {count} blocks, more than there are weights").format(count=count),
            where,
        )
    wanted = expected_tensors(config)
    for name in borrowed_tensors(config):
        wanted.pop(name, None)
    ids = wanted.pop(HEAD_IDS, None)
    names = {name: name for name in stored}
    found: dict[str, StoredPart] = {}
    for name, shape in wanted.items():
        found[name] = _found(_places(name), shape, names, stored, where)
    tokens = None
    if ids is not None:
        tokens = _found((_OFFSETS, f"model.{_OFFSETS}", HEAD_IDS), ids, names, stored, where)
    used = {part.stored for part in found.values()} | set(_IGNORED)
    used |= {tokens.stored} if tokens else set()
    for name in stored:
        if name not in used and not name.endswith("inv_freq") and not name.startswith(_TARGETS):
            raise unmentioned(name, where)
    return found, tokens


def _found(
    places: Iterator[str] | tuple[str, ...],
    shape: Shape,
    names: Mapping[str, str],
    stored: Mapping[str, Shape],
    where: str,
) -> StoredPart:
    candidates = tuple(places)
    place = next((name for name in candidates if name in stored), None)
    if place is None:
        raise mismatch(tr("{name} is missing").format(name=candidates[0]), where)
    return checked_part(StoredPart(place, shape, shape), names, stored, where)


def _places(name: str) -> Iterator[str]:
    """Yield the names that a tensor may have: EAGLE's, with or without "model.", and ours."""
    plain = _JOINING.get(name) or name.removeprefix("model.")
    if plain.startswith("layers.0."):
        first = plain.replace("layers.0.", "midlayer.", 1)
        yield first
        yield f"model.{first}"
    yield plain
    yield f"model.{plain}"
    yield name
