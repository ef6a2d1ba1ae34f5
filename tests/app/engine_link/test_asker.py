"""Questions to the engine: each answer reaches the one who asked, and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from desk import drain
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from app.engine_link.asker import Asker
from app.engine_link.bridge import EngineBridge
from app.showcase.budgets import previewed
from engine.commands import Command, Count, Load, Preview, QuestionId
from engine.events import Counted, Event
from engine.request import ChatRequest, Message, Role

LOADS = [Load(Path(name)) for name in ("a", "b", "c")]
REQUEST = ChatRequest("r", (Message(Role.USER, "Hi"),))


class PatientEngine:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.emit: Callable[[Event], None] = lambda _event: None
        self.questions: list[Preview | Count] = []

    def submit(self, command: Command) -> None:
        assert isinstance(command, Preview | Count)
        self.questions.append(command)

    def close(self, timeout: float = 5.0) -> None:
        pass

    def answer(self, index: int) -> None:
        question = self.questions[index]
        if isinstance(question, Preview):
            self.emit(replace(previewed(question.load), id=question.id))
        else:
            self.emit(Counted(0.0, question.id, 7, 512))


@pytest.fixture
def engine() -> PatientEngine:
    return PatientEngine()


@pytest.fixture
def bridge(qapp: QApplication, engine: PatientEngine) -> Iterator[EngineBridge]:
    def make(emit: Callable[[Event], None]) -> PatientEngine:
        engine.emit = emit
        return engine

    bridge = EngineBridge(make, parent=qapp)
    bridge.start()
    yield bridge
    bridge.close()


def asked(qtbot: QtBot, engine: PatientEngine, count: int) -> None:
    qtbot.waitUntil(lambda: len(engine.questions) == count)


def test_each_asker_gets_its_own_answer(
    qtbot: QtBot, engine: PatientEngine, bridge: EngineBridge
) -> None:
    heard: list[tuple[str, object]] = []
    one, other, counting = (Asker(bridge, bridge) for _ in range(3))
    one.ask(Preview(LOADS[0]), lambda told: heard.append(("one", told.load)))
    other.ask(Preview(LOADS[0]), lambda told: heard.append(("other", told.load)))
    counting.count(lambda: REQUEST, lambda tokens: heard.append(("counting", tokens)))
    asked(qtbot, engine, 3)
    for index in (1, 2, 0):
        engine.answer(index)
    drain(bridge)
    assert heard == [("other", LOADS[0]), ("counting", 7), ("one", LOADS[0])]


def test_of_one_asker_only_the_newest_question_is_answered(
    qtbot: QtBot, engine: PatientEngine, bridge: EngineBridge
) -> None:
    heard: list[object] = []
    asker = Asker(bridge, bridge)
    for load in LOADS:
        asker.ask(Preview(load), lambda told: heard.append(told.load))
    asked(qtbot, engine, 3)
    assert len({question.id.asker for question in engine.questions}) == 1
    for index in (0, 2, 1):
        engine.answer(index)
    drain(bridge)
    assert heard == [LOADS[2]]
    asker.count(lambda: REQUEST, heard.append)
    asker.ask(Preview(LOADS[0]), heard.append)
    asker.forget()
    asked(qtbot, engine, 4)
    engine.answer(3)
    drain(bridge)
    assert heard == [LOADS[2]]


def test_an_asker_that_is_gone_hears_nothing(
    qtbot: QtBot, engine: PatientEngine, bridge: EngineBridge
) -> None:
    heard: list[object] = []
    owner = QObject()
    Asker(bridge, owner).ask(Preview(LOADS[0]), heard.append)
    asked(qtbot, engine, 1)
    delete(owner)
    engine.answer(0)
    engine.emit(Counted(0.0, QuestionId(), 1, 2))  # nobody's
    drain(bridge)
    assert heard == []
