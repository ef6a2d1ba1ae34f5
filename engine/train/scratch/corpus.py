"""All sources of a recipe as token ids, made once: what is learned from, and what is held out."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save
from tokenizers import Tokenizer

from engine.errors import UserFixable
from engine.language import tr
from engine.request import Role
from engine.train.checkpoint import write_whole
from engine.train.conversations import Example, find_sources
from engine.train.lessons.all import lessons, lessons_digest
from engine.train.scratch.recipe import LESSONS, Recipe, Source
from engine.train.scratch.screening import Screen, is_held_out
from engine.train.scratch.vocabulary import ASSISTANT, BOS, END, SPECIAL, USER

_AT_ONCE = 2048
"""Examples encoded at a time: the tokenizer uses all cores for them."""
_BOS, _USER, _ASSISTANT, _END = map(SPECIAL.index, (BOS, USER, ASSISTANT, END))


@dataclass(frozen=True, slots=True)
class Documents:
    """Examples behind each other.

    Attributes:
        tokens: uint16 [n], of all.
        answers: bool [n]; tokens that the assistant has to say, their ends included.
        ends: int64 [documents]; where each one ends.
    """

    tokens: NDArray[np.uint16]
    answers: NDArray[np.bool_]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def one(self, index: int) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Tokens of a document, and which of them are answers."""
        start = int(self.ends[index - 1]) if index else 0
        place = slice(start, int(self.ends[index]))
        return self.tokens[place], self.answers[place]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Every source of a recipe.

    Attributes:
        learned: by name of the source.
        held_out: of the sources of the last phase, mixed, so that any part stands for all.
    """

    learned: dict[str, Documents]
    held_out: Documents


def examples_of(source: Source, data: Path, seed: int) -> Iterator[Example]:
    """What a source has to say, in a fixed order.

    Raises:
        UserFixable: there is no such file, or no such lesson.
    """
    if source.name.startswith(LESSONS):
        rng = random.Random(f"{seed} {source.name}")  # noqa: S311 - an order
        yield from lessons(source.name.removeprefix(LESSONS), rng)
        return
    for file in find_sources([data / source.name]):
        for example in file.examples(lambda: None):
            if not source.only or example.source.startswith(source.only):
                yield example


def make_corpus(
    recipe: Recipe,
    data: Path,
    tokenizer: Tokenizer,
    screen: Screen,
    kept: Path,
    tell: Callable[[str], None],
) -> Corpus:
    """Encode all sources, or take what an earlier start has left in the folder `kept`.

    Raises:
        UserFixable: data are missing, or the disk is full.
    """
    sources = {source.name: source for phase in recipe.phases for source in phase.sources}
    learned: dict[str, Documents] = {}
    held: list[Documents] = []
    for name, source in sources.items():
        tell(name)
        key = hashlib.sha256(
            f"{tokenizer.to_str()}\n{name}\n{source.only}\n{_edition(source, data)}\n"
            f"{recipe.seed}\n{recipe.shape.context}".encode()
        ).hexdigest()[:16]
        file = kept / f"{key}.safetensors"
        if not file.exists():
            examples = filter(screen.passes, examples_of(source, data, recipe.seed))
            _write(file, _split(examples, tokenizer, recipe.shape.context))
        learned[name], out = _read(file)
        if source in recipe.phases[-1].sources:
            held.append(out)
    if not any(map(len, learned.values())):
        raise UserFixable(
            tr("The data hold nothing to learn from."),
            tr("Name the folder with the files that the recipe names."),
            str(data),
        )
    return Corpus(learned, _mixed(held, recipe.seed))


def encoded(examples: Iterable[Example], tokenizer: Tokenizer, longest: int) -> Documents:
    """Conversations as the template renders them; texts begin with BOS, cut into pieces that fit.

    Args:
        longest: tokens of a document at most; conversations lose their last turns.
    """
    tokens: list[NDArray[np.uint16]] = []
    answers: list[NDArray[np.bool_]] = []
    stream = iter(examples)
    while batch := list(islice(stream, _AT_ONCE)):
        texts = [text for example in batch for text in _texts_of(example)]
        ids = iter([each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)])
        for example in batch:
            for document, marks in _documents(example, ids, longest):
                tokens.append(np.array(document, dtype=np.uint16))
                answers.append(np.array(marks, dtype=np.bool_))
    ends = np.cumsum([len(one) for one in tokens], dtype=np.int64)
    if not tokens:
        return Documents(np.zeros(0, np.uint16), np.zeros(0, np.bool_), ends)
    return Documents(np.concatenate(tokens), np.concatenate(answers), ends)


def _texts_of(example: Example) -> list[str]:
    return [message.text for message in example.messages] or [example.text]


def _documents(
    example: Example, ids: Iterator[list[int]], longest: int
) -> Iterator[tuple[list[int], list[bool]]]:
    if not example.messages:
        text = next(ids)
        for start in range(0, len(text), longest - 1):
            piece = [_BOS, *text[start : start + longest - 1]]
            yield piece, [True] * len(piece)
        return
    tokens, marks, whole = [_BOS], [False], 0
    for message in example.messages:
        said = next(ids)
        answer = message.role is Role.ASSISTANT
        tokens += [_ASSISTANT if answer else _USER, *said, _END]
        marks += [False, *[answer] * (len(said) + 1)]
        if answer and len(tokens) <= longest:
            whole = len(tokens)
    if whole:
        yield tokens[:whole], marks[:whole]


def _split(
    examples: Iterable[Example], tokenizer: Tokenizer, longest: int
) -> tuple[Documents, Documents]:
    """What is learned, and what is held out."""
    held: list[Example] = []

    def learned() -> Iterator[Example]:
        for example in examples:
            if is_held_out(example):
                held.append(example)
            else:
                yield example

    return encoded(learned(), tokenizer, longest), encoded(held, tokenizer, longest)


def _write(file: Path, both: tuple[Documents, Documents]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    parts: dict[str, NDArray[np.generic]] = {}
    for name, documents in zip(("learned", "held"), both, strict=True):
        parts[f"{name}.tokens"] = documents.tokens
        parts[f"{name}.answers"] = documents.answers
        parts[f"{name}.ends"] = documents.ends
    write_whole(file, save(parts))


def _read(file: Path) -> tuple[Documents, Documents]:
    parts = load_file(file)
    both = (
        Documents(parts[f"{name}.tokens"], parts[f"{name}.answers"], parts[f"{name}.ends"])
        for name in ("learned", "held")
    )
    return next(both), next(both)


def _edition(source: Source, data: Path) -> str:
    """Another one when what the source has to say has changed."""
    if source.name.startswith(LESSONS):
        return lessons_digest(source.name.removeprefix(LESSONS))
    return str(sum(file.size for file in find_sources([data / source.name])))


def _mixed(parts: list[Documents], seed: int) -> Documents:
    """All of them behind each other, in an order that is drawn."""
    found = [part.one(index) for part in parts for index in range(len(part))]
    random.Random(seed).shuffle(found)  # noqa: S311 - an order
    empty = np.zeros(0, np.uint16), np.zeros(0, np.bool_)
    return Documents(
        np.concatenate([tokens for tokens, _ in (empty, *found)]),
        np.concatenate([answers for _, answers in (empty, *found)]),
        np.cumsum([len(tokens) for tokens, _ in found], dtype=np.int64),
    )
