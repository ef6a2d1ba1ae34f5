"""The conversation in hand on the real engine with a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from folder_models import FOLDER_TARGET
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

from app.application import Assembly
from app.chat.page import ChatPage
from app.data_folder.paths import Paths
from app.engine_link.status import Phase
from app.history import ChatSetup
from app.session.session import ChatSession
from app.theme.theme import Theme
from engine.commands import Load
from engine.events import AnswerStats, Counted, RoundFinished


@dataclass
class Talk:
    """An empty chat whose answers are short."""

    assembly: Assembly
    bot: QtBot

    @property
    def session(self) -> ChatSession:
        return self.assembly.session

    @property
    def page(self) -> ChatPage:
        return self.assembly.window.chat

    def until(self, holds: Callable[[], bool]) -> None:
        self.bot.waitUntil(holds)

    def answered(self) -> AnswerStats:
        self.until(lambda: self.session.live is None)
        stats = self.session.messages[-1].stats
        assert stats is not None
        return stats

    def say(self, text: str) -> AnswerStats:
        assert self.session.send(text)
        return self.answered()


@pytest.fixture(scope="module")
def assembly(theme: Theme, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assembly]:
    folder: Path = tmp_path_factory.mktemp("real")
    made = Assembly(Paths(folder / "data", folder / "config"), theme)
    made.bridge.start(lambda: Load(FOLDER_TARGET))
    yield made
    made.close()
    made.window.deleteLater()
    QCoreApplication.sendPostedEvents()


@pytest.fixture
def talk(assembly: Assembly, qtbot: QtBot) -> Talk:
    made = Talk(assembly, qtbot)
    made.until(lambda: assembly.bridge.status.phase is Phase.READY)
    made.session.open(None)
    made.session.set_setup(ChatSetup(max_tokens=24))
    return made


def test_only_what_changed_is_read_anew(talk: Talk) -> None:
    session = talk.session
    first = talk.say("Tell me a short story about a dog.")
    second = talk.say("And one about a cat, please.")
    assert second.reused_tokens >= first.prompt_tokens
    third = talk.say("Which of them was braver?")
    session.regenerate()
    again = talk.answered()
    assert again.prompt_tokens - again.reused_tokens <= 1
    session.edit(session.messages[2].id, "And one about a bird, please.")
    edited = talk.answered()
    assert first.prompt_tokens <= edited.reused_tokens < second.prompt_tokens
    session.show_version(session.messages[2].id, -1)
    assert len(session.messages) == 6
    back = talk.say("Thank you!")
    assert back.reused_tokens >= third.prompt_tokens, "the old branch is still warm"


def test_the_meter_says_what_is_read_then(talk: Talk) -> None:
    talk.say("What is the sun made of?")
    counted: list[int] = []
    talk.assembly.bridge.subscribe(Counted, lambda event: counted.append(event.prompt_tokens))
    meter = talk.page.composer.meter
    talk.page.composer.field.setPlainText("And the moon?")
    talk.until(lambda: bool(counted) and meter.fill is not None and meter.fill.used == counted[-1])
    talk.page.composer.send()
    assert counted[-1] == talk.answered().prompt_tokens


def test_marks_and_refused_guesses_are_told(talk: Talk) -> None:
    rounds: list[RoundFinished] = []
    talk.assembly.bridge.subscribe(RoundFinished, rounds.append)
    talk.say("What does the word brave mean?")
    answer = talk.session.messages[-1]
    assert answer.marks is not None
    assert answer.token_ids is not None
    spans = answer.marks.spans(answer.token_ids)
    assert [span.token_id for span in spans] == list(answer.token_ids)
    assert spans[-1].end == len(answer.text)
    for each in rounds:  # how often the draft errs depends on the machine's speed
        assert 0 <= each.rejected_at <= len(answer.text)


def test_a_conversation_that_is_too_long_offers_ways_on(talk: Talk) -> None:
    for number in range(4):
        talk.say(f"Message {number}: " + "the dog ran over the hill. " * 26)
    talk.page.composer.field.setPlainText("The cat " + "sat on the warm stone wall. " * 40)
    meter, card = talk.page.composer.meter, talk.page.context_card
    talk.until(lambda: meter.fill is not None and meter.fill.used > 1024)
    talk.page.composer.send()
    assert not card.isHidden()
    talk.until(card.leave_out_button.isEnabled)
    card.leave_out_button.click()
    assert talk.answered().prompt_tokens <= 1024 * 0.75
    assert len(talk.session.messages) == 10
    assert "oldest messages" in talk.page.left_out.text
