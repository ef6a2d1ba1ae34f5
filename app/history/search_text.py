"""Words of a query, letters made alike, and snippets around what was found.

A word is found wherever its letters are, whatever their case, also inside another word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.model.text.thinking import parts

_MAX_WORDS = 8
_MAX_WORD = 200
_BEFORE = 40
_SNIPPET = 180


def words_of(query: str) -> list[str]:
    """The words to look for, folded; NUL would end SQLite's strings and counts as white space."""
    words = (word[:_MAX_WORD] for word in fold(query.replace("\0", " ")).split()[:_MAX_WORDS])
    return list(dict.fromkeys(words))


def fold(text: str) -> str:
    """The text without the difference between capital and small letters, each in its old place."""
    small = text.casefold()
    if len(small) == len(text):
        return small
    return text.translate({ord(letter): _fold_one(letter) for letter in set(text)})


def _fold_one(letter: str) -> str:
    """Fold a letter; one that becomes several (ß, ss) is left, in lower case where there is one."""
    return next((same for same in (letter.casefold(), letter.lower()) if len(same) == 1), letter)


def spoken(text: str) -> str:
    """Return an answer without what the model thought before it."""
    return parts(text)[1] if "think" in text else text


def snippet(text: str, words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The stretch of a text around the first of the words, and where the words are in it."""
    places = [place for word in words if (place := fold(text).find(word)) >= 0]
    start = max(min(places, default=0) - _BEFORE, 0)
    if start:  # from the beginning of a word
        start += re.search(r"^\S{0,20}\s|", text[start : start + _BEFORE]).end()  # type: ignore[union-attr]
    raw = text[start : start + 2 * _SNIPPET]
    line = " ".join(raw.split())
    cut = line if len(line) <= _SNIPPET else line[: _SNIPPET - 1].rstrip() + "…"
    shown = ("… " if start else "") + cut
    return shown, ranges(shown, words)


def ranges(text: str, words: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return where the words are, in order, what overlaps joined."""
    folded = fold(text)
    found = sorted(
        (match.start(), match.end())
        for word in words
        for match in re.finditer(re.escape(word), folded)
    )
    joined: list[tuple[int, int]] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)
