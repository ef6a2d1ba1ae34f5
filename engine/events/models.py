"""Models that are loaded, planned and given up."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from engine.commands import Connect, KvType, Load, Mode, QuestionId
from engine.events.failures import Failed
from engine.machine.facts import Machine
from engine.machine.memory import DeviceMemory
from engine.machine.speeds import Speeds
from engine.request import SamplingParams


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Best plan under a ceiling, from `vram` bytes on until the next point.

    Attributes:
        mode: the resulting mode, as in `engine.plan.plan.Plan`, like the fields after it.
        memory: memory by device, the CPU first.
    """

    vram: int
    layers_on_gpu: int
    mode: Mode
    draft_device: str | None
    tokens_per_s: float
    plain_tokens_per_s: float
    memory: tuple[DeviceMemory, ...]
    embedding_on_gpu: bool = False
    head_on_gpu: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """All ceilings for one wished mode.

    Attributes:
        mode: the wish.
        points: by `vram`, each faster than the one before or else nearer to the wish; empty where
            nothing fits.
        limit: the most bytes that the accelerator may hold now; 0 without one.
        knee: the smallest ceiling with about the best speed.
        layers: blocks of the target.
        context: planned tokens.
        refusal: why there are no points, in words.
    """

    mode: Mode
    points: tuple[CurvePoint, ...]
    limit: int
    knee: int
    layers: int
    context: int
    refusal: str = ""

    @property
    def at_best(self) -> CurvePoint:
        """Return the point of the knee, of a curve that has points."""
        return self.at() or self.points[-1]

    def at(self, vram: int | None = None) -> CurvePoint | None:
        """Return the point of a ceiling, by default the knee's; None where nothing fits."""
        ceiling = self.knee if vram is None else vram
        place = bisect_right(self.points, ceiling, key=lambda point: point.vram)
        return self.points[place - 1] if place else None


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Plan of the loaded pair, with the reasons in words."""

    mode: Mode
    target_device: str
    draft_device: str | None
    draft: str | None
    """Name of the draft model or head, "lookup", both joined with " + ", or None."""
    context: int
    signature: str
    """The numeric signature: weight format, KV type, device class. Text is a function of it."""
    reasons: tuple[str, ...]
    target_bytes: int = 0
    kv_bytes: int = 0
    can_think: bool = False
    """Whether the model's template knows how to switch thinking on and off."""
    continues: bool = False
    """Whether the model has no chat template: it continues text rather than answering."""
    context_limit: int = 0
    """The longest context the model itself can handle; 0: not known."""
    caveat: str = ""
    """What this model cannot do that others can, for the user to know before the first answer."""
    layers: int = 0
    """Blocks of the target."""
    layers_on_gpu: int = 0
    tokens_per_s: float | None = None
    """Predicted; None where nothing was measured yet."""
    memory: tuple[DeviceMemory, ...] = ()
    """What the plan takes on each device, the CPU first."""
    knee: int | None = None
    """The smallest VRAM budget from which on the speed is about the best."""
    measured: bool = True
    """Whether the prediction rests on what calibration measured here."""
    draft_is_head: bool = False
    """Whether what drafts is a feature head."""
    embedding_on_gpu: bool = False
    head_on_gpu: bool = False
    kv: KvType = KvType.F16
    """Type of keys and values on the CPU."""
    sampling: SamplingParams | None = None
    """Sampling that the model's own files recommend; None where they recommend none."""
    has_mtp: bool | None = None
    """Whether the model's files hold an MTP head, which drafts for it; None: models of its
    family bring none."""
    host: str = ""
    """Server that computes, as in "192.168.1.5:8000"; "" where this computer's engine does."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A model is being loaded; `fraction` runs from 0 to 1."""

    at: float
    stage: str
    fraction: float


@dataclass(frozen=True, slots=True)
class MachineFound:
    """The machine as a load found it: it plans with what of this is usable."""

    at: float
    machine: Machine


@dataclass(frozen=True, slots=True)
class PlanReady:
    """The model is loaded and answers can be asked for."""

    at: float
    model: Path
    model_name: str
    plan: PlanSummary
    load: Load | None = None
    """What was asked for; after a load that came to nothing, what the present model was loaded as.
    """
    moved: bool = False
    """Whether the engine has moved the model by itself, since it should be faster there."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A model on a server answers from now on; nothing has been sent to it yet.

    `plan` says where (`PlanSummary.host`); of how it runs there it knows nothing.
    """

    at: float
    place: Connect
    plan: PlanSummary


@dataclass(frozen=True, slots=True)
class Unloaded:
    """No model is in memory any more."""

    at: float


@dataclass(frozen=True, slots=True)
class Previewed:
    """The answer to `Preview`.

    Attributes:
        machine: what is here now, the memory of the present model counted as free.
        plan: None where it cannot be loaded so, and `refusal` says why.
        curves: one per mode that this machine and these models can run in at all, the one that was
            asked for first. Such a mode that finds no room is there too, with its refusal.
        speeds: what the predictions rest on, as far as it is known.
    """

    at: float
    load: Load
    machine: Machine
    plan: PlanSummary | None
    curves: tuple[Curve, ...] = ()
    refusal: Failed | None = None
    speeds: Speeds | None = None
    id: QuestionId = field(default_factory=QuestionId)


@dataclass(frozen=True, slots=True)
class DraftHere:
    """A draft on this disk, with its name for people."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class DraftsFound:
    """The answer to `FindDrafts`: models and heads that can draft, the most promising first."""

    at: float
    model: Path
    drafts: tuple[DraftHere, ...]
    id: QuestionId = field(default_factory=QuestionId)
