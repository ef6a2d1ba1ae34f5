"""Questions for comparing modes: one of every kind that drafts differ on.

The texts are never translated, so that results of two machines can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.request import Message, Role


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is answered at some length; `kind` for reports."""

    kind: str
    text: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """The question as a conversation."""
        return (Message(Role.USER, self.text),)


QUESTIONS = (
    Question("story", "Tell me a long story about a dog and a cat who find a boat by the sea."),
    Question(
        "code",
        "Write a Python class for a stack of numbers with push, pop, peek and len, and show how "
        "each of them is used.",
    ),
    Question(
        "explanation",
        "Explain step by step how rain is made, from the sun on the sea to the drops on a roof.",
    ),
    Question(
        "correction",
        "Correct the spelling of this text and write all of it again: The littel train went up "
        "the hil. At the top it lookd down and saw the villige, the rivver and the old bridje. "
        "Then the littel train went down the hil agian, past the villige and over the old bridje.",
    ),
)
