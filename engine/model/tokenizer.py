"""Text to token ids and back, on the `tokenizers` library (no transformers, no torch)."""

from __future__ import annotations

import codecs
import json
import os
import re
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import tokenizers

from engine.errors import UserFixable
from engine.language import tr
from engine.model.disguise import translated
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.template_sandbox import TemplateFailure
from engine.model.template_source import named_tokens, read_template
from engine.model.token_bytes import ByteRules

# Stands for an answer while the template is asked how it ends one; no template contains it.
PROBE = "\U0010fffd"

MOST_REMEMBERED = 4_000_000
"""Characters of text whose ids are kept: some ten megabytes in all."""

# The library would start a thread per core for what is one text at a time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class _Recent:
    """Ids of texts encoded lately: of a growing conversation only what is new is encoded."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, bool], array[int]] = OrderedDict()
        self._size = 0
        self._gate = threading.Lock()

    def get(self, key: tuple[str, bool]) -> array[int] | None:
        """The ids of a text as an inner stretch or not, if they are still known."""
        with self._gate:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def put(self, key: tuple[str, bool], ids: array[int]) -> None:
        """Keep the ids of a text, and forget the oldest where there are too many."""
        with self._gate:
            if key not in self._known:
                self._known[key] = ids
                self._size += len(key[0])
            while self._size > MOST_REMEMBERED and len(self._known) > 1:
                self._size -= len(self._known.popitem(last=False)[0][0])


class Tokenizer:
    """A model's tokenizer, for any number of threads.

    Added tokens are *control tokens* (special ones, and any other that is not plain letters or
    blanks, such as `<think>`): `encode_text` never yields them, `encode_rendered` does.
    """

    def __init__(self, description: Mapping[str, object]) -> None:
        self._description = _normalised(description)
        self._library = _build(self._description)
        self._inner = self._build_inner()
        added = self._library.get_added_tokens_decoder()
        self.control_tokens: dict[str, int] = {
            token.content: index for index, token in added.items() if token.special
        }
        self._control_pattern = _pattern(token for token in added.values() if token.special)
        self._forbidden = set(self.control_tokens.values()) - {self._unknown_id()}
        self._rules = ByteRules.from_json(self._description.get("decoder"))
        self._bytes: dict[int, bytes] = {}
        self._recent = _Recent()
        self.vocab_size: int = max(self._library.get_vocab_size(), max(added, default=-1) + 1)
        self.bos_id: int | None = None
        self.adds_bos: bool = False
        self.eos_ids: frozenset[int] = frozenset()

    @classmethod
    def open(cls, folder: Path) -> Tokenizer:
        """Read a model folder's tokenizer.json and what the other files say about its ends.

        Raises `UserFixable` when it is missing, damaged or of an unknown kind.
        """
        if not (folder / "tokenizer.json").exists():
            raise UserFixable(
                tr("The model folder has no tokenizer.json."),
                tr("Choose the folder that holds all of the model's files, or download it again."),
                str(folder),
            )
        tokenizer = cls(JsonObject.read(folder / "tokenizer.json").data)
        tokenizer._read_ends(folder)
        return tokenizer

    def _read_ends(self, folder: Path) -> None:
        """Find out which ids begin a text and which end an answer."""
        names = named_tokens(folder)
        ends: set[int] = set()
        for file in ("config.json", "generation_config.json"):
            ends.update(JsonObject.read_optional(folder / file).token_ids("eos_token_id", 1 << 31))
        named_end = self._library.token_to_id(str(names.get("eos_token", "")))
        turn_end = self._turn_end(folder)
        ends.update(found for found in (named_end, turn_end) if found is not None)
        self.eos_ids = frozenset(ends)

        self.bos_id = self._library.token_to_id(str(names.get("bos_token", "")))
        settings = JsonObject.read_optional(folder / "tokenizer_config.json")
        automatic = self._library.encode("", add_special_tokens=True).ids[:1]
        self.adds_bos = self.bos_id is not None and settings.flag(
            "add_bos_token", default=automatic == [self.bos_id]
        )

    def _turn_end(self, folder: Path) -> int | None:
        """The control token with which the chat template closes an answer."""
        template = read_template(folder)
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": PROBE}]
        try:
            text = template.render(messages, add_generation_prompt=False)
        except TemplateFailure:
            return None
        match = self._control_pattern.match(text.rpartition(PROBE)[2].lstrip())
        return self._control_id(match[0]) if match else None

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token with its id, added ones included; a draft must share it with its target."""
        return self._library.get_vocab(with_added_tokens=True)

    def encode_text(self, text: str) -> list[int]:
        """Ids of plain text: whatever it looks like, no control token comes out."""
        return list(self._encode(_well_formed(text), self._library))

    def encode_rendered(
        self,
        text: str,
        *,
        restore: Mapping[int, str] | None = None,
        splices: Mapping[str, Sequence[int]] | None = None,
    ) -> list[int]:
        """Ids of a rendered template: control tokens written in `text` become their ids.

        `splices` maps single characters to the ids that stand in their place. `restore` is a
        `str.translate` table applied to the stretches between control tokens: characters that
        were disguised in messages get their own look back when no control token can come of it.
        """
        pattern = self._control_pattern
        if splices:
            marks = "".join(map(re.escape, splices))
            pattern = re.compile(f"{pattern.pattern}|[{marks}]")
        ids: list[int] = []
        position = 0
        for match in pattern.finditer(text):
            ids += self._encode_stretch(text, position, match.start(), restore)
            spliced = splices.get(match[0]) if splices else None
            ids += [self._control_id(match[0])] if spliced is None else spliced
            position = match.end()
        ids += self._encode_stretch(text, position, len(text), restore)
        return ids

    def _encode_stretch(
        self, text: str, start: int, end: int, restore: Mapping[int, str] | None
    ) -> Sequence[int]:
        stretch = _well_formed(text[start:end])
        if restore:
            stretch = translated(stretch, restore)
        return self._encode(stretch, self._library if start == 0 else self._inner)

    def _encode(self, text: str, library: tokenizers.Tokenizer) -> Sequence[int]:
        if not text:
            return ()
        key = (text, library is self._inner)
        known = self._recent.get(key)
        if known is None:
            known = array("I", self._encode_new(text, library))
            self._recent.put(key, known)
        return known

    def _encode_new(self, text: str, library: tokenizers.Tokenizer) -> list[int]:
        ids = _ids(text, library)
        return ids if self._forbidden.isdisjoint(ids) else self._encode_apart(text, library)

    def _encode_apart(self, text: str, library: tokenizers.Tokenizer) -> list[int]:
        """Encode with every control token's text cut after its first character.

        For vocabularies that hold such texts as ordinary words. A control token that still comes
        out (one of a single character) is dropped.
        """
        cuts = [0, *(match.start() + 1 for match in self._control_pattern.finditer(text))]
        ids: list[int] = []
        for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
            ids += _ids(text[start:end], library)
        return [index for index in ids if index not in self._forbidden]

    def _control_id(self, written: str) -> int:
        """Id of a control token; blanks around it belong to it when it says so."""
        found = self.control_tokens.get(written)
        return self.control_tokens[written.strip()] if found is None else found

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for (maybe a part of a character); empty if unknown."""
        known = self._bytes.get(token_id)
        if known is None:
            token = self._library.id_to_token(token_id) if token_id >= 0 else None
            known = b"" if token is None else self._rules.bytes_of(token)
            self._bytes[token_id] = known
        return known

    @property
    def leading_spaces(self) -> int:
        """How many spaces are dropped at the start of a decoded text (SentencePiece: one)."""
        return self._rules.leading_spaces

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, control tokens included; broken UTF-8 shows as U+FFFD."""
        return self.decode_both(ids)[0]

    def decode_both(self, ids: Iterable[int]) -> tuple[str, str]:
        """`decode`, and the same without half a character at the end."""
        written = codecs.getincrementaldecoder("utf-8")("replace")
        text = written.decode(b"".join(map(self.token_bytes, ids)))
        whole = text[min(len(text) - len(text.lstrip(" ")), self.leading_spaces) :]
        return whole + written.decode(b"", final=True), whole

    def _unknown_id(self) -> int | None:
        """The id that stands for unknown characters; plain text may well yield it."""
        model = self._description.get("model")
        members = model if isinstance(model, dict) else {}
        if isinstance(members.get("unk_token"), str):
            return self._library.token_to_id(members["unk_token"])
        unknown = members.get("unk_id")
        return unknown if isinstance(unknown, int) else None

    def _build_inner(self) -> tokenizers.Tokenizer:
        """The tokenizer for stretches inside a text, where no space is put before."""
        text = json.dumps(self._description.get("pre_tokenizer"))
        if '"prepend_scheme": "first"' not in text:
            return self._library
        changed = text.replace('"prepend_scheme": "first"', '"prepend_scheme": "never"')
        return _build({**self._description, "pre_tokenizer": json.loads(changed)})


