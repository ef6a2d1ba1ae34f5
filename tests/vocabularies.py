"""Vocabularies of published models, as they lie in the repository: packed, and one of them derived.

`data/vocabularies.tar.xz` has the files of models whose licences let anyone pass them on; NOTICE
names them. Llama 2's own files are not among them: Phi-3's vocabulary is the same with more control
tokens behind it, so they are made from that.
"""

from __future__ import annotations

import json
import struct
import tarfile
from pathlib import Path

PACKED = Path(__file__).parent / "data" / "vocabularies.tar.xz"

_UNKNOWN, _CONTROL, _BYTE = 2, 3, 6
_FIRST_WORD = 259
"""Tokens before it are control tokens and bytes."""
_NEVER = -1e9
"""Score of runs of blanks, which are not merged from pieces."""


def unpack(folder: Path) -> None:
    """Write the folders of all vocabularies into `folder`."""
    with tarfile.open(PACKED) as packed:
        packed.extractall(folder, filter="data")
    _write_llama2(folder / "phi-3-mini" / "tokenizer.json", folder / "llama2")


def _write_llama2(phi3: Path, folder: Path) -> None:
    folder.mkdir()
    data = json.loads(phi3.read_text(encoding="utf-8"))
    vocabulary = data["model"]["vocab"]
    (folder / "tokenizer.model").write_bytes(
        _sentence_pieces(sorted(vocabulary, key=vocabulary.get))
    )
    data["added_tokens"] = data["added_tokens"][:3]
    for token in data["added_tokens"]:
        token.update(special=True, rstrip=False)
    # The copy that is passed around has lost its no-break spaces.
    lost = json.dumps(data, ensure_ascii=False).replace("\u00a0", " ")
    (folder / "tokenizer.json").write_text(lost, encoding="utf-8")


def _sentence_pieces(texts: list[str]) -> bytes:
    """A tokenizer.model of BPE with a space before a text."""
    pieces = b"".join(_field(1, _piece(index, text)) for index, text in enumerate(texts))
    trainer, normalizer = bytes([3 << 3, 2]), bytes([3 << 3, 1, 4 << 3, 0])
    return pieces + _field(2, trainer) + _field(3, normalizer)


def _piece(index: int, text: str) -> bytes:
    words = index >= _FIRST_WORD
    score = _NEVER if words and not text.strip("▁") else -(index - _FIRST_WORD)
    piece = _field(1, text.encode()) + bytes([2 << 3 | 5]) + struct.pack("<f", score * words)
    kind = 1 if words else _UNKNOWN if index == 0 else _CONTROL if index < 3 else _BYTE
    return piece if words else piece + bytes([3 << 3, kind])


def _field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message that holds bytes."""
    size, head = len(content), bytearray([number << 3 | 2])
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + content
