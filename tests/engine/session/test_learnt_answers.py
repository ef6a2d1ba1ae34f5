"""What answers teach about a pair is there at the next start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from engine_session import Session

from engine.commands import Mode
from engine.devices.kept_measurements import KeptLearnt, learnt_folder
from engine.model.text.kinds_of_text import KindsOfText, TextKind
from engine.request import Message, Role
from engine.speculative.controller import Controller
from engine.speculative.costs import Learnt


def kept() -> dict[str, Learnt]:
    """Everything on disk that is understood."""
    found = {file.stem: KeptLearnt().find(file.stem) for file in learnt_folder().glob("*.json")}
    return {name: learnt for name, learnt in found.items() if learnt is not None}


def test_the_next_start_goes_on_from_it(
    chat_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path))
    recalled: list[Learnt] = []
    watch_recalls(monkeypatch, recalled.append)
    first = Session()
    first.load(chat_model, draft=chat_model, mode=Mode.CPU)
    assert kept() == {}
    first.ask("Hello", max_tokens=24)
    first.close()
    (learnt,) = kept().values()
    assert {known.size for known in learnt.verify} > {1} or learnt.levels
    assert recalled == []
    second = Session()
    second.load(chat_model, draft=chat_model, mode=Mode.CPU)
    second.close()
    assert recalled == [learnt]


def test_the_controller_is_told_the_kind_of_text_before_every_round(
    chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[TextKind] = []
    turn_to = Controller.turn_to

    def watched(self: Controller, kind: TextKind) -> None:
        told.append(kind)
        turn_to(self, kind)

    monkeypatch.setattr(Controller, "turn_to", watched)
    session = Session()
    session.load(chat_model, draft=chat_model, mode=Mode.CPU)
    session.ask("Hello", max_tokens=1)
    assert told[0] is TextKind.PROSE
    told.clear()
    begun = Message(Role.ASSISTANT, "Look:\n```\nx = 1\n")
    done = session.ask("Write code.", begun, id="b", max_tokens=24)
    session.close()
    assert told[0] is TextKind.CODE, "the answer goes on inside the fence"
    assert len(told) >= done.stats.rounds
    text = KindsOfText()
    text.feed(begun.text + done.text)
    assert told[-1] is text.now
    text.feed("\n```\n$$\n1 + x")
    assert text.now is TextKind.MATHS
    text.feed("\n$$\nSo it is")
    assert text.now is TextKind.PROSE


def watch_recalls(monkeypatch: pytest.MonkeyPatch, tell: Callable[[Learnt], None]) -> None:
    """Hear of what a controller is told."""
    recall = Controller.recall

    def watched(self: Controller, learnt: Learnt) -> None:
        tell(learnt)
        recall(self, learnt)

    monkeypatch.setattr(Controller, "recall", watched)
