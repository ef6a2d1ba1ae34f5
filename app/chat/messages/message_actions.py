"""Actions on a message: icons below it, and words in its menu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication, QIcon, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from app.signals import TypedSignal
from app.theme.icons import icon
from app.theme.theme import current
from app.tools.call_phase import Decision
from engine.language import later, tr


class Act(StrEnum):
    """One thing that can be done; the value is its icon."""

    COPY = "copy"
    EDIT = "pencil"
    REWRITE = "rewrite"
    FORK = "fork"
    AGAIN = "refresh"
    CONTINUE = "play"
    DELETE = "trash"
    EARLIER = "left"
    LATER = "right"
    MORE = "more"
    PLAIN = "plain"
    NUMBERS = "numbers"
    ROUNDS = "gauge"
    ANSWER = "answer"
    TINT = "underline"
    VARY = "vary"

    @property
    def words(self) -> str:
        """Return the name of the action."""
        return tr(_WORDS[self])

    @property
    def shortcut(self) -> str:
        """The keys that do the same while the focus is in the message."""
        return _SHORTCUTS.get(self, "")


class MessageRequests(QObject):
    """Requests of users to the messages of a transcript; signals carry the message's id."""

    regenerate = Signal(int)
    vary = Signal(int)
    resume = Signal()
    """Go on with the last answer."""
    edit = Signal(int, str)
    rewrite = Signal(int, str)
    """An answer, and its new text."""
    fork = Signal(int)
    """A new chat shall begin with all up to this message."""
    show_version = Signal(int, int)
    """A message, and the steps to another version."""
    delete = Signal(int)
    show_rounds = Signal(int)
    underline = Signal(bool)
    """Underline drafted words, or no longer."""
    decide = TypedSignal[int, Decision]()
    """The tool call, and whether it may run."""


_WORDS = {
    Act.COPY: later("Copy message"),
    Act.EDIT: later("Edit and send again"),
    Act.REWRITE: later("Edit the answer"),
    Act.FORK: later("Go on from here in a new chat"),
    Act.AGAIN: later("Regenerate"),
    Act.CONTINUE: later("Continue this answer"),
    Act.DELETE: later("Delete this message and what follows"),
    Act.EARLIER: later("Previous version"),
    Act.LATER: later("Next version"),
    Act.MORE: later("More actions"),
    Act.PLAIN: later("Copy as plain text"),
    Act.NUMBERS: later("Response statistics"),
    Act.ROUNDS: later("Show rounds"),
    Act.ANSWER: later("Generate a response"),
    Act.TINT: later("Underline drafted words"),
    Act.VARY: later("Try again with variation"),
}
_SHORTCUTS = {Act.EARLIER: "Alt+Left", Act.LATER: "Alt+Right"}
_WITH_ICONS = frozenset({Act.COPY, Act.EDIT, Act.AGAIN, Act.CONTINUE, Act.DELETE})


@dataclass(frozen=True, slots=True)
class MenuTarget:
    """The place that the menu is opened on: the selected text, and the link, or ""."""

    selection: str = ""
    link: str = ""


def message_menu(
    groups: Sequence[Sequence[Act]],
    place: MenuTarget,
    chosen: Callable[[Act], object],
    parent: QWidget,
) -> QMenu:
    """Return a menu of `groups` of actions, below what the place under the mouse offers."""
    menu = QMenu(parent)
    clipboard = QGuiApplication.clipboard()
    if place.selection:
        copy = menu.addAction(tr("Copy selection"))
        copy.setShortcut(QKeySequence(QKeySequence.StandardKey.Copy))
        copy.triggered.connect(lambda: clipboard.setText(place.selection))
    if place.link:
        menu.addAction(tr("Copy link address")).triggered.connect(
            lambda: clipboard.setText(place.link)
        )
    for group in groups:
        if group and not menu.isEmpty():
            menu.addSeparator()
        for act in group:
            picture = icon(act.value, current().muted) if act in _WITH_ICONS else QIcon()
            action = menu.addAction(picture, act.words)
            action.setShortcut(QKeySequence(act.shortcut))
            action.triggered.connect(lambda _=False, act=act: chosen(act))
    return menu
