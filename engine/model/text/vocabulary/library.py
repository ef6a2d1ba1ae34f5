"""A vocabulary's tokenizers in the `tokenizers` library."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import tokenizers

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.text.vocabulary.description import Description, Vocabulary
from engine.model.text.vocabulary.pieces import BLANK

# The library would start a thread per core for what is one text at a time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

_HTML = re.compile(
    "</?(?:table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|ul|ol|li|p|br|hr|a|img"
    "|strong|em|b|i|u|sub|sup|code|pre)>"
)
_FIRST, _NEVER = '"prepend_scheme": "first"', '"prepend_scheme": "never"'
_NOTHING: Description = {"type": "BPE", "vocab": {}, "merges": []}


@dataclass(frozen=True, slots=True)
class Libraries:
    """`start` is for texts from their beginning, `inner` for stretches behind control tokens."""

    start: tokenizers.Tokenizer
    inner: tokenizers.Tokenizer


def libraries(vocabulary: Vocabulary) -> Libraries:
    """Build the tokenizers of a vocabulary.

    Every added token that could be more than ordinary text is special in them, and special tokens'
    text in an input is text. Raises `UserFixable` for a description that is damaged or unknown.
    """
    description = _normalised(vocabulary.description)
    if not vocabulary.built:
        start = _checked(lambda: tokenizers.Tokenizer.from_str(json.dumps(description)))
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


def _model(description: Description) -> tokenizers.models.Model:
    members = cast("dict[str, Any]", description["model"])
    return tokenizers.models.BPE(**{key: members[key] for key in members if key != "type"})


def _assembled(description: Description, model: tokenizers.models.Model) -> tokenizers.Tokenizer:
    """What the library would read from the description, without writing half a million merges.

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
    try:
        library = build()
        library.encode("a")
    except BaseException as error:  # the library panics past Exception on hostile files
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise UserFixable(
            tr("The model's vocabulary is damaged or of an unknown kind."),
            tr(DOWNLOAD_AGAIN),
            str(error)[:500],
        ) from error
    library.encode_special_tokens = True  # their text in an input is text
    return library


def _normalised(description: Mapping[str, object]) -> Description:
    """The description with every control token marked special, and nothing random or cut."""
    result = {**description, "truncation": None, "padding": None}
    model, added = description.get("model"), description.get("added_tokens")
    if isinstance(model, dict) and model.get("dropout") is not None:
        result["model"] = {**model, "dropout": None}
    if isinstance(added, list):
        result["added_tokens"] = [_with_control_mark(token) for token in added]
    return result


def _with_control_mark(token: object) -> object:
    """Mark as special any added token that could be more than a piece of ordinary text.

    Ordinary are words, single characters, runs of blanks, and the tags of HTML, which Gemma's
    vocabulary has; but `</s>`, which in other vocabularies ends a text.
    """
    if not isinstance(token, dict) or not isinstance(token.get("content"), str):
        return token
    text = token["content"]
    word = all(
        character.isalnum() or character.isspace() or character == BLANK for character in text
    )
    ordinary = word or len(text) == 1 or _HTML.fullmatch(text) is not None
    return {**token, "special": bool(token.get("special")) or not ordinary}
