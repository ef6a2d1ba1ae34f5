"""The passages of long texts that matter to a question, ranked by BM25. No model is needed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.session.attachments import Attachment
from engine.language import number, tr

LENGTH = 700
"""Characters of a passage, about."""
GAP = "\n\n[\N{HORIZONTAL ELLIPSIS}]\n\n"
"""Stands where something is left out."""
_K1, _B = 1.2, 0.75
"""The usual constants of BM25: how soon more of a word counts no more, how much length does."""
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
"""Words; of scripts without blanks every character is one."""
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages taken of a text, in its order, and how much of it they are."""

    text: str
    taken: int
    passages: int


def extract(text: str, question: str, most: int) -> Passages:
    """Return the passages of a text that say most of what a question asks for.

    Args:
        text: the whole of it.
        question: what is asked; its rarer words count for more.
        most: characters that the result may have.
    """
    parts = passages_of(text)
    scores = _scores([_words(each) for each in parts], _words(question))
    # Of equals, and where no word is found at all, what comes first is told first.
    order = sorted(range(len(parts)), key=lambda place: (-scores[place], place))
    taken: set[int] = set()
    left = most
    for place in order:
        cost = len(parts[place]) + len(GAP)
        if cost <= left:
            taken.add(place)
            left -= cost
    if not taken:
        return Passages(text[:most], min(1, len(parts)), len(parts))
    pieces: list[str] = []
    before = -1
    for place in sorted(taken):
        pieces += [
            ("\n\n" if place == before + 1 and pieces else GAP if place else ""),
            parts[place],
        ]
        before = place
    if before < len(parts) - 1:
        pieces.append(GAP.rstrip())
    return Passages("".join(pieces), len(taken), len(parts))


def passages_of(text: str) -> list[str]:
    """Return a text in passages of whole paragraphs, or lines, or pieces of a very long line."""
    found: list[str] = []
    for paragraph in filter(str.strip, _PARAGRAPH.split(text)):
        if found and len(found[-1]) + len(paragraph) + 2 <= LENGTH:
            found[-1] += f"\n\n{paragraph}"
        elif len(paragraph) <= 2 * LENGTH:
            found.append(paragraph)
        else:
            found += _cut(paragraph)
    return found


def _cut(paragraph: str) -> list[str]:
    pieces = [""]
    for line in paragraph.split("\n"):
        for start in range(0, max(len(line), 1), LENGTH):
            part = line[start : start + LENGTH]
            if pieces[-1] and len(pieces[-1]) + len(part) + 1 > LENGTH:
                pieces.append("")
            pieces[-1] += ("\n" if pieces[-1] else "") + part
    return [each for each in pieces if each.strip()]


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.casefold())


def _scores(passages: Sequence[Sequence[str]], asked: Sequence[str]) -> list[float]:
    """Return BM25 of every passage (Robertson and Zaragoza 2009, equation 3.15)."""
    counts = [Counter(each) for each in passages]
    average = sum(map(len, passages)) / max(len(passages), 1) or 1.0
    scores = [0.0] * len(passages)
    for word in set(asked):
        having = sum(word in each for each in counts)
        if not having:
            continue
        rare = math.log(1 + (len(passages) - having + 0.5) / (having + 0.5))
        for place, count in enumerate(counts):
            if often := count[word]:
                longer = 1 - _B + _B * len(passages[place]) / average
                scores[place] += rare * often * (_K1 + 1) / (often + _K1 * longer)
    return scores


def parts_of(files: Sequence[Attachment], question: str, letters: int) -> list[Attachment]:
    """Return files with only the passages that matter, together in so many letters."""
    most = _fair_share([len(each.text) for each in files], letters)
    made: list[Attachment] = []
    for each in files:
        if len(each.text) <= most:
            made.append(each)
            continue
        found = extract(each.text, question, most)
        words = tr("({taken} of {all} passages)")
        taken = " " + words.format(taken=number(found.taken), all=number(found.passages))
        size = len(found.text.encode("utf-8", "replace"))
        part = replace(each, name=each.name + taken, taken=taken, text=found.text, size=size)
        made.append(replace(part, path="", encoding=""))
    return made


def _fair_share(sizes: Sequence[int], room: int) -> int:
    """Return how much of each may go along: what is small goes whole, the rest shares alike."""
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)
