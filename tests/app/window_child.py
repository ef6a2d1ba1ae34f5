"""A real window on the real engine with a restless user; whoever started it kills it.

What happens is told on standard output, a JSON object per line, as it happens:
`doing` before the user does something, `added` and `stored` once the history has a message or a
finished answer, `text` for what has just come of an answer, `alive` a hundred times a second while
the window computes. `at` is the system's monotonic clock.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QTimer

from app.application import Assembly, make_application
from app.data_folder.paths import find_paths
from app.engine_link.bridge import EngineLike, real_engine
from app.engine_link.status import Phase
from app.history import AnswerState, Conversation, StoredMessage
from app.notices import Notice, NoticeKind, board
from app.session.session import ChatSession
from app.theme.theme import Theme
from engine.commands import Load, Mode
from engine.events import Event, TextDelta
from engine.hub.local import default_target
from engine.request import Role

QUESTIONS = (
    "Tell me a short story about a dog.",
    "What is the sun?",
    "Tell me a story about a girl and a boat.",
    "Why do birds sing?",
    "Hello!",
)
GIB = 2**30
CONTEXT = 1024
"""Some tales of so small a model have no end: one may take seconds, but not minutes."""
MOST_MESSAGES = 6
"""After so many a new conversation begins, or after an answer that has filled the context."""


def tell(kind: str, **more: object) -> None:
    sys.stdout.write(json.dumps({"kind": kind, "at": time.monotonic(), **more}) + "\n")
    sys.stdout.flush()


def unhurried(seconds: float) -> Callable[[Callable[[Event], None]], EngineLike]:
    """The real engine, with a pause after every piece of text: answers have a middle."""

    def factory(emit: Callable[[Event], None]) -> EngineLike:
        def hear(event: Event) -> None:
            emit(event)
            if isinstance(event, TextDelta):
                time.sleep(seconds)

        return real_engine(hear)

    return factory


class User:
    """Goes on with half answers, asks, edits and asks anew, for as long as the window is there."""

    def __init__(self, assembly: Assembly, dice: random.Random) -> None:
        self._assembly, self._dice = assembly, dice
        self._session: ChatSession = assembly.session
        self._rest_until = 0.0
        self._no_room = False
        session = self._session
        session.message_added.connect(self._added)
        assembly.bridge.subscribe(TextDelta, self._wrote)
        session.answer_finished.connect(self._finished)
        session.writer.stored.connect(self._stored)
        session.context_full.connect(self._full)
        board().posted.connect(self._told)

    def _told(self, notice: Notice) -> None:
        if notice.kind is NoticeKind.PROBLEM:
            tell("problem", words=notice.text)

    def _full(self, needed: int | None) -> None:
        self._no_room = needed is not None  # not even for the question

    def look(self) -> None:
        """Do the next thing once nothing is being written, after a moment."""
        ready = self._assembly.bridge.status.phase is Phase.READY
        if not ready or self._session.live is not None or time.monotonic() < self._rest_until:
            return
        self._rest_until = time.monotonic() + self._dice.uniform(0, 0.03)
        self._act()

    def _act(self) -> None:
        session, dice = self._session, self._dice
        if self._no_room:
            self._no_room = False
            session.open(None)
        asked = [message for message in session.messages if message.role is Role.USER]
        if session.can_continue and dice.random() < 0.6:
            self._do("continue", session.continue_answer)
        elif session.messages and session.messages[-1].role is Role.USER:
            self._do("answer", session.regenerate)  # the question was stored, its answer not begun
        elif asked and dice.random() < 0.2:
            self._do("regenerate", session.regenerate)
        elif asked and dice.random() < 0.2:
            message = dice.choice(asked)
            self._do("edit", lambda: session.edit(message.id, dice.choice(QUESTIONS)))
        else:
            full = any(message.state is AnswerState.FULL for message in session.messages)
            if full or len(session.messages) >= MOST_MESSAGES:
                session.open(None)
            self._do("send", lambda: session.send(dice.choice(QUESTIONS)))

    def _do(self, what: str, act: Callable[[], object]) -> None:
        tell("doing", what=what)
        act()

    def _added(self, message: StoredMessage) -> None:
        tell("added", id=message.id, role=message.role.value, text=message.text)

    def _wrote(self, event: TextDelta) -> None:
        live = self._session.live
        if live is not None and live.request_id == event.request_id and self._session.shows_live:
            tell("text", id=live.base.id, text=event.text)

    def _finished(self, message: StoredMessage) -> None:
        self._last = message

    def _stored(self, _conversation: Conversation) -> None:
        tell("stored", id=self._last.id, text=self._last.text)


def what_to_load(mode: Mode = Mode.AUTO) -> Load:
    """The bundled models; in duo one of them drafts while a simulated accelerator verifies."""
    simulate = GIB if mode is Mode.DUO else None
    return Load(default_target(), mode=mode, context=CONTEXT, simulate_gpu=simulate)


def main(data: str, seed: int, mode: Mode, pause: float | None) -> None:
    dice = random.Random(seed)
    application = make_application()
    paths = find_paths(data)
    pause = dice.choice((0.0, 0.002, 0.01)) if pause is None else pause
    assembly = Assembly(paths, Theme(application), unhurried(pause))
    user = User(assembly, dice)
    timer = QTimer()
    timer.timeout.connect(user.look)
    timer.start(2)
    pulse = QTimer()
    pulse.timeout.connect(lambda: tell("alive"))
    pulse.start(10)
    assembly.window.show()
    assembly.bridge.start(lambda: what_to_load(mode))
    tell("open")
    application.exec()


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    pauses = [float(word) for word in sys.argv[4:]]
    main(sys.argv[1], int(sys.argv[2]), Mode(sys.argv[3]), pauses[0] if pauses else None)
