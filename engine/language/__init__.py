"""The language of everything people read: gettext catalogues, shared by window, engine and CLI.

Texts are written in English where they are used, `tr("{n} tokens").format(n=12)`, and collected by
`make texts`. A text without a translation stays English.
"""

from __future__ import annotations

import gettext
import re
import string
from collections.abc import Iterable, Mapping
from importlib.resources import as_file, files
from typing import Any

ENGLISH = "en"
PSEUDO = "pseudo"
"""Not a language: longer, accented texts that show what is not translatable or has no room."""
LANGUAGES = {ENGLISH: "English", "de": "Deutsch", "zh_CN": "简体中文"}
"""Codes of the languages there are, with their own names."""

_DOMAIN = "duotail"
_POINT_AND_COMMA = str.maketrans(",.", ".,")
_code = ENGLISH
_catalogue = gettext.NullTranslations()
_signs: dict[int, int] = {}
"""Signs of an English number, and the language's own."""
_comma = ", "
_space = " "
"""Between words of a list, and between sentences, in the language in use."""


def use(code: str) -> None:
    """Speak this language from now on: a code of `LANGUAGES`, or `PSEUDO`; others are English."""
    global _code, _catalogue, _signs, _comma, _space  # noqa: PLW0603 - one for the whole process
    _code = code
    _signs = _POINT_AND_COMMA if code == "de" else {}
    _comma, _space = ("、", "") if code == "zh_CN" else (", ", " ")
    if code == PSEUDO:
        _catalogue = _Pseudo()
    elif code in LANGUAGES and code != ENGLISH:
        with as_file(files("resources") / "translations") as folder:
            _catalogue = gettext.translation(_DOMAIN, folder, [code], fallback=True)
    else:
        _catalogue = gettext.NullTranslations()


def in_use() -> str:
    """Return the code that `use` was given, for processes that shall speak the same language."""
    return _code


def best(wanted: str) -> str:
    """The language for a system's locale such as "de_AT.UTF-8" or "zh-Hans-CN"."""
    first = re.split(r"[-_.@]", wanted)[0].lower()
    return next((code for code in LANGUAGES if code.split("_")[0] == first), ENGLISH)


def of_environment(environment: Mapping[str, str]) -> str:
    """The language that a terminal's environment asks for, in gettext's order of precedence."""
    names = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    wanted = next((environment[name] for name in names if environment.get(name)), ENGLISH)
    return best(wanted.split(":")[0])


def tr(text: str) -> str:
    """`text` in the language in use.

    Names in braces are filled in by its `format`, numbers the way the language writes them.
    """
    return _Text(_catalogue.gettext(text))


def tr_count(one: str, many: str, n: int) -> str:
    """The right form for `n` things, with "{n}" filled in."""
    return _Text(_catalogue.ngettext(one, many, n)).format(n=number(n))


def number(value: float, spec: str = ",") -> str:
    """A number that stands alone, as `format(value, spec)` in the language in use."""
    written = format(value, spec).translate(_signs)
    # A percent sign stands a little apart, and is never left alone on the next line.
    return f"{written[:-1]}\N{NARROW NO-BREAK SPACE}%" if spec.endswith("%") else written


def listed(words: Iterable[str]) -> str:
    """Words one after the other, with the language's comma between them."""
    return _comma.join(words)


def sentences(*texts: str) -> str:
    """Sentences one after the other, with the language's space between them."""
    return _space.join(text for text in texts if text)


def later(text: str) -> str:
    """Marks a text for translation that is only stored here: whoever shows it says `tr`."""
    return text


class _Formatter(string.Formatter):
    """Writes numbers with a format of their own as the language does."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401
        """Years, seeds and the like have no format and stay as they are."""
        if format_spec and isinstance(value, int | float):
            return number(value, format_spec)
        return format(value, format_spec)


class _Text(str):
    """A text whose fields are filled in by `_Formatter`."""

    __slots__ = ()

    def format(self, *values: object, **named: object) -> str:
        """The text with its fields filled in."""
        return _FORMATTER.vformat(str(self), values, named)


_FORMATTER = _Formatter()


class _Pseudo(gettext.NullTranslations):
    """Every text a third longer, with accents, in brackets."""

    _ACCENTS = str.maketrans("aeiounscyAEIOUNSCY", "áéíóúñšçýÁÉÍÓÚÑŠÇÝ")
    _FIELD = re.compile(r"(\{[^}]*\})")

    def gettext(self, message: str) -> str:
        parts = self._FIELD.split(message)
        said = "".join(
            part if part.startswith("{") else part.translate(self._ACCENTS) for part in parts
        )
        longer = ("~~~~ " * len(message))[: len(message) // 3]  # lines can break in it
        return f"[{said}{longer}]"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)
