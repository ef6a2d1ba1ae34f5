"""The draft of a load, looked at: the one that was chosen, or that belongs to the target."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.backend.cpu import choose_format
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.shared import Lent
from engine.commands import DraftChoice, WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.hub.own_drafts import drafts_here
from engine.language import tr
from engine.loading.inspected_model import InspectedModel
from engine.loading.repacked import Repacked, fewer_bits
from engine.model.config import ModelConfig
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.other_family import OtherConfig
from engine.model.tensors import EMBEDDING, HEAD, HEAD_IDS, borrowed_tensors, expected_tensors
from engine.model.text.shortlist import OWN_ROWS, ROWS, shortened, shortlist, shortlist_length
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import differing, fingerprint, unshared
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.shortlisted import Shortlisted
from engine.plan.footprint import (
    KINDS,
)

WORTH_PACKING = 16 << 20
"""Bytes of weights from which on a draft is packed anew: smaller ones stay in caches."""


def drafts_of(
    choice: Path | DraftChoice, target: InspectedModel, tokenizer: Tokenizer, memory_available: int
) -> tuple[InspectedModel, ...]:
    """Return the draft that was chosen, or belongs to the target, or its own head and those here.

    Args:
        choice: as the load has it.
        target: what they draft for.
        tokenizer: the target's.
        memory_available: bytes of the host that are free.

    Raises:
        UserFixable: a draft that was named cannot be used, or not for this target.
    """
    if choice is DraftChoice.LOOKUP:
        return ()
    named = choice if isinstance(choice, Path) else target.model.draft
    if named is not None:
        return (_draft(LocalModel.inspect(named), target, tokenizer, memory_available),)
    if choice is DraftChoice.MTP:
        head = _beside(target, tokenizer) or target.model.mtp()
        return (_draft(head, target, tokenizer, memory_available),)
    drafts = []
    if target.model.has_mtp:
        with suppress(UserFixable):  # nobody asked for it
            drafts.append(_draft(target.model.mtp(), target, tokenizer, memory_available))
    for here in drafts_here(target.model, lambda: tokenizer.vocabulary):
        with suppress(UserFixable, OSError):  # nobody asked for it
            found = LocalModel.inspect(here.path)
            drafts.append(_draft(found, target, tokenizer, memory_available))
    return tuple(drafts)


def _beside(target: InspectedModel, tokenizer: Tokenizer) -> LocalModel | None:
    """Return an MTP head in a file of its own where the target's files have none."""
    if target.model.has_mtp:
        return None
    here = drafts_here(target.model, lambda: tokenizer.vocabulary)
    found = (LocalModel.inspect(each.path) for each in here)
    return next((model for model in found if _is_own(model)), None)


def _draft(
    model: LocalModel, target: InspectedModel, tokenizer: Tokenizer, memory_available: int
) -> InspectedModel:
    draft = _named_draft(model, target, memory_available)
    without = _unshared(target, tokenizer, draft) if draft.fusion is None else frozenset()
    return on_a_diet(draft, tokenizer, OWN_ROWS if _is_own(model) else ROWS, without)


def _is_own(model: LocalModel) -> bool:
    """Tell whether a draft is the head that its target brings along."""
    return isinstance(model.config, DraftOnly) and model.config.own


def on_a_diet(
    draft: InspectedModel, tokenizer: Tokenizer, rows: int, without: Collection[int] = ()
) -> InspectedModel:
    """Return a draft as it is fastest: output rows for few tokens, a whole model in fewer bits.

    What was trained to draft and lies in files of its own stays in the formats that it was packed
    in, and so does what a processor's caches hold: fewer bits would save nothing there.

    Args:
        draft: as it would be loaded by itself; one that names the tokens of its rows keeps those.
        tokenizer: the target's.
        rows: output rows at most.
        without: tokens that have none in any case, so that rows go even where that saves little.
    """
    config = short = draft.config
    if not isinstance(config, ModelConfig):
        return draft
    ids: NDArray[np.int64] | None = None
    if config.rows is None:
        count = shortlist_length(tokenizer, rows, without)
        short = shortened(config, count, always=bool(without))
        ids = None if short is config else shortlist(tokenizer, rows, without)
    elif HEAD in draft.lent:
        ids = draft.weights.float32(HEAD_IDS).astype(np.int64)
    if ids is not None:
        matrix = EMBEDDING if config.tie_word_embeddings else HEAD
        lent = {name: each for name, each in draft.lent.items() if name != HEAD}
        weights = Shortlisted(draft.weights, matrix, ids)
        draft = replace(draft, config=short, lent=lent, weights=weights)
    described = draft.model.config
    kept = isinstance(described, DraftOnly) and not (
        described.own and draft.format is WeightFormat.STORED
    )
    if kept or draft.format is WeightFormat.F32:
        return draft
    if draft.facts.footprint.weight_bytes < WORTH_PACKING:
        return draft
    kinds = {
        name: kind for name, kind in fewer_bits(draft.weights).items() if name not in draft.lent
    }
    repacked = Repacked(draft.weights, kinds)
    return replace(draft, format=WeightFormat.STORED, weights=repacked)


