"""Measurements of this machine and of its modes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.commands import Mode
from engine.events.models import PlanSummary
from engine.machine.speeds import Speeds


@dataclass(frozen=True, slots=True)
class CalibrationProgress:
    """The machine is being measured; `fraction` runs from 0 to 1."""

    at: float
    stage: str
    fraction: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The end of a `Calibrate`; without speeds it was called off, or failed."""

    at: float
    speeds: Speeds | None


@dataclass(frozen=True, slots=True)
class ModeRun:
    """Measurements of one mode in a `Compare`; medians over its answers.

    Attributes:
        plan: as it was loaded; None where it could not be, and `refusal` says why.
        answers: number of answers that were long enough to measure a speed.
        lowest, highest: tokens per second of its slowest and fastest answer.
        speeds: tokens per second of each answer, in the order of requests, which is the same in
            all modes; None for those that were too short.
        same_as: it would run as this mode does, and was not measured for itself.
    """

    mode: Mode
    plan: PlanSummary | None
    answers: int = 0
    tokens_per_s: float | None = None
    lowest: float | None = None
    highest: float | None = None
    ttft_s: float | None = None
    acceptance_length: float | None = None
    refusal: str = ""
    speeds: tuple[float | None, ...] = ()
    same_as: Mode | None = None


@dataclass(frozen=True, slots=True)
class CompareProgress:
    """A comparison is under way; `fraction` runs from 0 to 1.

    `mode`: the one that has its turn; `loading`: its models are being loaded; `runs`: what is known
    so far, in the order in which modes are offered; `again`: the speeds lay too far apart, so that
    all is measured once more.
    """

    at: float
    mode: Mode
    fraction: float
    runs: tuple[ModeRun, ...] = ()
    loading: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """The end of a `Compare`.

    The model runs again as it did before, which a PlanReady has said, unless another load is to
    come: the user's, or one without an accelerator that was lost.

    Attributes:
        model: an empty path where none was loaded.
        complete: it was not called off and did not fail.
        winner: the mode to use from now on, where it is complete; the automatic choice wherever
            nothing is clearly faster than that.
        noisy: the speeds lie too far apart to tell the fastest mode, although all was measured
            twice.
    """

    at: float
    model: Path
    runs: tuple[ModeRun, ...]
    complete: bool
    winner: Mode | None = None
    noisy: bool = False
