"""A model whose files were looked at: what is built of it, and in which format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path

from engine.backend.cpu import choose_format, native_is_built
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.shared import Lent
from engine.commands import KvType, WeightFormat
from engine.errors import NotPossible
from engine.language import tr
from engine.model.config import Fusion, ModelConfig
from engine.model.heads.description import DraftOnly, alone
from engine.model.local_model import LocalModel
from engine.model.other_family import OtherConfig
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import StoredWeights
from engine.model.weights.safetensors_folder import SafetensorsFolder
from engine.plan.facts import ModelFacts
from engine.plan.footprint import (
    KINDS,
    Footprint,
    footprint,
    other_footprint,
    stored_footprint,
    weight_count,
)

_CLEARLY_LESS = 0.9
_SHARE_FOR_F32 = 0.8
"""Share of the free memory; a model of another family that takes more is held in 16 bits."""


@dataclass(frozen=True)
class InspectedModel:
    """A model whose files are known to be usable, nothing large in memory yet.

    Attributes:
        config: what is built; for a head, the config it has together with its target.
        format: how matrices are held, a head's own at least.
        lent: what a head borrows -> the target's name of it, and how the target holds it.
        kv: the type that was asked for keys and values; `facts` say which one they have.
    """

    model: LocalModel
    config: ModelConfig | OtherConfig
    weights: StoredWeights
    format: WeightFormat
    lent: Mapping[str, Lent] = field(default_factory=dict)
    kv: KvType = KvType.F16

    @classmethod
    def of(cls, path: Path, wish: WeightFormat, memory_available: int) -> InspectedModel:
        """Look at a model that can run by itself.

        Args:
            path: a folder or a GGUF file.
            wish: the format that was asked for.
            memory_available: bytes of the host that are free.

        Raises:
            UserFixable: it cannot be used, or not in this format.
        """
        model = LocalModel.inspect(path)
        if isinstance(model.config, OtherConfig):
            return _of_other_family(model, model.config, wish, memory_available)
        return cls(model, *own_model(model, wish))

    @property
    def fusion(self) -> Fusion | None:
        """The features a head takes from its target; None for every other model."""
        return self.config.fusion if isinstance(self.config, ModelConfig) else None

    @cached_property  # a plan asks often, and thousands of experts are counted for it
    def facts(self) -> ModelFacts:
        """The planner's view of it."""
        config = self.config
        other = config.family if isinstance(config, OtherConfig) else ""
        return ModelFacts(self.model.name, self._footprint, config.max_positions, other)

    @property
    def smaller_formats(self) -> list[WeightFormat]:
        """Formats in which its weights would take clearly less, the largest first."""
        if isinstance(self.config, OtherConfig):
            return [WeightFormat.BF16] if self.format is WeightFormat.F32 else []
        if not native_is_built():
            return []
        most = self.facts.footprint.weight_bytes * _CLEARLY_LESS
        formats = (WeightFormat.Q8, WeightFormat.Q4)
        return [each for each in formats if footprint(self.config, each).weight_bytes <= most]

    @property
    def has_kv_choice(self) -> bool:
        """Tell whether its keys and values can be in 8 bits on the CPU."""
        return isinstance(self.config, ModelConfig) and self.format is not WeightFormat.F32

    def borrowing(self, held: WeightFormat) -> InspectedModel:
        """Return this head as it would be if its target held its weights in another format."""
        kind = KINDS[held]
        return replace(
            self, lent={name: replace(each, kind=kind) for name, each in self.lent.items()}
        )

    @property
    def _footprint(self) -> Footprint:
        config, weights = self.config, self.weights
        if isinstance(config, OtherConfig):
            numbers = sum(prod(weights.shape(name)) for name in weights.names())
            return other_footprint(config, numbers, self.format)
        lent = {name: each.kind for name, each in self.lent.items()}
        if self.format is WeightFormat.STORED:
            kinds = {name: weights.kind(name) for name in weights.names()}
            return stored_footprint(config, kinds | lent, self.model.kind, self.kv)
        return footprint(config, self.format, lent, self.kv)


def own_model(
    model: LocalModel, wish: WeightFormat
) -> tuple[ModelConfig, ModelWeights, WeightFormat]:
    """Return what Duotail's own decoder needs of a model, and the format that serves it.

    Raises:
        NotPossible: the model runs through transformers, or only drafts for another.
        Absent: the format needs the native backend, which is not built.
    """
    config = model.config
    if isinstance(config, OtherConfig):
        raise NotPossible(
            tr("Duotail has no decoder of its own for “{family}” models.").format(
                family=config.family
            ),
            tr("Choose a model of another family."),
        )
    if isinstance(config, DraftOnly):
        raise alone(model.name, config)
    quantised = model.gguf is not None or model.kind == "MXFP4"  # gpt-oss in safetensors
    fmt = choose_format(wish, weight_count(config), quantised=quantised)
    if fmt is WeightFormat.F32 and config.recurrent:
        raise NotPossible(
            tr("Models with recurrent states need Duotail's native CPU backend."),
            tr("Choose another format than f32; if there is no other, install a C compiler."),
        )
    native = NATIVE_KINDS if fmt is WeightFormat.STORED else ()
    return config, model.own_weights(config, native), fmt


def _of_other_family(
    model: LocalModel, config: OtherConfig, wish: WeightFormat, memory_available: int
) -> InspectedModel:
    """A model that the transformers library runs: all of it in floats."""
    if wish is WeightFormat.AUTO:
        whole = InspectedModel(model, config, SafetensorsFolder.open(model.path), WeightFormat.F32)
        fits = whole.facts.footprint.weight_bytes <= memory_available * _SHARE_FOR_F32
        return whole if fits else replace(whole, format=WeightFormat.BF16)
    if wish not in (WeightFormat.F32, WeightFormat.BF16):
        raise NotPossible(
            tr(
                "{model} cannot be held in {wish}: it runs through the transformers library."
            ).format(model=model.name, wish=wish),
            tr("Choose the format auto, f32 or bf16."),
        )
    return InspectedModel(model, config, SafetensorsFolder.open(model.path), wish)
