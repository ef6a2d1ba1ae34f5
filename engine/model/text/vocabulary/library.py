"""Vocabularies as tokenizer.json describes them, and the tokenizers built from them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import tokenizers

from engine.errors import UserFixable
from engine.language import tr
from engine.machine.sandbox import SANDBOX
from engine.machine.sandbox_process import SandboxLimits
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.text.vocabulary.pieces import BLANK, Merge, PieceKind, Pieces, damaged, is_blank
from engine.model.text.vocabulary.pretokenisers import Pretokeniser

# The library would start a thread per core for what is one text at a time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Description = dict[str, object]

_PADDING = re.compile(r"\[(?:PAD|EMPTY_)\d+\]")
_TAG = re.compile("</?([a-z][a-z0-9]*)>")
_MARKS = frozenset(
    {
        *("think", "thinking", "unk", "pad", "bos", "eos", "sep", "cls", "mask"),
        *("image", "audio", "video", "tool", "user", "assistant", "system"),
    }
)
"""Names of tags that control a model, whatever its vocabulary calls them."""
_TEXT_TAGS = "s", "<bos>"
"""A tag of HTML's that begins a text in vocabularies without this token."""
_FIRST, _NEVER = '"prepend_scheme": "first"', '"prepend_scheme": "never"'
_MOST_ADDED = 1 << 15
"""Gemma has six thousand; looking for a hundred thousand in texts takes seconds to prepare."""
_STRETCH = 256
"""Ids that are handed to the library before other threads get a turn."""
_NOTHING: Description = {"type": "BPE", "vocab": {}, "merges": []}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A vocabulary in the form of tokenizer.json.

    Attributes:
        description: the members of tokenizer.json.
        inner: members that are different for stretches behind control tokens.
        built: the description was made here, so every added token is in the model's own list too.
        doubled: tokens whose texts later ones have too, by id; texts are encoded with the later.
    """

    description: Mapping[str, object]
    inner: Mapping[str, object] | None = None
    built: bool = False
    doubled: Mapping[int, str] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, int]:
        """Every token with its id, where the description was made here; else nothing."""
        model = cast("Mapping[str, Mapping[str, int]]", self.description["model"])
        return model["vocab"] if self.built else {}


def byte_level(pieces: Pieces, merges: Sequence[Merge], pretokeniser: Pretokeniser) -> Vocabulary:
    """Describe byte-level BPE: words are split off by expressions, then bytes are merged.

    Args:
        pieces: the tokens.
        merges: pairs that are merged, in order.
        pretokeniser: the expressions.
    """
    bytes_ = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    cut = [*map(_split, pretokeniser.patterns), bytes_]
    return Vocabulary(
        built=True,
        doubled=pieces.doubled,
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
    """Describe BPE on characters, with byte tokens for those that have none.

    Where a blank is put before the text, one is put behind control tokens too, as in Llama 2. But
    none before a blank: templates that write "[INST] " mean a single one.

    Args:
        pieces: the tokens.
        merges: pairs that are merged, in order.
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
    return Vocabulary(
        description, inner if space_prefix else None, built=True, doubled=pieces.doubled
    )


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


@dataclass(frozen=True, slots=True)
class Libraries:
    """`start` is for texts from their beginning, `inner` for stretches behind control tokens."""

    start: tokenizers.Tokenizer
    inner: tokenizers.Tokenizer


def libraries(vocabulary: Vocabulary) -> Libraries:
    """Build the tokenizers of a vocabulary.

    Every added token that could be more than ordinary text is special in them, and special tokens'
    text in an input is text.

    Raises:
        UserFixable: the description is damaged or of an unknown kind.
    """
    added = vocabulary.description.get("added_tokens")
    if isinstance(added, list) and len(added) > _MOST_ADDED:
        raise damaged(f"{len(added)} added tokens")
    description = _normalised(vocabulary.description)
    if not vocabulary.built:
        with in_words():  # JSON can be nested too deeply to be written
            text = json.dumps(description)
        _try_in_sandbox(text)
        start = _checked(lambda: tokenizers.Tokenizer.from_str(text))
        cutting = json.dumps(description.get("pre_tokenizer"))
        if _FIRST not in cutting:
            return Libraries(start, start)
        inner = {**description, "pre_tokenizer": json.loads(cutting.replace(_FIRST, _NEVER))}
        return Libraries(start, _checked(lambda: tokenizers.Tokenizer.from_str(json.dumps(inner))))
    start = _checked(lambda: _assembled(description, _model(description)))
    if vocabulary.inner is None:
        return Libraries(start, start)
    behind = {**description, **vocabulary.inner}
    return Libraries(start, _checked(lambda: _assembled(behind, start.model)))


