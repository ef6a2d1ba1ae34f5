"""A model of random weights: what the planner is told of it, and where its weights come from."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.shared import Lent
from engine.bench.recipes import tensor_kinds
from engine.bench.shapes import shape
from engine.model.config import ModelConfig
from engine.model.tensors import borrowed_tensors
from engine.model.weights.random_weights import RandomWeights
from engine.plan.facts import ModelFacts
from engine.plan.footprint import stored_footprint

DRAFT_FORMAT = "q8_0"
"""Format of drafts, which are small."""


@dataclass(frozen=True, slots=True)
class RandomModel:
    """A shape in one of `engine.bench.recipes.FORMATS`.

    `lender`: of a feature head, the target; what the head borrows has the types that it has there.
    """

    name: str
    config: ModelConfig
    wanted: str
    seed: int = 0
    lender: RandomModel | None = None

    @classmethod
    def published(cls, name: str, wanted: str) -> RandomModel:
        """One of the published shapes.

        Raises:
            UserFixable: there is none of that name.
        """
        return cls(name, shape(name), wanted)

    @property
    def kinds(self) -> dict[str, str]:
        """The type of every matrix."""
        kinds = tensor_kinds(self.config, self.wanted)
        return kinds | {name: lent.kind for name, lent in self.lent.items()}

    @property
    def lent(self) -> dict[str, Lent]:
        """Tensors that it borrows, by its own names."""
        if self.lender is None:
            return {}
        kinds, names = self.lender.kinds, borrowed_tensors(self.config)
        return {name: Lent(name, kinds[name]) for name in names if name in kinds}

    @property
    def facts(self) -> ModelFacts:
        """Facts for the planner."""
        kinds = {name: kind if kind in NATIVE_KINDS else "F32" for name, kind in self.kinds.items()}
        held = stored_footprint(self.config, kinds, self.wanted.upper())
        return ModelFacts(self.name, held, self.config.max_positions)

    def weights(self, *, as_stored: bool = False) -> RandomWeights:
        """Made on demand, in types that our segments read or as a file would have them."""
        readable = None if as_stored else NATIVE_KINDS
        return RandomWeights(self.config, self.kinds, self.seed, readable)
