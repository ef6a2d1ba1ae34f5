"""The tokens of a draft model compared with those of its target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.text.vocabulary.folder import first_readable
from engine.model.text.vocabulary.gguf_vocabulary import gguf_pieces
from engine.model.text.vocabulary.library import Vocabulary
from engine.model.text.vocabulary.pieces import PieceKind

_FILLER = re.compile(r"\[PAD\d+\]|<unused\d+>|<\|?(?:extra|reserved)[\w|]*>")
"""Names that converters invent for the rows of the embedding that stand for no token."""


def is_filler(token: str) -> bool:
    """Return whether a name stands for a row of the embedding that is no token."""
    return _FILLER.fullmatch(token) is not None


_FEW = 0.01
"""Share of all tokens in which a draft's vocabulary may differ from its target's."""


def unshared(ours: Mapping[str, int], theirs: Mapping[str, int]) -> frozenset[int] | None:
    """Return the ids that do not mean the same token to a target and its draft.

    Siblings add a token or rename a reserved one (QwQ and Qwen2.5, Llama 3 and 3.1): they draft for
    each other, but for those. None: so many differ that the vocabularies are others.

    Args:
        ours: the target's tokens with their ids.
        theirs: the draft's.
    """
    odd = differing(ours, theirs)
    if len(odd) > most_odd(len(ours), len(theirs)):
        return None
    return frozenset(either[token] for either in (ours, theirs) for token in odd if token in either)


def most_odd(ours: int, theirs: int) -> float:
    """Return how many tokens may differ between vocabularies of these sizes; renamed ones twice."""
    return 2 * _FEW * max(ours, theirs)


def fingerprint(vocabulary: Mapping[str, int]) -> str:
    """A short text that two vocabularies share if `differing` finds nothing, and else hardly ever.

    It stands for its target's tokens in the folder of a draft that has none of its own.
    """
    kept = sorted((n, token) for token, n in vocabulary.items() if not _FILLER.fullmatch(token))
    joined = "\0".join(f"{number} {token}" for number, token in kept)
    return blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def differing(ours: Mapping[str, int], theirs: Mapping[str, int]) -> frozenset[str]:
    """The tokens that only one of two vocabularies has, or that have another id in each.

    Rows that stand for no token may have a name in one file and none, or another one, in the
    other: GGUF files name every row, tokenizer.json only tokens. They do not count.
    """
    if ours == theirs:
        return frozenset()
    odd = {token for token, _ in ours.items() ^ theirs.items()}
    return frozenset(token for token in odd if not _FILLER.fullmatch(token))


@dataclass(frozen=True, slots=True)
class TokenList:
    """A vocabulary's tokens with their ids: the same as `Tokenizer.vocabulary` of the same files.

    Nothing that turns text into tokens is built for it: that would take ten times as long, and
    would stop all other threads for half a second.

    Attributes:
        ids: of the tokens.
        added: tokens that are looked for before text is cut into others; most of them control it.
    """

    ids: Mapping[str, int]
    added: frozenset[str]


def folder_tokens(folder: Path) -> TokenList:
    """Read the tokens of a model folder, from the first of its files that is not damaged.

    Raises:
        UserFixable: there are none, or all are damaged.
    """
    return first_readable(folder, _described)


def gguf_tokens(metadata: Mapping[str, object]) -> TokenList:
    """Read the tokens of a GGUF file.

    Raises:
        UserFixable: it lists none, or of a kind that nobody knows.
    """
    pieces = gguf_pieces(metadata)
    added = pieces.ids(PieceKind.CONTROL, PieceKind.USER_DEFINED)
    return TokenList(pieces.known, frozenset(pieces.texts[index] for index in added))


def _described(vocabulary: Vocabulary) -> TokenList:
    """The tokens that a description lists; those with scores are numbered as they come."""
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
