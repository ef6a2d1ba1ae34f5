"""Answers that the data give: rendered by the target's chat template, with the target's states."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from engine.backend.decoder import Decoder
from engine.backend.sequence import SequenceState
from engine.errors import UserFixable
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role
from engine.train.conversations import Example
from engine.train.recording import Recorded, stacked_states
from engine.train.targets import Target

_CHUNK = 512
"""Tokens of a forward."""
SHORTEST = 4
"""Tokens; a head's first pair is compared with the third token, so less teaches nothing."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One example.

    Attributes:
        tokens: int64 [n].
        answers: bool [n]; the tokens that the model would have written, each answer's end included.
    """

    tokens: NDArray[np.int64]
    answers: NDArray[np.bool_]


class Renderer:
    """Renders examples as the target's chats are rendered.

    Where an answer lies follows from the template alone: it begins where the prompt ends that the
    template gives for the conversation before it, and its ids go in as they are.

    Args:
        longest: tokens after which an example is cut.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, longest: int) -> None:
        self._tokenizer, self._template, self._longest = tokenizer, template, longest
        self._turn_end = self._find_turn_end()

    def sequence(self, example: Example) -> TokenSequence | None:
        """Render an example; None if it has no answer, or the template refuses it."""
        if example.text:
            return self._text(example.text)
        try:
            return self._conversation(example)
        except UserFixable:
            return None

    def _text(self, text: str) -> TokenSequence | None:
        ids = self._tokenizer.encode_text(text)
        if self._tokenizer.bos_id is not None:
            ids = [self._tokenizer.bos_id, *ids]
        return self._finished(ids, [(1, len(ids))])

    def _conversation(self, example: Example) -> TokenSequence | None:
        messages = [self._with_ids(message) for message in example.messages]
        while messages and messages[-1].role is not Role.ASSISTANT:
            messages.pop()
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        for index, message in enumerate(messages):
            if message.role is not Role.ASSISTANT or not message.token_ids:
                continue
            prompt = self._prompt(messages[:index])
            if prompt[: len(ids)] != ids:  # the template changed earlier turns: begin anew
                spans.clear()
            ids = [*prompt, *message.token_ids]
            spans.append((len(prompt), len(ids)))
            if self._turn_end is not None:
                ids.append(self._turn_end)
                spans[-1] = (len(prompt), len(ids))
        return self._finished(ids, spans)

    def _prompt(self, messages: list[Message]) -> list[int]:
        return self._template.prompt(messages, self._tokenizer, continue_answer=False).ids

    def _with_ids(self, message: Message) -> Message:
        if message.role is not Role.ASSISTANT:
            return message
        return replace(message, token_ids=tuple(self._tokenizer.encode_text(message.text)))

    def _find_turn_end(self) -> int | None:
        """Return the token that the template puts behind an answer, if it is an end token."""
        answer = self._with_ids(Message(Role.ASSISTANT, "a"))
        asked = [Message(Role.USER, "a")]
        try:
            before = self._prompt(asked)
            after = self._prompt([*asked, answer, *asked])
        except UserFixable:
            return None
        end = len(before) + len(answer.token_ids or ())
        found = after[end] if after[: len(before)] == before and end < len(after) else None
        return found if found in self._tokenizer.eos_ids else None

    def _finished(self, ids: list[int], spans: list[tuple[int, int]]) -> TokenSequence | None:
        tokens = np.array(ids[: self._longest], dtype=np.int64)
        answers = np.zeros(len(tokens), dtype=np.bool_)
        for start, stop in spans:
            answers[start:stop] = True
        if len(tokens) < SHORTEST or not answers[2:].any():
            return None
        return TokenSequence(tokens, answers)


def given_answers(
    target: Target,
    examples: Iterable[Example],
    recorded: Container[int],
    *,
    taps: tuple[int, ...],
    longest: int,
) -> Iterator[Recorded]:
    """Compute the target's states over the examples' own answers.

    Args:
        target, examples, recorded, taps: see `engine.train.own_answers.own_answers`.
        longest: tokens after which an example is cut.
    """
    renderer = Renderer(target.tokenizer, target.template, longest)
    state = target.decoder.new_state(longest)
    for index, example in enumerate(examples):
        if index in recorded:
            continue
        if (sequence := renderer.sequence(example)) is not None:
            yield _computed(target.decoder, state, index, sequence, taps)


def _computed(
    decoder: Decoder,
    state: SequenceState,
    index: int,
    sequence: TokenSequence,
    taps: tuple[int, ...],
) -> Recorded:
    state.crop(0)
    tokens, parts = sequence.tokens.tolist(), []
    for start in range(0, len(tokens), _CHUNK):
        chunk = tokens[start : start + _CHUNK]
        done = decoder.forward(state, chunk, logit_rows=(), taps=taps)
        parts.append(stacked_states(done.hidden, done.taps, taps))
        state.commit(range(len(chunk)))
    return Recorded(index, sequence.tokens.astype(np.int32), sequence.answers, torch.cat(parts))
