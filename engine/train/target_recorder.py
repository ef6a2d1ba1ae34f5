"""Record the target's hidden states: over answers in the data, or over answers of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

import numpy as np
import torch

from engine.backend.decoder import Decoder
from engine.backend.sequence import SequenceState
from engine.errors import UserFixable
from engine.request import Role
from engine.train.conversations import Example
from engine.train.own_answers import TargetWriter, stacked_states
from engine.train.recording import Recorded, RecordingWriter
from engine.train.sequences import Renderer, TokenSequence
from engine.train.targets import Target

_CHUNK = 512


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """Progress of a recording.

    Attributes:
        tokens, wanted: recorded by now, and in the end.
        nbytes: on disk in the end.
        tokens_per_s: of this run.
    """

    tokens: int
    wanted: int
    nbytes: int
    tokens_per_s: float


def record(
    sequences: Iterable[Recorded],
    writer: RecordingWriter,
    wanted: int,
    tell: Callable[[RecordingReport], None],
) -> None:
    """Write sequences until there are enough tokens.

    Args:
        sequences: computed one by one, as they are asked for.
        writer: where they go.
        wanted: tokens after which it ends; those that are recorded already count.
        tell: told about once a second; it may raise to end the recording before.
    """
    begun = told = monotonic()
    first = writer.tokens
    if first >= wanted:
        return
    try:
        for one in sequences:
            writer.add(one)
            now = monotonic()
            if now - told >= 1:
                told = now
                _, parts, hidden = one.states.shape
                nbytes = wanted * (2 * parts * hidden + 5)
                pace = (writer.tokens - first) / (now - begun)
                tell(RecordingReport(writer.tokens, wanted, nbytes, pace))
            if writer.tokens >= wanted:
                return
    finally:
        writer.flush()


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
        target, examples, recorded, taps: see `own_answers`.
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
