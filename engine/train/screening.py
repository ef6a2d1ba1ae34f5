"""What may be learned from: nothing of the benchmarks, and nothing that is held out to measure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.train.conversations import Example

RUN = 11
"""Words in a row that nobody says by chance."""
HELD_OUT = 100
"""One example in so many is held out."""

_WORD = re.compile(r"[a-z0-9]+")


class Screen:
    """Knows the runs of words in benchmark prompts.

    Args:
        texts: of the benchmarks.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._runs: set[int] = set()
        self._short: set[tuple[str, ...]] = set()
        for text in texts:
            words = _words(text)
            if len(words) < RUN:
                self._short.add(words)
            self._runs.update(_runs(words))

    def passes(self, example: Example) -> bool:
        """Whether it shares no run of `RUN` words with a benchmark, and asks none's question."""
        for text in _texts(example):
            words = _words(text)
            if words in self._short or not self._runs.isdisjoint(_runs(words)):
                return False
        return True


def bench_texts(folder: Path) -> Iterator[str]:
    """Everything that the benchmarks under a folder ask, from its JSON Lines files."""
    for file in sorted(folder.rglob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                yield from _strings(json.loads(line))


def is_held_out(example: Example) -> bool:
    """Whether an example serves to measure: told by its question, so that no near twin is learned.

    A text is told by its beginning.
    """
    told = example.messages[0].text if example.messages else example.text[:200]
    folded = " ".join(_words(told))
    return int.from_bytes(hashlib.sha256(folded.encode()).digest()[:4]) % HELD_OUT == 0


def _texts(example: Example) -> Iterator[str]:
    yield from (message.text for message in example.messages)
    if example.text:
        yield example.text


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def _runs(words: tuple[str, ...]) -> Iterator[int]:
    return (hash(words[start : start + RUN]) for start in range(len(words) - RUN + 1))


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _strings(each)
        case dict():
            for each in value.values():
                yield from _strings(each)
