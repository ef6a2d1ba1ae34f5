"""What the finished model answers to what it was asked in training: its drafts learn that."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from engine.train.checkpoint import write_whole
from engine.train.modules import Draft
from engine.train.scratch.corpus import Documents
from engine.train.scratch.packing import chosen
from engine.train.scratch.recipe import Phase
from engine.train.scratch.vocabulary import ASSISTANT, END, SPECIAL, USER
from engine.train.scratch.writing import Writer

_USER, _ASSISTANT, _END = map(SPECIAL.index, (USER, ASSISTANT, END))
_ROWS = 512
"""Answers at a time."""
_FEWEST = 64
"""Prompts of one length that are worth a batch."""
_POOL = 49_152
"""Prompts that are sorted by length together."""
_LONGEST_ANSWER = 256
TEMPERATURES = (0.0, 0.8)
"""In turns: people use both, and a draft has to foretell both."""


def write_answers(
    file: Path,
    model: Draft,
    tokenizer: Tokenizer,
    asked: Iterator[list[int]],
    tokens: int,
    longest: int,
    tell: Callable[[float], None],
    stopped: Callable[[], bool],
) -> bool:
    """Conversations as JSON Lines, each of which ends with an answer of the model's.

    Answers that do not end are left out: a draft need not foretell them.

    Args:
        file: of the result; it is there whole or not at all.
        asked: tokens of conversations up to where the assistant speaks.
        tokens: of answers that are wanted; fewer where `asked` ends first.
        longest: tokens of a conversation.
        tell: told the share that is done, `stopped` asked, after every batch.

    Returns:
        Whether it came to the end.

    Raises:
        UserFixable: the disk is full.
    """
    writer, written = Writer(model, _END, longest), 0
    lines: list[str] = []
    for number, prompts in enumerate(_batches(asked)):
        temperature = TEMPERATURES[number % len(TEMPERATURES)]
        answers = writer.write(prompts, _LONGEST_ANSWER, temperature)
        for prompt, answer in zip(prompts, answers, strict=True):
            if len(answer) > 1 and answer[-1] == _END:
                written += len(answer)
                lines.append(_line([*prompt, *answer], tokenizer))
        tell(min(written / tokens, 1.0))
        if stopped():
            return False
        if written >= tokens:
            break
    write_whole(file, "".join(lines).encode())
    return True


def asked_in(phase: Phase, learned: dict[str, Documents], seed: int) -> Iterator[list[int]]:
    """What the phase's conversations ask, up to one of their answers, in an order that is drawn."""
    rng = random.Random(f"{seed} {phase.name} asked")  # noqa: S311 - an order
    order = [
        (source.name, index)
        for source in phase.sources
        for index in chosen(replace(source, times=min(source.times, 1.0)), learned, rng)
    ]
    rng.shuffle(order)
    for name, index in order:
        document = learned[name].one(index)[0]
        speaks = np.flatnonzero(document == _ASSISTANT)
        if len(speaks):
            yield document[: int(rng.choice(speaks)) + 1].tolist()


def _batches(asked: Iterator[list[int]]) -> Iterator[list[list[int]]]:
    """Prompts of one length together; of rare lengths none."""
    while True:
        by_length: defaultdict[int, list[list[int]]] = defaultdict(list)
        for _, prompt in zip(range(_POOL), asked, strict=False):
            by_length[len(prompt)].append(prompt)
        if not by_length:
            return
        groups = [
            group[start : start + _ROWS]
            for group in by_length.values()
            for start in range(0, len(group), _ROWS)
        ]
        full = [group for group in groups if len(group) >= _FEWEST] or groups
        random.Random(len(full)).shuffle(full)  # noqa: S311 - an order
        yield from full


def _line(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """A conversation as its markers tell it."""
    messages, start = [], 1
    for place, token in enumerate(tokens):
        if token == _END:
            role = "user" if tokens[start] == _USER else "assistant"
            text = tokenizer.decode(list(tokens[start + 1 : place]))
            messages.append({"role": role, "content": text})
            start = place + 1
    return json.dumps({"messages": messages, "source": "answers"}) + "\n"