def _named_draft(
    model: LocalModel, target: InspectedModel, memory_available: int
) -> InspectedModel:
    """The draft model or head, looked at with its target."""
    described = model.config
    if isinstance(described, DraftOnly):
        config = described.for_target(target.config, model.name, target.model.name)
        return _dependent_draft(target, model, config)
    draft = InspectedModel.of(model.path, WeightFormat.AUTO, memory_available)
    if isinstance(draft.config, OtherConfig):
        raise NotPossible(
            tr(
                "{draft} cannot draft: Duotail has no decoder of its own for “{family}” models."
            ).format(draft=draft.model.name, family=draft.config.family),
            tr("Choose another draft, or the lookup draft."),
        )
    return draft


def refuse_head(target: InspectedModel, path: Path) -> None:
    """Raise where a head was named: it says what it misses. Other drafts are just left out."""
    model = LocalModel.inspect(path)
    if isinstance(model.config, DraftOnly):
        model.config.for_target(target.config, model.name, target.model.name)


def _dependent_draft(
    target: InspectedModel, model: LocalModel, config: ModelConfig
) -> InspectedModel:
    """A draft that is no model by itself, such as a feature head with its target's matrices.

    Args:
        target: what it drafts for.
        model: its folder.
        config: the one it has together with its target.

    Raises:
        NotPossible: it proposes tokens that the target does not have.
    """
    if not isinstance(target.config, ModelConfig) or not isinstance(target.weights, ModelWeights):
        raise TypeError("such drafts are for models with a decoder of our own")
    packed = model.gguf is not None
    shapes, borrowed = expected_tensors(config), borrowed_tensors(config)
    own = sum(prod(shape) for name, shape in shapes.items() if name not in borrowed)
    # Borrowed rows come as the target's weights are read: where it is packed anew, as floats.
    fits = target.format is WeightFormat.STORED or not (config.rows and HEAD in borrowed)
    fmt = choose_format(WeightFormat.AUTO, own, quantised=packed and fits)
    if _is_own(model) and model.path == target.model.path:
        fmt = target.format
    native = NATIVE_KINDS if fmt is WeightFormat.STORED else ()
    tied = target.config.tie_word_embeddings
    weights = model.draft_weights(config, target.weights, tied, native)
    held = KINDS.get(target.format)
    lent = {name: Lent(its, held or target.weights.kind(its)) for name, its in weights.lent.items()}
    if config.rows and weights.float32(HEAD_IDS).max() >= target.config.vocab_size:
        raise _other_vocabulary(target, model)
    return InspectedModel(model, config, weights, fmt, lent)


def _unshared(
    target: InspectedModel, tokenizer: Tokenizer, draft: InspectedModel
) -> frozenset[int]:
    """Return the target's tokens that a draft without fusion does not know.

    Raises:
        NotPossible: the two have little in common.
    """
    ours, described = tokenizer.vocabulary, draft.model.config
    if isinstance(described, DraftOnly):
        same = described.vocabulary == fingerprint(ours)
        found: frozenset[int] | None = frozenset() if same else None
    elif not differing(ours, draft.model.tokens().ids):
        return frozenset()
    else:  # a tokenizer takes another file in the place of a damaged one
        found = unshared(ours, draft.model.tokenizer().vocabulary)
    if found is None:
        raise _other_vocabulary(target, draft.model)
    return found


def _other_vocabulary(target: InspectedModel, draft: LocalModel) -> UserFixable:
    return NotPossible(
        tr("{draft} cannot draft for {target}: the two models have different vocabularies.").format(
            draft=draft.name, target=target.model.name
        ),
        tr("Choose a draft of the same model family, or the lookup draft."),
    )