SECONDS = 4.0
"""CPU time to build and try a small tokenizer."""
_NBYTES = 256 << 20
_CHARACTERS_PER_SECOND = 4 << 20
_BYTES_PER_CHARACTER = 24
"""Published ones take a third of this time, and half of this memory."""
_SAMPLES = (
    "don\u2019t 1,234.50\u20ac caf\u00e9\u4f60\u597d\U0001f600!\n\n\tx==y",
    "a" * 4096,
    " " * 4096,
    "ab 1-" * 1024,
    "\ufb03\u0149\u1e9b\u0323\u0644\u0627" * 256,
)
"""Texts that expose rules which blow up or never end."""


def try_out(description: str) -> None:
    """Build a tokenizer and encode samples; the library may hang, take all memory or abort."""
    library = tokenizers.Tokenizer.from_str(description)
    for text in _SAMPLES:
        library.encode(text)


def _try_in_sandbox(description: str) -> None:
    """Try a stranger's tokenizer where it can do no harm.

    Raises:
        UserFixable: it hangs, grows, crashes or fails.
    """
    size = len(description)
    limits = SandboxLimits(
        SECONDS + size / _CHARACTERS_PER_SECOND, _NBYTES + size * _BYTES_PER_CHARACTER
    )
    with in_words():
        SANDBOX.ask(try_out, description, limits=limits)


def _model(description: Description) -> tokenizers.models.Model:
    members = {**cast("dict[str, Any]", description["model"])}
    del members["type"]
    members["merges"] = _MergesInTurns(members["merges"])
    members["vocab"] = _ids_in_turns(members["vocab"])
    return tokenizers.models.BPE(**members)


class _MergesInTurns(list[Merge]):
    """Merges that Python hands over one by one.

    The library builds a model in one call, a quarter of a second for 150,000 tokens, and no other
    thread runs meanwhile, the window's neither. But where it asks for a value that Python has to
    make, the others get their turn.
    """

    def __iter__(self) -> Iterator[Merge]:
        for merge in super().__iter__():  # noqa: UP028 - nobody gets a turn within "yield from"
            yield merge


class _IdInTurns:
    """A token's id that Python hands over; see `_MergesInTurns`."""

    __slots__ = ("_id",)

    def __init__(self, token_id: int) -> None:
        self._id = token_id

    def __index__(self) -> int:
        return self._id


def _ids_in_turns(vocab: Mapping[str, int]) -> dict[str, object]:
    """Return ids by their tokens, one in so many as an `_IdInTurns`: all would take 20 ms more."""
    some = islice(vocab.items(), 0, None, _STRETCH)
    return {**vocab, **{token: _IdInTurns(token_id) for token, token_id in some}}


def _assembled(description: Description, model: tokenizers.models.Model) -> tokenizers.Tokenizer:
    """Build a tokenizer from its description without writing half a million merges as JSON.

    Its added tokens must be in the model's own list.
    """
    library = tokenizers.Tokenizer.from_str(
        json.dumps({**description, "model": _NOTHING, "added_tokens": []})
    )
    library.model = model
    added = cast("list[dict[str, Any]]", description["added_tokens"])
    library.add_tokens(
        [
            tokenizers.AddedToken(
                token["content"],
                rstrip=token["rstrip"],
                normalized=token["normalized"],
                special=token["special"],
            )
            for token in added
        ]
    )
    return library


def _checked(build: Callable[[], tokenizers.Tokenizer]) -> tokenizers.Tokenizer:
    with in_words():
        library = build()
        library.encode("a")
    library.encode_special_tokens = True  # their text in an input is text
    return library


@contextmanager
def in_words() -> Iterator[None]:
    """Tell in words of the library's failures; it panics past Exception on hostile files.

    Raises:
        UserFixable: it has failed.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, UserFixable):
        raise
    except BaseException as error:
        raise UserFixable(
            tr("The model's vocabulary is damaged or of an unknown kind."),
            tr(DOWNLOAD_AGAIN),
            str(error)[:500],
        ) from error


def _normalised(description: Mapping[str, object]) -> Description:
    """The description with every control token marked special, and nothing random or cut."""
    result = {**description, "truncation": None, "padding": None}
    model, added = description.get("model"), description.get("added_tokens")
    if isinstance(model, dict) and model.get("dropout") is not None:
        result["model"] = {**model, "dropout": None}
    if isinstance(added, list):
        contents = {token.get("content") for token in added if isinstance(token, dict)}
        marks = _MARKS if _TEXT_TAGS[1] in contents else _MARKS | {_TEXT_TAGS[0]}
        result["added_tokens"] = [_with_control_mark(token, marks) for token in added]
    return result


def _with_control_mark(token: object, marks: Collection[str]) -> object:
    """Mark as special any added token that could be more than a piece of ordinary text.

    Ordinary are words, single characters, runs of blanks, and tags like those of HTML, which
    Gemma's vocabulary has, unless their names are `marks`.
    """
    if not isinstance(token, dict) or not isinstance(token.get("content"), str):
        return token
    text = token["content"]
    word = all(
        character.isalnum() or character.isspace() or character == BLANK for character in text
    )
    tag = _TAG.fullmatch(text)
    ordinary = word or len(text) == 1 or (tag is not None and tag[1] not in marks)
    return {**token, "special": bool(token.get("special")) or not ordinary}
