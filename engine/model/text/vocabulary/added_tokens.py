"""Tokens that a model folder adds to its vocabulary in files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.language import tr
from engine.model.json_object import JsonObject
from engine.model.text.vocabulary.pieces import PieceKind, Pieces

MOST_TOKENS = 4_000_000


def with_added(pieces: Pieces, folder: Path) -> Pieces:
    """The pieces with those of `added_tokens_decoder` and `added_tokens.json`, which come first."""
    texts, kinds, scores = list(pieces.texts), list(pieces.kinds), list(pieces.scores)
    added = _added(folder)
    missing = range(len(texts), max(added, default=-1) + 1)
    texts += [f"[PAD{index}]" for index in missing]
    kinds += [PieceKind.UNUSED] * len(missing)
    if scores:
        scores += [0.0] * len(missing)
    for index, (text, kind) in added.items():
        texts[index], kinds[index] = text, kind
    return Pieces(texts, scores, kinds)


def _added(folder: Path) -> Mapping[int, tuple[str, PieceKind]]:
    """Id -> text and kind."""
    found: dict[int, tuple[str, PieceKind]] = {}
    file = JsonObject.read_optional(folder / "added_tokens.json")
    for text in file.data:
        found[file.integer(text, 0, MOST_TOKENS)] = (text, PieceKind.USER_DEFINED)
    settings = JsonObject.read_optional(folder / "tokenizer_config.json")
    listed = settings.member("added_tokens_decoder")
    for key in listed.data if listed else ():
        token = listed.member(key) if listed else None
        content = token.text("content") if token else None
        if token is None or not content or not key.isdecimal() or int(key) > MOST_TOKENS:
            raise settings.wrong("added_tokens_decoder", tr("an object of tokens by their ids"))
        special = token.flag("special", default=False)
        found[int(key)] = (content, PieceKind.CONTROL if special else PieceKind.USER_DEFINED)
    return found
