"""Whether what a `Load` command names can be loaded: files checked, formats chosen, planned.

Nothing large is allocated, so an unusable model costs nothing and the one in memory can stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from engine.backend.cpu import choose_format
from engine.backend.native.matrix import NATIVE_KINDS
from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.draft.vocabulary import same_tokens
from engine.errors import Absent, NotPossible, UserFixable
from engine.events import PlanSummary
from engine.hub.local import LocalModel
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.other_family import OtherConfig
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.safetensors_folder import SafetensorsFolder
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.footprint import (
    Footprint,
    footprint,
    other_footprint,
    stored_footprint,
    weight_count,
)
from engine.plan.machine import Host, Machine
from engine.plan.plan import Plan
from engine.plan.planner import caveat, plan
from engine.plan.speeds import Speeds
from engine.reading import StoredWeights

USUAL_ACCEPTANCE = 0.7
"""Of a draft that nobody has measured: a small model of the target's family."""
_SHARE_FOR_F32 = 0.8
"""Of the free memory: a model of another family that takes more is held in 16 bits."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A model whose files are known to be usable, nothing large in memory yet."""

    model: LocalModel
    weights: StoredWeights
    format: WeightFormat

    @property
    def facts(self) -> ModelFacts:
        """What the planner wants to know."""
        config = self.model.config
        other = config.family if isinstance(config, OtherConfig) else ""
        return ModelFacts(self.model.name, self._footprint, config.max_positions, other)

    @property
    def _footprint(self) -> Footprint:
        config, weights = self.model.config, self.weights
        if isinstance(config, OtherConfig):
            numbers = sum(prod(weights.shape(name)) for name in weights.names())
            return other_footprint(config, numbers, self.format)
        if self.format is WeightFormat.STORED:
            kinds = {name: weights.kind(name) for name in weights.names()}
            return stored_footprint(config, kinds, self.model.kind)
        return footprint(config, self.format)


@dataclass(frozen=True, slots=True)
class CheckedPair:
    """Target and draft, checked and planned."""

    command: Load
    target: Checked
    draft: Checked | None
    lookup: bool
    forced: bool
    tokenizer: Tokenizer
    template: ChatTemplate
    plan: PlanSummary
    memory_available: int

    @property
    def nbytes(self) -> int:
        """Memory that the loaded pair will take."""
        return self.plan.target_bytes + self.plan.draft_bytes + self.plan.kv_bytes


def check(command: Load, memory_available: int) -> CheckedPair:
    """Read and check all files but the weights themselves, and plan.

    Args:
        command: what to load.
        memory_available: bytes free once the present model is gone.

    Raises:
        UserFixable: in words for the user.
    """
    try:
        return _check(command, memory_available)
    except OSError as error:  # a folder one may not look into, a drive that is gone
        raise UserFixable(
            tr("The model's files cannot be read."),
            tr("Check that the drive is connected and that you may read the folder."),
            str(error),
        ) from error


def _check(command: Load, memory_available: int) -> CheckedPair:
    if any(
        wish is not None for wish in (command.vram, command.layers_on_gpu, command.simulate_gpu)
    ):
        raise Absent(
            tr("This version runs on the CPU only: it has no accelerator, real or simulated."),
            tr("Leave out --vram, --layers-on-gpu and --simulate-gpu."),
        )
    target = _check_model(command.model, command.weights, memory_available)
    tokenizer, template = target.model.tokenizer(), target.model.template()
    wish_draft = command.draft
    alone = isinstance(target.model.config, OtherConfig) or command.mode is Mode.PLAIN
    if alone or wish_draft is DraftChoice.NONE:
        draft, lookup = None, False
    else:
        draft = _draft_of(target, wish_draft, memory_available)
        lookup = wish_draft in (DraftChoice.AUTO, DraftChoice.LOOKUP)
    if draft is not None:
        _check_vocabulary(target, tokenizer, draft)
    forced = command.mode is Mode.CPU or wish_draft is not DraftChoice.AUTO
    wish = Wish(command.mode, command.context, lookup, forced)
    machine = Machine(Host(1, memory_available, memory_available))
    drafts = [DraftFacts(draft.facts, USUAL_ACCEPTANCE)] if draft else []
    planned = plan(machine, Speeds({}), target.facts, drafts, wish)
    summary = _summary(planned, target, draft, template)
    return CheckedPair(
        command=command,
        target=target,
        draft=draft,
        lookup=lookup,
        forced=forced,
        tokenizer=tokenizer,
        template=template,
        plan=summary,
        memory_available=memory_available,
    )