def _normalised(description: Mapping[str, object]) -> dict[str, object]:
    """The description with every control token marked special, and nothing random or cut."""
    result = {**description, "truncation": None, "padding": None}
    model, added = description.get("model"), description.get("added_tokens")
    if isinstance(model, dict) and model.get("dropout") is not None:
        result["model"] = {**model, "dropout": None}
    if isinstance(added, list):
        result["added_tokens"] = [_with_control_mark(token) for token in added]
    return result


def _with_control_mark(token: object) -> object:
    """Mark as special any added token that is not merely a word or a run of blanks."""
    if not isinstance(token, dict) or not isinstance(token.get("content"), str):
        return token
    word = all(character.isalnum() or character.isspace() for character in token["content"])
    return {**token, "special": bool(token.get("special")) or not word}


def _build(description: Mapping[str, object]) -> tokenizers.Tokenizer:
    try:
        library = tokenizers.Tokenizer.from_str(json.dumps(description))
        library.encode("a")
    except BaseException as error:  # the library panics past Exception on hostile files
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise UserFixable(
            tr("tokenizer.json is damaged or of an unknown kind."),
            tr(DOWNLOAD_AGAIN),
            str(error)[:500],
        ) from error
    library.encode_special_tokens = True  # their text in an input is text
    return library


def _ids(text: str, library: tokenizers.Tokenizer) -> list[int]:
    """As a batch of one: only then does the library let other threads run meanwhile."""
    ids: list[int] = library.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return ids


def _pattern(tokens: Iterable[tokenizers.AddedToken]) -> re.Pattern[str]:
    """Matches control tokens, the longest first, with the blanks that some swallow."""
    longest_first = sorted(tokens, key=lambda token: -len(token.content))
    parts = (
        r"\s*" * token.lstrip + re.escape(token.content) + r"\s*" * token.rstrip
        for token in longest_first
        if token.content
    )
    return re.compile("|".join(parts) or "(?!)")


def _well_formed(text: str) -> str:
    """Join surrogate pairs, replace lone ones; both come from broken clipboards."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
