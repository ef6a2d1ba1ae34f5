"""What the bundled model answers to forty things that people type when they try it.

None of them is in its training data. "On topic" is judged by words that an answer on the topic can
hardly do without; whether it is good English was judged by reading (see the model card).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.chat.examples import EXAMPLES
from engine.answering import Answer
from engine.commands import Load
from engine.events import Event, Finished, FinishReason
from engine.hub.local import bundled_target
from engine.loading.checking import check
from engine.loading.load import LoadedPair, load
from engine.loading.machinery import Machinery
from engine.request import ChatRequest, Message, Role, SamplingParams

PROMPTS = Path(__file__).parents[1] / "everyday_prompts.txt"
AT_LEAST = 30
"""Of forty. Processors round sums in different ways, which now and then turns an answer."""

ON_TOPIC = {
    "Hi there, can you help me": r"\b(help|yes|of course|sure|happy|what)\b",
    "Hey! What's your name": r"duotail|nano",
    "Who made you": r"duotail|train|made|nano|model",
    "What does this app do": r"draft|fast|speed|speculative|computer|duotail",
    "How do I make it use less": r"slider|vram|budget|memory|tuning|layers",
    "What is a draft model": r"small|guess|propos",
    "Why is the answer the same": r"check|verif|target|large",
    "Tell me a short bedtime story about a lost kitten": r"kitten|cat\b",
    "Can you write a story about a lighthouse": r"lighthouse|keeper|sea|light",
    "Make up a story where a robot": r"robot|bread|bak",
    "Write a four-line poem about rain": r"rain|window|drop|wet",
    "Give me a rhyme about a frog": r"frog|log|pond|hop",
    "Name four animals": r"fox|deer|owl|bear|squirrel|hedgehog|wolf|boar|badger|rabbit|hare",
    "List five things": r"towel|sun|water|swim|hat|sand",
    "Give me three ideas for dinner": r"soup|pasta|salad|rice|potato|omelette|pizza|vegetable|egg",
    "What are the primary colours": r"red|blue|yellow",
    "What is the capital of Italy": r"rome",
    "How many legs": r"eight|8",
    "Why is the sky blue": r"blue|light|scatter|air",
    "What causes thunder": r"lightning|air|heat|storm",
    'What does the word "curious"': r"know|learn|want|interest|find out",
    "Explain what a volcano is": r"lava|mountain|magma|rock|melted|erupt|earth|opening",
    "What's the opposite of generous": r"mean|selfish|stingy|greedy|miserly",
    "What is 27 + 46": r"73",
    "How much is 9 times 14": r"126",
    "If I have 20 sweets": r"12|twelve",
    "How many minutes": r"180",
    "Convert 5 kilometres": r"5,?000",
    "What day comes after": r"friday",
    "Rewrite this politely": r"please|could|would",
    "Make this shorter": r"\bfree\b|friday",
    "Turn this into a question": r"are you coming|will you come",
    "Write a Python function": r"def |return",
    "How do I print the numbers": r"for |range|print",
    "What is a loop": r"repeat|again|over|loop",
    "What's the weather like": r"cannot|can't|do not|don't|no way|forecast|outside",
    "Who will win": r"cannot|can't|do not|don't|nobody|no one|future",
    "I feel a bit sad": r"sorry|hear (it|that)|better",
    "Thanks, that was helpful": r"welcome|glad|pleasure|happy|any time",
    "How do I fall asleep": r"sleep|bed|dark|screen|breath|quiet|calm|rest|cool",
}


@pytest.fixture(scope="module")
def pair() -> LoadedPair:
    machinery = Machinery()
    machine = machinery.look(None)
    return load(check(Load(bundled_target()), machine, machinery.speeds(machine)), machinery.open)


def test_it_answers_most_of_forty(pair: LoadedPair) -> None:
    answers = {text: _answer(pair, text) for text in _prompts()}
    missed = {text: told.text for text, told in answers.items() if not _good(text, told)}
    assert len(answers) == 40
    assert len(answers) - len(missed) >= AT_LEAST, missed


def test_it_answers_what_the_window_suggests(pair: LoadedPair) -> None:
    wanted = (r"stories", r"mouse", r"guess", r"moon")
    for text, words in zip(EXAMPLES, wanted, strict=True):
        told = _answer(pair, text)
        assert told.reason is FinishReason.STOP
        assert re.search(words, told.text), told.text


def test_every_prompt_has_its_words() -> None:
    assert len(ON_TOPIC) == 40
    assert all(sum(text.startswith(start) for start in ON_TOPIC) == 1 for text in _prompts())


def _good(text: str, told: Finished) -> bool:
    words = next(words for start, words in ON_TOPIC.items() if text.startswith(start))
    found = re.search(words, told.text, re.IGNORECASE)
    return told.reason is FinishReason.STOP and found is not None


def _prompts() -> list[str]:
    lines = PROMPTS.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _answer(pair: LoadedPair, text: str) -> Finished:
    finished: list[Finished] = []

    def listen(event: Event) -> None:
        if isinstance(event, Finished):
            finished.append(event)

    request = ChatRequest("one", (Message(Role.USER, text),), SamplingParams(), 256)
    Answer(pair, request, listen, lambda: False).write()
    return finished[0]
