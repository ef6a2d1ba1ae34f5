"""What the engine thread tells the world: frozen, picklable, in order, on one clock.

`at` and every interval are seconds of `time.perf_counter` in the engine's process. Text offsets
count UTF-16 code units from the start of the answer, because that is what Qt counts.
"""

from __future__ import annotations

from engine.events.answers import (
    BUSY_CPU,
    Alternative,
    AnswerStats,
    Counted,
    Finished,
    FinishReason,
    Guess,
    Origin,
    PrefillProgress,
    PromptRead,
    PromptToken,
    Received,
    RoundFinished,
    TextDelta,
    TokenSpan,
)
from engine.events.devices import AcceleratorSample, DeviceHeld, DeviceSample, HeldLine, MemoryHeld
from engine.events.failures import Failed, FailureKind, WayOut
from engine.events.intervals import Interval, hull
from engine.events.measurements import (
    Calibrated,
    CalibrationProgress,
    Compared,
    CompareProgress,
    ModeRun,
)
from engine.events.models import (
    Connected,
    DraftHere,
    DraftsFound,
    LoadProgress,
    MachineFound,
    PlanReady,
    PlanSummary,
    Previewed,
    Unloaded,
)

__all__ = [
    "BUSY_CPU",
    "AcceleratorSample",
    "Alternative",
    "AnswerStats",
    "Calibrated",
    "CalibrationProgress",
    "CompareProgress",
    "Compared",
    "Connected",
    "Counted",
    "DeviceHeld",
    "DeviceSample",
    "DraftHere",
    "DraftsFound",
    "Event",
    "Failed",
    "FailureKind",
    "FinishReason",
    "Finished",
    "Guess",
    "HeldLine",
    "Interval",
    "LoadProgress",
    "MachineFound",
    "MemoryHeld",
    "ModeRun",
    "Origin",
    "PlanReady",
    "PlanSummary",
    "PrefillProgress",
    "Previewed",
    "PromptRead",
    "PromptToken",
    "Received",
    "Reply",
    "RoundFinished",
    "TextDelta",
    "TokenSpan",
    "Unloaded",
    "WayOut",
    "hull",
]

Event = (
    LoadProgress
    | MachineFound
    | Previewed
    | DraftsFound
    | PlanReady
    | Connected
    | Unloaded
    | PrefillProgress
    | PromptRead
    | TextDelta
    | Received
    | RoundFinished
    | Counted
    | CalibrationProgress
    | Calibrated
    | CompareProgress
    | Compared
    | MemoryHeld
    | DeviceSample
    | Finished
    | Failed
)

Reply = Counted | Previewed | DraftsFound
"""Answers to questions; each has the `id` of its own."""
