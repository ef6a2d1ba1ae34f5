"""The two kinds of failure: what a user can mend (`UserFixable`), and bugs (everything else)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.events import WayOut
    from engine.machine.memory import Shortage


class UserFixable(Exception):
    """A failure with a cause in plain words and a next step for the user.

    Args:
        cause: what happened, one sentence.
        remedy: what to do about it, one sentence.
        details: technical detail for the "copy details" button and bug reports.
    """

    def __init__(self, cause: str, remedy: str, details: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy
        self.details = details

    def __str__(self) -> str:
        return f"{self.cause} {self.remedy}"


class Absent(UserFixable):
    """Something optional is missing: a GPU, a peer to compare with."""


class NotPossible(UserFixable):
    """A wish that cannot be met with this model; another wish can."""


class OutOfMemory(UserFixable):
    """Less memory is free than is needed.

    Attributes:
        shortage: what is missing, and where; None where nobody has counted.
        ways_out: loads that would fit, best first; None where nobody has looked for any.
    """

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

    def __init__(self, cause: str, remedy: str, needed: int, available: int) -> None:
        super().__init__(cause, remedy)
        self.needed = needed
        self.available = available


class Cancelled(Exception):
    """Work was stopped by the user before it was done; not an error."""


class InvalidLogits(ArithmeticError):
    """The target produced NaN or infinite logits."""
