"""Waiting for an engine's model, and its failures as exceptions."""

from __future__ import annotations

from queue import SimpleQueue

from engine.errors import Absent, OutOfMemory, UserFixable
from engine.events import Event, Failed, FailureKind, PlanReady, Unloaded
from engine.language import tr


def wait_for_model(events: SimpleQueue[Event]) -> PlanReady:
    """Take an engine's events until its model is loaded.

    Raises:
        UserFixable: it was not loaded.
    """
    failure: Failed | None = None
    while True:
        event = events.get()
        if isinstance(event, PlanReady):
            if failure is not None:  # the model before stays
                raise error_of(failure)
            return event
        if isinstance(event, Failed) and event.request_id is None:
            failure = event
        if isinstance(event, Unloaded):
            if failure is not None:
                raise error_of(failure)
            raise UserFixable(tr("The model was not loaded."), tr("Try again."))


def error_of(failure: Failed) -> UserFixable:
    """Return the exception for a failure of the engine."""
    if failure.kind is FailureKind.OUT_OF_MEMORY:
        full = OutOfMemory(failure.cause, failure.remedy, failure.details, failure.shortage)
        full.ways_out = failure.ways_out
        return full
    absent = failure.kind in (FailureKind.ABSENT, FailureKind.NEEDS_PYTORCH)
    kind = Absent if absent else UserFixable
    return kind(failure.cause, failure.remedy, failure.details)
