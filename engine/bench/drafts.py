"""Drafts of random weights by name: a small model, feature heads, another published shape."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from engine.bench.random_model import DRAFT_FORMAT, RandomModel
from engine.bench.shapes import SHAPES, draft_shape, head_shape
from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import Fusion, ModelConfig

SMALL = "small"
"""A few million weights beside its matrix of all tokens."""
NAMES = "small|dgf-1..9|eagle|eagle3|S"
"""For people; S is a published shape."""

_DGF = re.compile(r"dgf-([1-9])")
_EAGLE3_ROWS = 32000
"""Tokens that published EAGLE-3 heads can propose, where their targets have more."""


@dataclass(frozen=True, slots=True)
class RandomPair:
    """Two models of random weights, of which one drafts for the other."""

    target: RandomModel
    draft: RandomModel

    @classmethod
    def published(
        cls, shape: str, wanted: str, draft: str = SMALL, draft_wanted: str = DRAFT_FORMAT
    ) -> RandomPair:
        """A published shape and a draft for it, see `random_draft`.

        Raises:
            UserFixable: there is none of that name.
        """
        target = RandomModel.published(shape, wanted)
        return cls(target, random_draft(target, draft, draft_wanted))


def random_draft(target: RandomModel, name: str, wanted: str = DRAFT_FORMAT) -> RandomModel:
    """A draft for this target; what a head borrows has the target's types.

    Args:
        name: see `NAMES`.
        wanted: how its own weights are held, one of `engine.bench.recipes.FORMATS`.

    Raises:
        UserFixable: there is none of that name.
    """
    if name == SMALL:
        return RandomModel(SMALL, draft_shape(target.config), wanted, seed=1)
    head = _head(name, target.config)
    if head is not None:
        return RandomModel(name, head, wanted, seed=1, lender=target)
    if name not in SHAPES:
        raise UserFixable(
            tr("There is no draft “{name}”.").format(name=name),
            tr("Choose one of {known}, where S is a published shape.").format(known=NAMES),
        )
    found = RandomModel.published(name, wanted)
    config = replace(found.config, vocab_size=target.config.vocab_size)
    return replace(found, config=config, seed=1)


def _head(name: str, target: ModelConfig) -> ModelConfig | None:
    hidden = target.hidden_size
    if found := _DGF.fullmatch(name):
        return head_shape(target, Fusion("dgf", hidden), int(found[1]))
    if name == "eagle":
        return head_shape(target, Fusion("linear", hidden, bias=True), 1)
    if name == "eagle3":
        last = target.num_layers - 1
        taps = min(1, last), last // 2, max(last - 3, 0)
        rows = _EAGLE3_ROWS if target.vocab_size > _EAGLE3_ROWS else None
        head = head_shape(target, Fusion("eagle3", hidden, taps, own_head=True), 1)
        return replace(head, rows=rows)
    return None
