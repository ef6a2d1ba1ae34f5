"""Failures: what a user can mend (`UserFixable`), bugs (everything else), and their event."""

from __future__ import annotations

import traceback
from dataclasses import replace
from time import perf_counter
from typing import ClassVar

from engine.events import Failed, FailureKind, WayOut
from engine.language import tr
from engine.machine.memory import Shortage


class UserFixable(Exception):
    """A failure with a cause in plain words and a next step for the user.

    Args:
        cause: what happened, one sentence.
        remedy: what to do about it, one sentence.
        details: technical detail for the "copy details" button and bug reports.
    """

    kind: ClassVar[FailureKind] = FailureKind.OTHER

    def __init__(self, cause: str, remedy: str, details: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy
        self.details = details
        self.said = ""
        """Text of the answer that ended with it."""

    def __str__(self) -> str:
        return f"{self.cause} {self.remedy}"


class Absent(UserFixable):
    """Something optional is missing: a GPU, a peer to compare with."""

    kind = FailureKind.ABSENT


class NotPossible(UserFixable):
    """A wish that cannot be met with this model; another wish can."""

    kind = FailureKind.NOT_POSSIBLE


class OutOfMemory(UserFixable):
    """Less memory is free than is needed.

    Attributes:
        shortage: what is missing, and where; None where nobody has counted.
        ways_out: loads that would fit, best first; None where nobody has looked for any.
    """

    kind = FailureKind.OUT_OF_MEMORY

    def __init__(
        self, cause: str, remedy: str, details: str = "", shortage: Shortage | None = None
    ) -> None:
        super().__init__(cause, remedy, details)
        self.shortage = shortage
        self.ways_out: tuple[WayOut, ...] | None = None


class DeviceLost(UserFixable):
    """An accelerator answers no more: unplugged, reset, driver restarted. What it held is gone."""


class ContextFull(UserFixable):
    """A conversation of `needed` tokens, where the context holds `available`."""

    kind = FailureKind.CONTEXT_FULL

    def __init__(self, cause: str, remedy: str, needed: int, available: int) -> None:
        super().__init__(cause, remedy)
        self.needed = needed
        self.available = available


class Cancelled(Exception):
    """Work was stopped by the user before it was done; not an error."""


class InvalidLogits(ArithmeticError):
    """The target produced NaN or infinite logits."""


def failed(error: BaseException, request_id: str | None, *, loading: bool = False) -> Failed:
    """Return an error as the event that tells of it, in plain words.

    Args:
        error: what came up.
        request_id: of the answer it belongs to, if it belongs to one.
        loading: whether it came up while a model was being loaded.
    """
    if not isinstance(error, UserFixable):
        return _unexpected(error, request_id)
    told = Failed(
        perf_counter(), request_id, error.cause, error.remedy, error.details, kind=error.kind
    )
    match error:
        case ContextFull():
            return replace(told, needed=error.needed, available=error.available)
        case OutOfMemory():
            if error.ways_out == ():
                told = replace(told, remedy=tr("Close other programs, or choose a smaller model."))
            return replace(told, shortage=error.shortage, ways_out=error.ways_out or ())
        case Absent() | NotPossible():
            return told
    return replace(told, kind=FailureKind.MODEL_UNUSABLE) if loading else told


def _unexpected(error: BaseException, request_id: str | None) -> Failed:
    """Return the event of an error without words of its own."""
    kind, bug = FailureKind.OTHER, False
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        kind = FailureKind.OUT_OF_MEMORY
        cause = tr("There is not enough free memory for this.")
        remedy = tr("Close other programs, choose a shorter context or a smaller model.")
    elif isinstance(error, InvalidLogits):
        kind = FailureKind.MODEL_UNUSABLE
        cause = tr("The model's output is not a number: its weights are damaged or do not fit.")
        remedy = tr("Download the model again, or choose another one.")
    else:
        bug = True
        cause = tr("Something went wrong inside Duotail.")
        remedy = tr("Try again; if it happens once more, please report it with the details.")
    details = "".join(traceback.format_exception(error))
    return Failed(perf_counter(), request_id, cause, remedy, details, bug=bug, kind=kind)
