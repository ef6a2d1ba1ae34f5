"""Models of random weights: published shapes, and drafts for them by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.shared import Lent
from engine.bench.recipes import tensor_kinds
from engine.bench.shapes import SHAPES, draft_shape, head_shape, shape
from engine.commands import KvType
from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import Fusion, ModelConfig
from engine.model.heads.own import mtp_head
from engine.model.tensors import HEAD, borrowed_tensors
from engine.model.text.shortlist import OWN_ROWS, shortened
from engine.model.weights.random_weights import RandomWeights
from engine.plan.facts import ModelFacts
from engine.plan.footprint import stored_footprint

DRAFT_FORMAT = "q8_0"
"""Format of drafts in files of their own, which are small."""
MTP = "mtp"
SMALL = "small"
"""A few million weights beside its matrix of all tokens."""
NAMES = "small|dgf-1..9|eagle|eagle3|mtp|S"
"""For people; S is a published shape."""

_DGF = re.compile(r"dgf-([1-9])")
_EAGLE3_ROWS = 32000
"""Tokens that published EAGLE-3 heads can propose, where their targets have more."""


@dataclass(frozen=True, slots=True)
class RandomModel:
    """A shape in one of `engine.bench.recipes.FORMATS`.

    `lender`: of a feature head, the target; what the head borrows has the types that it has there.
    `kv`: type of keys and values.
    """

    name: str
    config: ModelConfig
    wanted: str
    seed: int = 0
    lender: RandomModel | None = None
    kv: KvType = KvType.F16

    @classmethod
    def published(cls, name: str, wanted: str, kv: KvType = KvType.F16) -> RandomModel:
        """One of the published shapes.

        Raises:
            UserFixable: there is none of that name.
        """
        return cls(name, shape(name), wanted, kv=kv)

    @property
    def kinds(self) -> dict[str, str]:
        """The type of every matrix."""
        kinds = tensor_kinds(self.config, self.wanted)
        return kinds | {name: lent.kind for name, lent in self.lent.items()}

    @property
    def lent(self) -> dict[str, Lent]:
        """Tensors that it borrows, by its own names; a shortlist's rows are its own."""
        if self.lender is None:
            return {}
        kinds, names = self.lender.kinds, set(borrowed_tensors(self.config))
        if self.config.rows is not None:
            names.discard(HEAD)
        return {name: Lent(name, kinds[name]) for name in names if name in kinds}

    @property
    def facts(self) -> ModelFacts:
        """Facts for the planner."""
        kinds = {name: kind if kind in NATIVE_KINDS else "F32" for name, kind in self.kinds.items()}
        held = stored_footprint(self.config, kinds, self.wanted.upper(), self.kv)
        return ModelFacts(self.name, held, self.config.max_positions)

    def weights(self, *, as_stored: bool = False) -> RandomWeights:
        """Made on demand, in types that our segments read or as a file would have them."""
        readable = None if as_stored else NATIVE_KINDS
        return RandomWeights(self.config, self.kinds, self.seed, readable)


@dataclass(frozen=True, slots=True)
class RandomPair:
    """Two models of random weights, of which one drafts for the other."""

    target: RandomModel
    draft: RandomModel

    @classmethod
    def published(
        cls,
        shape: str,
        wanted: str,
        draft: str = SMALL,
        draft_wanted: str | None = None,
        kv: KvType = KvType.F16,
    ) -> RandomPair:
        """A published shape and a draft for it, see `random_draft`.

        Raises:
            UserFixable: there is none of that name.
        """
        target = RandomModel.published(shape, wanted, kv)
        return cls(target, random_draft(target, draft, draft_wanted))


def random_draft(target: RandomModel, name: str, wanted: str | None = None) -> RandomModel:
    """A draft for this target; what a head borrows has the target's types, and so has its KV cache.

    Args:
        name: see `NAMES`.
        wanted: how its own weights are held, one of `engine.bench.recipes.FORMATS`. None: as is
            usual, and as the target's where the draft lies in its file (MTP).

    Raises:
        UserFixable: there is none of that name.
    """
    wanted = wanted or (target.wanted if name == MTP else DRAFT_FORMAT)
    if name == SMALL:
        return RandomModel(SMALL, draft_shape(target.config), wanted, seed=1, kv=target.kv)
    head = _head(name, target.config)
    if head is not None:
        return RandomModel(name, head, wanted, seed=1, lender=target, kv=target.kv)
    if name not in SHAPES:
        raise UserFixable(
            tr("There is no draft “{name}”.").format(name=name),
            tr("Choose one of {known}, where S is a published shape.").format(known=NAMES),
        )
    found = RandomModel.published(name, wanted, target.kv)
    config = replace(found.config, vocab_size=target.config.vocab_size)
    return replace(found, config=config, seed=1)


def _head(name: str, target: ModelConfig) -> ModelConfig | None:
    hidden = target.hidden_size
    if found := _DGF.fullmatch(name):
        return head_shape(target, Fusion("dgf", hidden), int(found[1]))
    if name == "eagle":
        return head_shape(target, Fusion("linear", hidden, bias=True), 1)
    if name == MTP and (own := mtp_head(target)) is not None:
        return shortened(own.config, OWN_ROWS)
    if name == "eagle3":
        last = target.num_layers - 1
        taps = min(1, last), last // 2, max(last - 3, 0)
        rows = _EAGLE3_ROWS if target.vocab_size > _EAGLE3_ROWS else None
        head = head_shape(target, Fusion("eagle3", hidden, taps, own_head=True), 1)
        return replace(head, rows=rows)
    return None
