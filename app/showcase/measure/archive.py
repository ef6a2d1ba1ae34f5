"""Conversations to open and to search in, written the way the window writes them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from app.history import AnswerState, Conversation, HistoryStore
from engine.request import SamplingParams

_WORDS = """
about above after again another answer because before between book bread bridge careful city clear
colour country cousin dinner dream early earth engine evening every flower friend garden glass
green happy harbour history hundred idea island journey kitchen language letter light little machine
market memory minute morning mountain music number ocean orange paper parser people piano picture
question quiet rain reason river school season silver simple station summer table teacher thought
thread together travel under village water weather window winter
""".split()  # noqa: SIM905
RARE = "quokka"
"""Stands in one message of a thousand."""
_MESSAGE = 2_000
_PER_CONVERSATION = 100


def write_conversation(store: HistoryStore, messages: int) -> Conversation:
    """A conversation of questions and answers, some with a list or code in them."""
    chance = random.Random(1)  # noqa: S311 - the same on every run
    conversation = store.conversations.create("A very long conversation")
    for number in range(messages // 2):
        store.answers.add_user_message(conversation.id, f"Question {number}: {_prose(chance, 12)}?")
        _answer(store, conversation, _formatted(chance, number))
    return conversation


def fill(store: HistoryStore, letters: int) -> None:
    """Conversations of so many letters in all, in English that somebody wrote: Python's own help.

    What words and groups of letters are common decides how fast a search can be; made-up text would
    decide it wrongly.
    """
    from pydoc_data.topics import topics

    chance = random.Random(2)  # noqa: S311
    english = "\n".join(topics.values())
    conversation: Conversation | None = None
    number = written = 0
    while written < letters:
        length = chance.randrange(200, 2 * _MESSAGE)
        start = chance.randrange(len(english) - length)
        text = english[start : start + length]
        if conversation is None or number % _PER_CONVERSATION == 0:
            conversation = store.conversations.create(text[:40])
        if number % 1000 == 0:
            text += f" {RARE}"
        store.answers.add_user_message(conversation.id, text)
        number, written = number + 1, written + length


def queries() -> Iterator[str]:
    """Yield queries of users: rare words, common ones, several, beginnings, short ones, none."""
    yield from (
        RARE,
        "function",
        "the",
        "class object",
        "iterat",
        "quo",
        "io",
        "nowhere to be found",
    )


def _answer(store: HistoryStore, conversation: Conversation, text: str) -> None:
    begun = store.answers.begin(conversation.id, model="bench", sampling=SamplingParams())
    store.answers.finish(
        begun.id,
        text=text,
        token_ids=(),
        marks=None,
        state=AnswerState.COMPLETE,
        stats=None,
        signature="",
    )


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words))


def _formatted(chance: random.Random, number: int) -> str:
    text = f"{_prose(chance, 60)}.\n\n{_prose(chance, 40)}."
    if number % 3 == 0:
        text += "".join(f"\n- **{_prose(chance, 1)}**: {_prose(chance, 8)}" for _ in range(4))
    if number % 5 == 0:
        text += f"\n\n```python\nfor {_prose(chance, 1)} in range({number}):\n    print()\n```"
    return text