def _summary(
    planned: Plan, target: Checked, draft: Checked | None, template: ChatTemplate
) -> PlanSummary:
    """The plan in the words of events."""
    chosen = [draft.model.name] if draft and planned.draft is not None else []
    sources = [*chosen, "lookup"] if planned.lookup else chosen
    facts = target.facts
    return PlanSummary(
        mode=planned.mode,
        target_device="CPU",
        draft_device="CPU" if sources else None,
        draft=" + ".join(sources) or None,
        context=planned.context,
        signature="",
        reasons=planned.reasons,
        target_bytes=sum(memory.target for memory in planned.memory),
        draft_bytes=sum(memory.draft for memory in planned.memory),
        kv_bytes=sum(memory.kv for memory in planned.memory),
        can_think=template.can_think,
        context_limit=facts.max_positions,
        caveat=caveat(facts),
        layers=len(facts.footprint.blocks),
        layers_on_gpu=planned.layers_on_gpu,
        tokens_per_s=planned.tokens_per_s,
        memory=planned.memory,
        knee=planned.knee,
    )


def _check_model(path: Path, wish: WeightFormat, memory_available: int) -> Checked:
    model = LocalModel.inspect(path)
    if isinstance(model.config, OtherConfig):
        return _check_other(model, wish, memory_available)
    _, weights, fmt = own_model(model, wish)
    return Checked(model, weights, fmt)


def own_model(
    model: LocalModel, wish: WeightFormat
) -> tuple[ModelConfig, ModelWeights, WeightFormat]:
    """What Duotail's own decoder needs of a model, and the format that serves it.

    Raises:
        NotPossible: the model runs through transformers.
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
    quantised = model.gguf is not None or model.kind == "MXFP4"  # gpt-oss in safetensors
    fmt = choose_format(wish, weight_count(config), quantised=quantised)
    native = NATIVE_KINDS if fmt is WeightFormat.STORED else ()
    return config, model.own_weights(config, native), fmt


def _check_other(model: LocalModel, wish: WeightFormat, memory_available: int) -> Checked:
    """A model that transformers runs: all of it in floats."""
    if wish is WeightFormat.AUTO:
        whole = Checked(model, SafetensorsFolder.open(model.path), WeightFormat.F32)
        fits = whole.facts.footprint.weight_bytes <= memory_available * _SHARE_FOR_F32
        return whole if fits else replace(whole, format=WeightFormat.BF16)
    if wish not in (WeightFormat.F32, WeightFormat.BF16):
        raise NotPossible(
            tr(
                "{model} cannot be held in {wish}: it runs through the transformers library."
            ).format(model=model.name, wish=wish),
            tr("Choose the format auto, f32 or bf16."),
        )
    return Checked(model, SafetensorsFolder.open(model.path), wish)


def _draft_of(target: Checked, choice: Path | DraftChoice, memory_available: int) -> Checked | None:
    """The draft model that was chosen, or that belongs to the target."""
    path = choice if isinstance(choice, Path) else target.model.draft
    if path is None or choice is DraftChoice.LOOKUP:
        return None
    draft = _check_model(path, WeightFormat.AUTO, memory_available)
    if isinstance(draft.model.config, OtherConfig):
        raise NotPossible(
            tr(
                "{draft} cannot draft: Duotail has no decoder of its own for “{family}” models."
            ).format(draft=draft.model.name, family=draft.model.config.family),
            tr("Choose another draft, or the lookup draft."),
        )
    return draft


def _check_vocabulary(target: Checked, tokenizer: Tokenizer, draft: Checked) -> None:
    """A stand-alone draft must speak the target's tokens."""
    if same_tokens(tokenizer, draft.model.tokenizer()):
        return
    raise NotPossible(
        tr("{draft} cannot draft for {target}: the two models have different vocabularies.").format(
            draft=draft.model.name, target=target.model.name
        ),
        tr("Choose a draft of the same model family, or the lookup draft."),
    )
