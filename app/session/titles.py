"""Titles of conversations, taken from their first message, in any script."""

from __future__ import annotations

import re
import unicodedata

from app.session.attachments import sent_files
from engine.language import tr

_WIDEST = 60
"""Most columns of a title: a Chinese character takes two, as on the screen."""
_MOST_READ = 20_000
_FENCE = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*(?:\s[^)\n]*)?\)")
_LINE_MARK = re.compile(r"^(?:\s*(?:#{1,6}|>+|[-*+\u2022]|\d{1,3}[.)])(?=\s)\s*)+")
_EMPHASIS = re.compile(r"(?<![\w*_~`])[*_~`]+(?=\S)|(?<=\S)[*_~`]+(?![\w*_~`])")
_GREETING = re.compile(
    r"(?:hello|hi|hey|hiya|howdy|greetings|good\s+(?:morning|afternoon|evening|day)|hallo|servus"
    r"|guten\s+(?:tag|morgen|abend)|bonjour|bonsoir|salut|hola|buenos\s+d\u00edas|ciao|ol\u00e1|hej"
    r"|cze\u015b\u0107|merhaba|\u043f\u0440\u0438\u0432\u0435\u0442"
    r"|\u0437\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439(?:\u0442\u0435)?"
    r"|\u4f60\u597d|\u60a8\u597d|\u3053\u3093\u306b\u3061\u306f|\uc548\ub155\ud558\uc138\uc694"
    r"|\u0645\u0631\u062d\u0628\u0627|\u0928\u092e\u0938\u094d\u0924\u0947|\u05e9\u05dc\u05d5\u05dd)"
    r"(?:\s+(?:there|all|everyone|duotail))?(?:\s*[,.!:;\u3002\uff0c\uff01\u060c\u2013-]+\s*|\s+|$)",
    re.IGNORECASE,
)


def title_of(text: str) -> str:
    """Return a title for a message in one line.

    The first line with words in it, without markdown, code, attached files and greetings; where
    that leaves nothing, an attached file's name or the code itself. Long ones are cut at a word.
    """
    files, start = sent_files(text)
    said = text[start : start + _MOST_READ]
    prose = _FENCE.sub("\n", said)
    found = _first_line(prose)
    if not found and files:
        found = files[0].name
    if not found:
        found = _first_line(_FENCE.sub(lambda match: match[2], said))
    return _cut(found) if found else tr("New chat")


def _first_line(text: str) -> str:
    """The first line that says something; a mere greeting only if nothing else does."""
    greeting = ""
    for line in text.splitlines():
        words = _plain(line)
        if not any(character.isalnum() for character in words):
            continue
        rest = _GREETING.sub("", words, count=1) if _GREETING.match(words) else words
        if rest == words or _says_enough(rest):
            return rest if rest == words else rest[0].upper() + rest[1:]
        greeting = greeting or words
    return greeting


def _says_enough(words: str) -> bool:
    """Return whether this can stand without the greeting before it."""
    letters = [character for character in words if character.isalnum()]
    return len(words.split()) >= 3 or sum(map(_width, letters)) >= 12


def _plain(line: str) -> str:
    words = _LINK.sub(r"\1", _LINE_MARK.sub("", line))
    shown = "".join(" " if unicodedata.category(each) == "Cc" else each for each in words)
    return " ".join(_EMPHASIS.sub("", shown).split())


def _cut(words: str) -> str:
    """Return as much as fits, up to a word's end where words are parted by blanks."""
    width, fits = 0, 0
    for fits, character in enumerate(words):  # noqa: B007 - the place is what counts
        width += _width(character)
        if width > _WIDEST:
            break
    else:
        return words
    while fits > 0 and _joined(words, fits):
        fits -= 1
    cut = words[:fits]
    if " " in cut[fits // 2 :] and words[fits] != " ":
        cut = cut[: cut.rindex(" ")]
    return cut.rstrip(" ,;:.\u3001\u3002\uff0c") + "\u2026"


def _joined(words: str, place: int) -> bool:
    """Return whether a cut at `place` would split one visible character.

    Such characters consist of several: with accents or joiners, or flags.
    """
    after, before = words[place], words[place - 1]
    joins = unicodedata.category(after).startswith("M") or "\u200d" in (after, before)
    return joins or unicodedata.category(after) == "Sk"


def _width(character: str) -> int:
    if unicodedata.combining(character) or character == "\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
