"""Descriptions in the form of tokenizer.json, put together from a vocabulary's parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.model.text.vocabulary.merges import Merge
from engine.model.text.vocabulary.pieces import BLANK, PieceKind, Pieces, is_blank
from engine.model.text.vocabulary.pretokenisers import Pretokeniser

Description = dict[str, object]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A description, and what is different of it for stretches behind control tokens.

    `built`: put together here, so every added token is in the model's own list as well.
    """

    description: Mapping[str, object]
    inner: Mapping[str, object] | None = None
    built: bool = False


_PADDING = re.compile(r"\[(?:PAD|EMPTY_)\d+\]")


def byte_level(pieces: Pieces, merges: Sequence[Merge], pretokeniser: Pretokeniser) -> Vocabulary:
    """Byte-level BPE: words are split off by expressions, then bytes are merged."""
    bytes_ = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    cut = [*map(_split, pretokeniser.patterns), bytes_]
    return Vocabulary(
        built=True,
        description={
            "version": "1.0",
            "added_tokens": _added(pieces, _never, spaces_kept=True, prefixed=False),
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": cut},
            "post_processor": None,
            "decoder": bytes_,
            "model": _bpe(pieces, merges) | {"ignore_merges": pretokeniser.whole_words},
        },
    )


def sentencepiece(
    pieces: Pieces,
    merges: Sequence[Merge],
    *,
    space_prefix: bool,
    lines: bool = False,
    swallows: Callable[[int], bool] | None = None,
) -> Vocabulary:
    """BPE on characters, with byte tokens for those that have none.

    Where a blank is put before the text, one is put behind control tokens too, as in Llama 2. But
    none before a blank: templates that write "[INST] " mean a single one.

    Args:
        pieces: the tokens.
        merges: what is merged, in order.
        space_prefix: whether a space is put before the text, and dropped from decoded text.
        lines: whether merges stop at runs of line breaks.
        swallows: whether a control token swallows the blanks behind it; none does by default.
    """
    prefix: list[object] = [{"type": "Prepend", "prepend": BLANK}] if space_prefix else []
    strip: list[object] = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    decoders = [_replace(BLANK, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    description: Description = {
        "version": "1.0",
        "added_tokens": _added(
            pieces, swallows or _never, spaces_kept=False, prefixed=space_prefix
        ),
        "normalizer": {"type": "Sequence", "normalizers": [*prefix, _replace(" ", BLANK)]},
        "pre_tokenizer": _split("\\n+") if lines else None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [*decoders, *(strip if space_prefix else [])]},
        "model": _bpe(pieces, merges) | {"byte_fallback": pieces.has_bytes},
    }
    metaspace = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always"}
    inner = {"normalizer": None, "pre_tokenizer": metaspace | {"split": False}}
    return Vocabulary(description, inner if space_prefix else None, built=True)


def _bpe(pieces: Pieces, merges: Sequence[Merge]) -> Description:
    unknown = next(iter(pieces.ids(PieceKind.UNKNOWN)), None)
    return {
        "type": "BPE",
        "unk_token": None if unknown is None else pieces.texts[unknown],
        "fuse_unk": True,
        "vocab": pieces.known,
        "merges": merges,
    }


def _split(pattern: str) -> Description:
    regex = {"Regex": pattern}
    return {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False}


def _replace(old: str, new: str) -> Description:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def _never(_index: int) -> bool:
    return False


def _added(
    pieces: Pieces, swallows: Callable[[int], bool], *, spaces_kept: bool, prefixed: bool
) -> list[Description]:
    """Tokens that are found in a text before anything is merged.

    What only fills a vocabulary up is not found at all. Runs of blanks are looked for when spaces
    have become what the tokens have for them; where a blank is put before the text as well, they
    come about by merging.
    """
    return [
        {
            "id": index,
            "content": pieces.texts[index],
            "single_word": False,
            "lstrip": False,
            "rstrip": swallows(index),
            "normalized": not spaces_kept and is_blank(pieces.texts[index]),
            "special": pieces.kinds[index] != PieceKind.USER_DEFINED,
        }
        for index in pieces.ids(PieceKind.CONTROL, PieceKind.UNKNOWN, PieceKind.USER_DEFINED)
        if not (prefixed and is_blank(pieces.texts[index]))
        and not _PADDING.fullmatch(pieces.texts[index])
    ]
