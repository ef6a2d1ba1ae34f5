"""The state of the engine, one value that follows from commands sent and events received."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from pathlib import Path

from app.engine_link.plan_texts import short_run_words
from engine.commands import Command, Connect, Generate, Load, Stop
from engine.events import (
    Calibrated,
    CalibrationProgress,
    Compared,
    CompareProgress,
    Connected,
    Event,
    Failed,
    Finished,
    LoadProgress,
    MachineFound,
    PlanReady,
    PlanSummary,
    PrefillProgress,
    TextDelta,
    Unloaded,
)
from engine.language import number, tr
from engine.language.units import minutes, seconds
from engine.machine.facts import Machine


class Phase(StrEnum):
    """States of the engine."""

    PREPARING = "preparing"
    """The engine itself is starting."""
    BROKEN = "broken"
    """The engine did not start."""
    NO_MODEL = "no model"
    LOADING = "loading"
    READY = "ready"
    WAITING = "waiting"
    """An answer was asked for and has not begun."""
    READING = "reading"
    WRITING = "writing"
    STOPPING = "stopping"


_ASIDE = "aside-"


def aside_id(number: int) -> str:
    """Return the id of a request that belongs to no chat: nothing of it is shown."""
    return f"{_ASIDE}{number}"


def is_aside(request_id: str) -> bool:
    """Return whether a request belongs to no chat."""
    return request_id.startswith(_ASIDE)


BUSY = frozenset({Phase.WAITING, Phase.READING, Phase.WRITING, Phase.STOPPING})
"""An answer is under way."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine's state as far as the window knows."""

    phase: Phase = Phase.PREPARING
    model_name: str = ""
    plan: PlanSummary | None = None
    stage: str = ""
    fraction: float = 0.0
    done: int = 0
    total: int = 0
    left_s: float | None = None
    """Seconds until the prompt is read, about; None: not known yet."""
    reading: PrefillProgress | None = None
    """The first that was told of the prompt being read."""
    request_id: str | None = None
    aside: str | None = None
    """An answer that goes nowhere is being written under this id, while nothing else is asked for.
    """
    machine: Machine | None = None
    """The machine that the last load found."""
    loaded: Load | None = None
    """How the model in memory was loaded; None: there is none, or it runs elsewhere."""
    wanted: Load | None = None
    """The load that is in force or under way, or was last; None: a server's model is wanted."""
    measured: float | None = None
    """Share of a calibration that is done; None while none is under way."""
    compared: float | None = None
    """Share of a comparison of modes that is done; None while none is under way."""

    @property
    def busy(self) -> bool:
        """True if an answer is under way."""
        return self.phase in BUSY

    @property
    def pending(self) -> bool:
        """True if a change waits for the end of an answer."""
        return self.busy and not same_load(self.wanted, self.loaded)

    @property
    def model(self) -> Path | None:
        """File or folder of the model in memory."""
        return None if self.loaded is None else self.loaded.model

    def told(self, command: Command) -> EngineStatus:
        """The status once `command` has been sent."""
        told = self
        if isinstance(command, Load | Connect):
            told = replace(self, wanted=command if isinstance(command, Load) else None)
        match command:
            case _ if self.phase is Phase.BROKEN:
                return told
            case Load(after_answer=True) if self.busy:
                return told
            case Load():
                return replace(told, phase=Phase.LOADING, stage="", fraction=0.0)
            case Generate(request) if is_aside(request.id):
                return replace(told, aside=request.id)
            case Generate(request):
                phase = self.phase if self.phase in {Phase.PREPARING, Phase.LOADING} else None
                return replace(told, phase=phase or Phase.WAITING, request_id=request.id)
            case Stop() if self.busy:
                return replace(told, phase=Phase.STOPPING)
        return told

    def after(self, event: Event) -> EngineStatus:
        """The status once `event` has come in."""
        match event:
            case LoadProgress(stage=stage, fraction=fraction):
                return replace(self, phase=Phase.LOADING, stage=stage, fraction=fraction)
            case MachineFound(machine=machine):
                return replace(self, machine=machine)
            case CalibrationProgress(fraction=fraction):
                return replace(self, measured=fraction)
            case Calibrated():
                return replace(self, measured=None)
            case CompareProgress(fraction=fraction):
                return replace(self, compared=fraction)
            case Compared():
                return replace(self, compared=None)
            case PlanReady(model_name=name, plan=plan, load=load):
                wanted = self.wanted if load is None else load
                told = replace(self, model_name=name, plan=plan, loaded=load, wanted=wanted)
                return told.settled()
            case Connected(place=place, plan=plan):
                told = replace(self, model_name=place.label, plan=plan, loaded=None, wanted=None)
                return told.settled()
            case Unloaded():
                return replace(self, model_name="", plan=None, loaded=None).settled()
            case PrefillProgress(done=done, total=total) if self._moves(event.request_id):
                begun = self.reading
                first = event if begun is None or begun.request_id != event.request_id else begun
                told = replace(self, phase=Phase.READING, done=done, total=total)
                return replace(told, reading=first, left_s=_left(first, event))
            case TextDelta() if self._moves(event.request_id):
                return replace(self, phase=Phase.WRITING)
            case Finished(request_id=request_id) if request_id == self.aside:
                return replace(self, aside=None)
            case Finished(request_id=request_id) if request_id == self.request_id:
                ended = replace(self, request_id=None)
                return ended if self.phase is Phase.LOADING else ended.settled()
            case Failed(request_id=None):
                return self.settled()
        return self

    def _moves(self, request_id: str) -> bool:
        """Return whether progress of this answer is news; a stopping answer stays stopping."""
        return request_id == self.request_id and self.phase is not Phase.STOPPING

    def settled(self) -> EngineStatus:
        """The phase that model and request imply when nothing is being loaded."""
        if self.request_id is not None:
            return replace(self, phase=Phase.WAITING)
        return replace(self, phase=Phase.NO_MODEL if self.plan is None else Phase.READY)

    @property
    def measuring(self) -> bool:
        """True if the engine is free, and uses the time to measure this PC."""
        return self.phase is Phase.READY and self.measuring_done is not None

    @property
    def measuring_done(self) -> float | None:
        """Return the share that is done of what is being measured."""
        return self.measured if self.compared is None else self.compared

    @property
    def words(self) -> str:
        """The state in a few words."""
        match self.phase:
            case Phase.PREPARING:
                return tr("Preparing the engine")
            case Phase.BROKEN:
                return tr("The engine did not start")
            case Phase.NO_MODEL:
                return tr("No model loaded")
            case Phase.LOADING:
                stage = self.stage or tr("Loading the model")
                return f"{stage} ({number(self.fraction, '.0%')})"
            case Phase.READY if self.compared is not None:
                done = number(self.compared, ".0%")
                return tr("Measuring every mode ({done})").format(done=done)
            case Phase.READY if self.measured is not None:
                done = number(self.measured, ".0%")
                return tr("Measuring this computer ({done})").format(done=done)
            case Phase.READY:
                return tr("Ready")
            case Phase.WAITING:
                return tr("Waiting for the model")
            case Phase.READING:
                share = number(self.done / max(self.total, 1), ".0%")
                if self.left_s is None:
                    return tr("Reading the prompt: {share}").format(share=share)
                words = tr("Reading the prompt: {share}, about {time} left")
                return words.format(share=share, time=_rounded(self.left_s))
            case Phase.WRITING:
                return tr("Writing")
            case Phase.STOPPING:
                return tr("Stopping")

    @property
    def plan_words(self) -> str:
        """Mode, split and draft of the loaded model in a few words."""
        if self.plan is None:
            return ""
        return short_run_words(self.plan, self.machine)


_LONG = 99
"""Seconds from which on a time is told in minutes."""
_FIRST_SECONDS = 2.0


def same_load(one: Load | None, other: Load | None) -> bool:
    """Return whether both come to the same, whenever that is."""
    return one is other if one is None or other is None else one.same_as(other)


def _left(first: PrefillProgress, now: PrefillProgress) -> float | None:
    """Return the seconds that the rest of a prompt takes at the pace since the first was told.

    The first tokens say little of the pace: None until a hundredth was read, and some seconds.
    """
    read, took = now.done - first.done, now.at - first.at
    if took < _FIRST_SECONDS or read * 100 < now.total - first.done or read <= 0:
        return None
    return (now.total - now.done) * took / read


def _rounded(span: float) -> str:
    """Return a time in whole seconds, or in whole minutes where it is long."""
    whole = max(ceil(span), 1)
    return seconds(whole, ".0f") if whole < _LONG else minutes(whole / 60, ".0f")
