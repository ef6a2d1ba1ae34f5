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
    """Return the passages of one text; see `extract_all`."""
    return extract_all([text], question, most)[0]


def extract_all(texts: Sequence[str], question: str, most: int) -> list[Passages]:
    """Return the passages of several texts that say most of what a question asks for.

    Of every text the best passage is taken, then the best of all: what a question is about lies in
    few of them, as a rule.

    Args:
        texts: each as a whole.
        question: what is asked; its rarer words count for more.
        most: characters that the results may have together.
    """
    parts = [passages_of(text) for text in texts]
    places = [(which, at) for which, some in enumerate(parts) for at in range(len(some))]
    scores = _scores([_words(parts[which][at]) for which, at in places], _words(question))
    # Of equals, and where no word is found at all, what comes first is told first.
    order = [places[each] for each in sorted(range(len(places)), key=lambda each: -scores[each])]
    best = {which: (which, at) for which, at in reversed(order)}
    taken: list[set[int]] = [set() for _ in texts]
    left = most
    for which, at in [*sorted(best.values()), *(each for each in order if each != best[each[0]])]:
        cost = len(parts[which][at]) + len(GAP)
        if cost <= left:
            taken[which].add(at)
            left -= cost
    share = most // max(len(texts), 1)
    return [
        _joined(some, sorted(chosen))
        if chosen
        else Passages(text[:share], min(1, len(some)), len(some))
        for text, some, chosen in zip(texts, parts, taken, strict=True)
    ]


def _joined(parts: Sequence[str], taken: Sequence[int]) -> Passages:
    """Return the passages at these places as one text, with a mark where something is left out."""
    pieces: list[str] = []
    before = -1
    for at in taken:
        pieces += [("\n\n" if at == before + 1 and pieces else GAP if at else ""), parts[at]]
        before = at
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
    """Return files with only the passages that matter, together in so many letters.

    Small ones go along whole.
    """
    most = _fair_share([len(each.text) for each in files], letters)
    cut = [each.text for each in files if len(each.text) > most]
    whole = sum(len(each.text) for each in files if len(each.text) <= most)
    found = iter(extract_all(cut, question, letters - whole))
    return [each if len(each.text) <= most else _part(each, next(found)) for each in files]


def _part(file: Attachment, found: Passages) -> Attachment:
    words = tr("({taken} of {all} passages)")
    taken = " " + words.format(taken=number(found.taken), all=number(found.passages))
    size = len(found.text.encode("utf-8", "replace"))
    part = replace(file, name=file.name + taken, taken=taken, text=found.text, size=size)
    return replace(part, path="", encoding="")


def _fair_share(sizes: Sequence[int], room: int) -> int:
    """Return how much of each may go along: what is small goes whole, the rest shares alike."""
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)
