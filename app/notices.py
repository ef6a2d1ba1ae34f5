"""Messages to the user, from anywhere in app/, in any thread; a window shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from pathlib import Path

from PySide6.QtCore import QObject

from app.data_folder.exported_file import show_folder
from app.signals import TypedSignal
from engine.errors import UserFixable
from engine.language import tr

Action = tuple[str, Callable[[], None]]
"""The text of a button, perhaps in two lines, and what a click calls."""


class NoticeKind(Enum):
    """How a notice looks, and how long it stays."""

    PROBLEM = auto()
    """Stays until it is dismissed; one that asks for nothing leaves by itself after a while."""
    OFFER = auto()
    """Stays until it is answered or withdrawn."""
    TOAST = auto()
    """Small, and goes away by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Notice:
    """One message.

    Attributes:
        details: to read and copy on request.
        actions: buttons beside the text; each closes the notice.
        choices: larger buttons in a row of their own.
        left: called when the notice is answered or dismissed, but not when it is withdrawn.
    """

    kind: NoticeKind
    text: str
    remedy: str = ""
    details: str = ""
    actions: tuple[Action, ...] = ()
    choices: tuple[Action, ...] = ()
    left: Callable[[], None] = lambda: None


class NoticeBoard(QObject):
    """Carries notices to whoever listens, in the thread of the listener."""

    posted = TypedSignal[Notice]()
    withdrawn = TypedSignal[Notice]()
    """It is of no use any more."""


@cache
def board() -> NoticeBoard:
    """Return the one board."""
    return NoticeBoard()


def report(problem: UserFixable, *actions: Action | None, choices: Sequence[Action] = ()) -> Notice:
    """Tell of something that went wrong, with what can be done about it."""
    return _post(
        Notice(
            NoticeKind.PROBLEM,
            problem.cause,
            problem.remedy,
            problem.details,
            tuple(action for action in actions if action is not None),
            tuple(choices),
        )
    )


def report_failure(error: Exception) -> None:
    """Report what the user can mend; raise everything else."""
    if not isinstance(error, UserFixable):
        raise error
    report(error)


@contextmanager
def reporting() -> Iterator[None]:
    """Report what the user can mend instead of failing."""
    try:
        yield
    except UserFixable as error:
        report(error)


def tell(text: str, *actions: Action) -> Notice:
    """Tell of something that was done."""
    return _post(Notice(NoticeKind.TOAST, text, actions=actions))


def tell_saved(path: Path, text: str = "") -> None:
    """Tell that a file or a folder was saved, with a button that shows where."""
    words = text or tr("{name} was saved.").format(name=path.name)
    tell(words, (tr("Show in folder"), lambda: show_folder(path)))


def offer(
    text: str,
    remedy: str = "",
    *,
    choices: Sequence[Action],
    left: Callable[[], None] = lambda: None,
) -> Notice:
    """Offer something; nothing happens until it is answered."""
    return _post(Notice(NoticeKind.OFFER, text, remedy, choices=tuple(choices), left=left))


def withdraw(notice: Notice | None) -> None:
    """Take back a notice that may be gone already."""
    if notice is not None:
        board().withdrawn.emit(notice)


def _post(notice: Notice) -> Notice:
    board().posted.emit(notice)
    return notice
