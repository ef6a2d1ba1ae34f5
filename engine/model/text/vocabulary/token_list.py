"""A vocabulary's tokens with their ids, for comparing: nothing that turns text into them is built.

That takes a tenth of what a tokenizer takes, and does not stop all other threads for half a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.text.vocabulary.description import Vocabulary
from engine.model.text.vocabulary.folder import first_readable
from engine.model.text.vocabulary.gguf_vocabulary import gguf_pieces
from engine.model.text.vocabulary.pieces import PieceKind


@dataclass(frozen=True, slots=True)
class TokenList:
    """What `Tokenizer.vocabulary` is of the same files.

    `added`: tokens that are looked for before text is cut into others; most of them control it.
    """

    ids: Mapping[str, int]
    added: frozenset[str]


def folder_tokens(folder: Path) -> TokenList:
    """Those of a model folder, from the first of its files that is not damaged.

    Raises:
        UserFixable: there are none, or all are damaged.
    """
    return first_readable(folder, _described)


def gguf_tokens(metadata: Mapping[str, object]) -> TokenList:
    """Those of a GGUF file.

    Raises:
        UserFixable: it lists none, or of a kind that nobody knows.
    """
    pieces = gguf_pieces(metadata)
    added = pieces.ids(PieceKind.CONTROL, PieceKind.USER_DEFINED)
    return TokenList(pieces.known, frozenset(pieces.texts[index] for index in added))


def _described(vocabulary: Vocabulary) -> TokenList:
    """As the description lists them; tokens with scores are numbered as they come."""
    model = vocabulary.description.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(listed, list):
        pairs = [pair for pair in listed if isinstance(pair, list) and pair]
        listed = {str(pair[0]): index for index, pair in enumerate(pairs)}
    if not isinstance(listed, dict):
        raise UserFixable(tr("The model's list of tokens is damaged."), tr(DOWNLOAD_AGAIN))
    found = vocabulary.description.get("added_tokens")
    added = {
        token["content"]: token["id"]
        for token in (found if isinstance(found, list) else ())
        if isinstance(token, dict) and isinstance(token.get("content"), str) and "id" in token
    }
    return TokenList({**added, **listed}, frozenset(added))
