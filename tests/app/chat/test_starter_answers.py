"""What the window suggests, asked of the real starter model where it is on this computer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from app.chat.examples import EXAMPLES
from app.settings.presets import STARTER
from engine.commands import Generate, Load
from engine.events import Event, Failed, Finished, FinishReason, PlanReady
from engine.hub.starter import starter_path
from engine.request import ChatRequest, Message, Role
from engine.service.engine import Engine

WANTED = {
    "What can you do?": "answering questions|explaining",
    "Tell me a short story about a brave mouse.": "mouse",
    "What is speculative decoding?": "draft model .*verif",
    "Explain photosynthesis in simple words.": "sun|light",
    "Write a short poem about the moon.": "moon",
    "Write a Python function that adds two numbers.": "return .*\\+",
}
OTHERS = {
    "What is Duotail?": "runs language models",
    "What is the capital of France?": "Paris",
    "What is a black hole?": "gravit",
}
_LOOP = 4
"""So often the same five words are a loop."""


@pytest.fixture(scope="module")
def ask() -> Iterator[object]:
    path = starter_path()
    if path is None:
        pytest.skip("the starter model is not on this computer")
    events: SimpleQueue[Event] = SimpleQueue()
    engine = Engine(events.put, sample_devices=False)
    engine.submit(Load(path, context=2048))
    while not isinstance(event := events.get(timeout=300), PlanReady):
        assert not isinstance(event, Failed), event

    def ask(question: str, seed: int) -> Finished:
        setup = STARTER.setup
        said = (Message(Role.SYSTEM, setup.system_prompt), Message(Role.USER, question))
        engine.submit(Generate(ChatRequest("q", said, setup.sampling(seed), max_tokens=400)))
        while not isinstance(event := events.get(timeout=300), Finished):
            pass
        return event

    yield ask
    engine.close()


def test_every_suggestion_is_looked_at() -> None:
    assert tuple(WANTED) == EXAMPLES


@pytest.mark.release(keep=1, reason="every question")
@pytest.mark.parametrize("question", [*WANTED, *OTHERS])
def test_its_answer_is_sensible_and_does_not_loop(ask: object, question: str) -> None:
    answer = ask(question, 1)  # type: ignore[operator]
    words = {**WANTED, **OTHERS}[question]
    assert re.search(words, answer.text, re.IGNORECASE | re.DOTALL), answer.text
    assert answer.reason is FinishReason.STOP, answer.text
    said = answer.text.split()
    fives = Counter(tuple(said[i : i + 5]) for i in range(len(said) - 4))
    assert not fives or max(fives.values()) < _LOOP, answer.text
