"""Answers to learn from: those of the data, or those that the target writes, many at a time."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.backend.decoder import Decoder
from engine.backend.native.segment import NativeSegment
from engine.backend.native.sequence_batch import SequenceBatch
from engine.backend.native.workspace import ROWS
from engine.backend.sequence import SequenceState
from engine.errors import NotPossible, UserFixable
from engine.language import tr
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
TEMPERATURES = (0.0, 0.8)
"""Temperatures of the answers, by turns: people use both, and a draft has to predict both."""
LANES = 32
"""Answers at a time; with more of them a forward per answer is not noticeably cheaper."""
_TOP = 64
"""The likeliest tokens, from which one is drawn."""


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
        target, examples, recorded, taps: see `engine.train.answers.own_answers`.
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


@dataclass(slots=True)
class _Lane:
    """An answer being written."""

    index: int
    tokens: list[int]
    prompt: int
    temperature: float
    rng: np.random.Generator
    fed: int = 0
    states: list[Tensor] = field(default_factory=list)


class TargetWriter:
    """Writes answers of a target: each forward computes a token of up to `LANES` answers.

    Args:
        target: a whole model on the CPU.
        ends: tokens that end an answer.
        longest: tokens of prompt and answer together.
        longest_answer: tokens after which an answer is cut.
        taps: blocks whose outputs are kept.
        seed: of the draws, with the prompt's index.

    Raises:
        NotPossible: the target is not in the native backend.
    """

    def __init__(
        self,
        target: Decoder,
        ends: Iterable[int],
        *,
        longest: int,
        longest_answer: int,
        taps: tuple[int, ...] = (),
        seed: int = 0,
    ) -> None:
        segment = target.segments[0]
        if len(target.segments) > 1 or not isinstance(segment, NativeSegment):
            raise NotPossible(
                tr("Answers to train from can only be generated on the CPU."),
                tr("Choose --device cpu, or train on the answers in the data with --given."),
            )
        self._batch = SequenceBatch(segment, LANES, longest)
        self._ends, self._taps, self._seed = frozenset(ends), taps, seed
        self._longest, self._longest_answer = longest, longest_answer
        self._lanes: dict[int, _Lane] = {}

    def write(self, prompts: Iterator[tuple[int, list[int]]]) -> Iterator[Recorded]:
        """Answer all prompts, and yield the answers in the order in which they end.

        Args:
            prompts: index and token ids; those that leave no room for an answer are left out.
        """
        free = list(range(LANES))
        while True:
            while free and (lane := self._begun(prompts)) is not None:
                self._batch.clear(free[-1])
                self._lanes[free.pop()] = lane
            if not self._lanes:
                return
            for place in self._step():
                free.append(place)
                yield self._recorded(self._lanes.pop(place))

    def _begun(self, prompts: Iterator[tuple[int, list[int]]]) -> _Lane | None:
        for index, ids in prompts:
            if len(ids) + 2 < self._longest:
                temperature = TEMPERATURES[index % len(TEMPERATURES)]
                rng = np.random.default_rng((self._seed, index))
                return _Lane(index, list(ids), len(ids), temperature, rng)
        return None

    def _step(self) -> list[int]:
        """Run one forward, and return the lanes whose answers have ended."""
        places: list[int] = []
        tokens: list[int] = []
        spans: list[tuple[_Lane, int, int]] = []
        speaking: list[tuple[int, _Lane, int]] = []
        # Those that write come first: one that reads its prompt fills what is left.
        order = sorted(self._lanes.items(), key=lambda item: item[1].fed < item[1].prompt)
        for place, lane in order:
            count = min(len(lane.tokens) - lane.fed, ROWS - len(tokens))
            if count <= 0:
                continue
            spans.append((lane, len(tokens), count))
            places += [place] * count
            tokens += lane.tokens[lane.fed : lane.fed + count]
            lane.fed += count
            if lane.fed == len(lane.tokens):
                speaking.append((place, lane, len(tokens) - 1))
        output = self._batch.forward(places, tokens, [row for *_, row in speaking], self._taps)
        states = stacked_states(output.hidden, output.taps, self._taps)
        for lane, first, count in spans:
            lane.states.append(states[first : first + count])
        if not speaking or output.logits is None:
            return []
        logits = torch.from_numpy(output.logits)
        return [
            place
            for (place, lane, _), token in zip(speaking, self._drawn(logits, speaking), strict=True)
            if self._said(lane, token)
        ]

    def _said(self, lane: _Lane, token: int) -> bool:
        """Append a token, and tell whether the answer has ended with it."""
        lane.tokens.append(token)
        written = len(lane.tokens) - lane.prompt
        full = len(lane.tokens) >= self._longest or written >= self._longest_answer
        return token in self._ends or full

    def _drawn(self, logits: Tensor, speaking: list[tuple[int, _Lane, int]]) -> list[int]:
        drawn: list[int] = logits.argmax(1).tolist()
        warm = [row for row, (_, lane, _) in enumerate(speaking) if lane.temperature]
        if warm:
            best, ids = logits[warm].topk(min(_TOP, logits.shape[1]))
            for number, row in enumerate(warm):
                lane = speaking[row][1]
                probs = (best[number] / lane.temperature).softmax(0).double().numpy()
                chosen = lane.rng.choice(len(probs), p=probs / probs.sum())
                drawn[row] = int(ids[number, chosen])
        return drawn

    @staticmethod
    def _recorded(lane: _Lane) -> Recorded:
        """Give zeros for the state of the last token, which was never fed."""
        states = torch.cat(lane.states)
        states = torch.cat((states, torch.zeros_like(states[:1])))
        tokens = np.array(lane.tokens, dtype=np.int32)
        return Recorded(lane.index, tokens, np.arange(len(tokens)) >= lane.prompt, states)


def own_answers(
    target: Target,
    examples: Iterable[Example],
    recorded: Container[int],
    *,
    taps: tuple[int, ...],
    longest: int,
    longest_answer: int,
    seed: int,
) -> Iterator[Recorded]:
    """Let the target answer what the examples ask.

    Args:
        target: its decoder is used by nobody else meanwhile.
        examples: numbered from 0 on.
        recorded: numbers of examples to leave out.
        taps: blocks whose outputs are recorded.
        longest: tokens of prompt and answer together.
        longest_answer: tokens after which an answer is cut.
        seed: of the answers, and of the choice of a question where an example asks several.

    Raises:
        NotPossible: the target is not in the native backend.
    """
    writer = TargetWriter(
        target.decoder,
        target.tokenizer.eos_ids,
        longest=longest,
        longest_answer=longest_answer,
        taps=taps,
        seed=seed,
    )

    def prompts() -> Iterator[tuple[int, list[int]]]:
        for index, example in enumerate(examples):
            asked = [place for place, one in enumerate(example.messages) if one.role is Role.USER]
            if not asked or index in recorded:
                continue
            rng = random.Random(f"{seed} {index}")  # noqa: S311 - a choice
            said = list(example.messages[: rng.choice(asked) + 1])
            try:
                prompt = target.template.prompt(said, target.tokenizer, continue_answer=False)
            except UserFixable:
                continue
            if len(prompt.ids) < longest // 2:
                yield index, prompt.ids

    yield from writer.write(prompts())
