"""Whatever goes wrong, as an event in plain words."""

from __future__ import annotations

import traceback
from dataclasses import replace
from time import perf_counter

from engine.errors import (
    Absent,
    ContextFull,
    InvalidLogits,
    NotPossible,
    OutOfMemory,
    UserFixable,
)
from engine.events import Failed, FailureKind
from engine.language import tr


def failed(error: BaseException, request_id: str | None, *, loading: bool = False) -> Failed:
    """The error in plain words; `loading`: it came up while a model was being loaded."""
    if isinstance(error, UserFixable):
        told = Failed(perf_counter(), request_id, error.cause, error.remedy, error.details)
        if isinstance(error, ContextFull):
            return replace(
                told,
                kind=FailureKind.CONTEXT_FULL,
                needed=error.needed,
                available=error.available,
            )
        if isinstance(error, OutOfMemory):
            return _out_of_memory(told, error)
        if isinstance(error, Absent):
            return replace(told, kind=FailureKind.ABSENT)
        unusable = loading and not isinstance(error, NotPossible)
        return replace(told, kind=FailureKind.MODEL_UNUSABLE) if unusable else told
    return _mistake(error, request_id)


def _out_of_memory(told: Failed, error: OutOfMemory) -> Failed:
    ways = error.ways_out
    if ways is not None and not ways:
        told = replace(told, remedy=tr("Close other programs, or choose a smaller model."))
    return replace(
        told,
        kind=FailureKind.OUT_OF_MEMORY,
        shortage=error.shortage,
        ways_out=ways or (),
    )


def _mistake(error: BaseException, request_id: str | None) -> Failed:
    """Return the failure of an error that nobody has put into words."""
    now = perf_counter()
    details = "".join(traceback.format_exception(error))
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return Failed(
            now,
            request_id,
            tr("There is not enough free memory for this."),
            tr("Close other programs, choose a shorter context or a smaller model."),
            details,
            kind=FailureKind.OUT_OF_MEMORY,
        )
    if isinstance(error, InvalidLogits):
        return Failed(
            now,
            request_id,
            tr("The model's output is not a number: its weights are damaged or do not fit."),
            tr("Download the model again, or choose another one."),
            details,
            kind=FailureKind.MODEL_UNUSABLE,
        )
    return Failed(
        now,
        request_id,
        tr("Something went wrong inside Duotail."),
        tr("Try again; if it happens once more, please report it with the details."),
        details,
        bug=True,
    )
