"""Text files that do not say how their characters are encoded."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from engine.language import later

ENCODINGS = {
    "utf_8": later("Unicode (UTF-8)"),
    "utf_16_le": later("Unicode (UTF-16)"),
    "cp1252": later("Western European (Windows-1252)"),
    "cp1250": later("Central European (Windows-1250)"),
    "cp1251": later("Cyrillic (Windows-1251)"),
    "koi8_r": later("Cyrillic (KOI8-R)"),
    "cp1253": later("Greek (Windows-1253)"),
    "cp1254": later("Turkish (Windows-1254)"),
    "cp1255": later("Hebrew (Windows-1255)"),
    "cp1256": later("Arabic (Windows-1256)"),
    "gb18030": later("Simplified Chinese (GBK)"),
    "big5": later("Traditional Chinese (Big5)"),
    "cp932": later("Japanese (Shift-JIS)"),
    "euc_jp": later("Japanese (EUC-JP)"),
    "cp949": later("Korean (EUC-KR)"),
}
"""Encodings that can be chosen, by Python's names; those without a mark are told apart."""
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TEXTUAL_CONTROLS = b"\t\n\r\f\x1b"
_CONTROLS = bytes(set(range(32)) - set(_TEXTUAL_CONTROLS))
_REMOVED = dict.fromkeys(_CONTROLS)
_WIDE = re.compile("[\u0080-\U0010ffff]")
_SAMPLE = 1 << 16
_GOOD_PER_BAD = 4
"""Characters beyond ASCII that UTF-8 explains, for each byte that it does not."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A text.

    Attributes:
        text: the characters.
        guessed: the encoding, of `ENCODINGS`, that was found out; empty where the file says it.
        replaced: bytes that stand for no character, each shown as U+FFFD.
    """

    text: str
    guessed: str = ""
    replaced: int = 0


def decode(raw: bytes) -> DecodedText | None:
    """Return the text of a file; None for what is no text."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            try:
                return DecodedText(raw.decode(encoding).lstrip("\ufeff"))
            except UnicodeDecodeError:
                return None
    if (text := _utf_16(raw)) is not None:
        return text
    controls = len(raw) - len(raw.translate(None, _CONTROLS))
    if 0 in raw or controls > max(len(raw) // 200, 2):
        return None
    try:
        return DecodedText(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return _nearly_utf_8(raw) or _guessed(raw)


def decode_as(raw: bytes, encoding: str) -> DecodedText:
    """Return the text in an encoding that the user has chosen."""
    if encoding == "utf_16_le" and (found := _utf_16(raw)) is not None:
        return found  # in whichever order its bytes are
    text = raw.decode(encoding, "replace").lstrip("\ufeff")
    return DecodedText(text, encoding, text.count("\ufffd"))


def _utf_16(raw: bytes) -> DecodedText | None:
    """UTF-16 without a mark: of most characters of most languages one byte is small, or zero."""
    if len(raw) < 4 or len(raw) % 2:
        return None
    ends = raw[:_SAMPLE:2].count(0), raw[1:_SAMPLE:2].count(0)
    least = len(raw[:_SAMPLE]) // 2 // 5
    if max(ends) < max(least, 2) or min(ends) > 0:
        return None
    try:
        text = raw.decode("utf-16-le" if ends[1] else "utf-16-be")
    except UnicodeDecodeError:
        return None
    return DecodedText(text, "utf_16_le") if text.translate(_REMOVED) == text else None


def _nearly_utf_8(raw: bytes) -> DecodedText | None:
    """UTF-8 with a few bytes that are wrong, as in logs that were cut."""
    text = raw.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(_WIDE.findall(text)) - bad
    return DecodedText(text, "utf_8", bad) if good >= _GOOD_PER_BAD * bad else None


def _guessed(raw: bytes) -> DecodedText:
    """The encoding in which the text looks most like a language."""
    from charset_normalizer import from_bytes  # not before it is needed

    known = [name for name in ENCODINGS if not name.startswith("utf")]
    best = from_bytes(raw, cp_isolation=known).best()
    encoding = "cp1252" if best is None else best.encoding
    text = raw.decode(encoding, "replace")
    western = raw.decode("cp1252", "replace")
    if western == text:  # as in most texts of Western Europe
        encoding = "cp1252"
    return DecodedText(text, encoding, text.count("\ufffd"))
