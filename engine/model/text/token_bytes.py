"""The UTF-8 bytes of each token, by a tokenizer's decoder description."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import UserFixable
from engine.language import tr


def _byte_level_alphabet() -> dict[str, int]:
    """The printable stand-ins for bytes in byte-level BPE: themselves, or from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    alphabet.update((chr(0x100 + index), byte) for index, byte in enumerate(others))
    return alphabet


BYTE_OF = _byte_level_alphabet()
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True)
class ByteRules:
    """Rules by which token strings become bytes; no token depends on its neighbours.

    `leading_spaces` is how many spaces are dropped at the very start of a text: SentencePiece
    writes a space before the first word.
    """

    byte_level: bool = False
    byte_fallback: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    prefix: str = ""
    leading_spaces: int = 0

    @classmethod
    def from_json(cls, decoder: object) -> ByteRules:
        """Read the `decoder` member of a tokenizer.json; `UserFixable` for unknown kinds."""
        if decoder is None:  # tokens are words with spaces between them
            return cls(prefix=" ", leading_spaces=1)
        byte_level = byte_fallback = False
        replacements: list[tuple[str, str]] = []
        leading_spaces = 0
        for step in _steps(decoder):
            kind = step.get("type")
            if kind == "ByteLevel":
                byte_level = True
            elif kind == "ByteFallback":
                byte_fallback = True
            elif kind == "Replace":
                replacements.append(_replacement(step))
            elif kind == "Metaspace":
                replacements.append((str(step.get("replacement", "▁")), " "))
                if step.get("prepend_scheme", "always") != "never":
                    leading_spaces = 1
            elif kind == "Strip" and step.get("content") == " ":
                leading_spaces = _count(step.get("start"))
            elif kind != "Fuse":
                raise _unknown(kind)
        return cls(byte_level, byte_fallback, tuple(replacements), "", leading_spaces)

    def bytes_of(self, token: str, *, written_out: bool = False) -> bytes:
        """The bytes of one token string; added tokens are `written_out`, as they look."""
        if self.byte_level:
            if written_out:
                return token.encode()
            # A string with a character outside the alphabet stands for itself.
            values = [BYTE_OF.get(character, -1) for character in token]
            return token.encode() if -1 in values else bytes(values)
        if self.byte_fallback and (match := BYTE_TOKEN.fullmatch(token)):
            return bytes([int(match[1], 16)])
        for old, new in self.replacements:
            token = token.replace(old, new)
        return (self.prefix + token).encode()


def _steps(decoder: object) -> list[dict[str, object]]:
    if not isinstance(decoder, dict):
        raise _unknown(decoder)
    if decoder.get("type") != "Sequence":
        return [decoder]
    members = decoder.get("decoders")
    if not isinstance(members, list) or not all(isinstance(step, dict) for step in members):
        raise _unknown(decoder)
    return members


def _replacement(step: dict[str, object]) -> tuple[str, str]:
    pattern, content = step.get("pattern"), step.get("content")
    old = pattern.get("String") if isinstance(pattern, dict) else None
    if not isinstance(old, str) or not old or not isinstance(content, str):
        raise _unknown(step)
    return old, content


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= 1 else 0


def _unknown(kind: object) -> UserFixable:
    return UserFixable(
        tr(
            "Duotail cannot turn this model's tokens into text: "
            "its tokenizer is of an unknown kind."
        ),
        tr("Choose another model."),
        f"decoder: {kind!r}"[:500],
    )
