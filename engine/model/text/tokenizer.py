"""Text to token ids and back, on the `tokenizers` library (no transformers, no torch)."""

from __future__ import annotations

import re
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import tokenizers

from engine.model.text.shown_text import Channels, ShownText
from engine.model.text.template_source import TextEnds, folder_ends, gguf_ends
from engine.model.text.token_bytes import ByteRules
from engine.model.text.vocabulary.folder import first_readable
from engine.model.text.vocabulary.gguf_vocabulary import gguf_vocabulary
from engine.model.text.vocabulary.library import Vocabulary, in_words, libraries

_STRETCH = 1 << 16
_MOST_REMEMBERED = 4_000_000
"""Characters of text whose ids are kept: some ten megabytes in all."""


class Tokenizer:
    """A model's tokenizer, for any number of threads.

    Added tokens are *control tokens* (special ones, and any other that is not plain letters or
    blanks, such as `<think>`): `encode_text` never yields them, `encode_rendered` does.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        built = libraries(vocabulary)
        self._library, self._inner = built.start, built.inner
        added = self._library.get_added_tokens_decoder()
        self.control_tokens: dict[str, int] = {
            token.content: index for index, token in added.items() if token.special
        }
        self._control_pattern = _pattern(token for token in added.values() if token.special)
        self.channels = Channels.of(self.control_tokens)
        unknown = _unknown_token(vocabulary.description.get("model"), self._library)
        self._forbidden = set(self.control_tokens.values()) - {unknown}
        self._added = frozenset(added)
        self._rules = ByteRules.from_json(vocabulary.description.get("decoder"))
        self._bytes: dict[int, bytes] = {}
        self._recent = _RecentIds()
        self._doubled = vocabulary.doubled
        self._known = vocabulary.known
        count = self._library.get_vocab_size() + len(self._doubled)
        self.vocab_size: int = max(count, max(added, default=-1) + 1)
        self.set_ends(TextEnds())

    def set_ends(self, ends: TextEnds) -> None:
        """Say which tokens begin a text and end an answer; a bare vocabulary knows of none."""
        self.bos_id, self.adds_bos, self.eos_ids = ends.bos, ends.adds_bos, ends.eos

    @classmethod
    def open(cls, folder: Path) -> Tokenizer:
        """Read a model folder's vocabulary, and the ends of texts from its other files.

        Raises:
            UserFixable: the vocabulary is missing, damaged or of an unknown kind.
        """
        tokenizer = first_readable(folder, cls)
        tokenizer.set_ends(folder_ends(folder, tokenizer))
        return tokenizer

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object]) -> Tokenizer:
        """Build the tokenizer that a GGUF file's metadata describes.

        Raises:
            UserFixable: the vocabulary is missing, damaged or of an unknown kind.
        """
        tokenizer = cls(gguf_vocabulary(metadata))
        tokenizer.set_ends(gguf_ends(metadata, tokenizer))
        return tokenizer

    @property
    def first_id(self) -> int | None:
        """The token that the vocabulary itself puts before every text, if any."""
        with in_words():
            return next(iter(self._library.encode("", add_special_tokens=True).ids), None)

    def id_of(self, token: str) -> int | None:
        """The id of a token, control or not."""
        found: int | None = self._library.token_to_id(token)
        return found

    def leading_control(self, text: str) -> int | None:
        """The control token at the beginning of a rendered text."""
        match = self._control_pattern.match(text)
        return self._control_id(match[0]) if match else None

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Every token with its id, added ones included; a draft must share it with its target."""
        # The library makes its list in one go, for which every other thread of Python waits.
        return self._known or self._library.get_vocab(with_added_tokens=True)

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of plain text: whatever it looks like, no control token comes out."""
        return list(self._encode(_well_formed(text), self._library))

    def encode_each(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many short texts, each as it stands within a text; none is kept."""
        with in_words():
            found = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [each.ids for each in found]

    def encode_rendered(
        self,
        text: str,
        *,
        restore: Mapping[int, str] | None = None,
        splices: Mapping[str, Sequence[int]] | None = None,
    ) -> list[int]:
        """Return the ids of a rendered template: control tokens written in it become their ids.

        Args:
            text: the rendered template.
            restore: `str.translate` table applied to the stretches between control tokens, where
                placeholders can become their characters again without making a control token.
            splices: single characters -> the ids that take their place.
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
            token = self._doubled.get(token_id) if token is None else token
            whole = token_id in self._added
            known = b"" if token is None else self._rules.bytes_of(token, written_out=whole)
            self._bytes[token_id] = known
        return known

    @property
    def leading_spaces(self) -> int:
        """Spaces that are dropped at the start of a decoded text (SentencePiece: one)."""
        return self._rules.leading_spaces

    def shown_text(self) -> ShownText:
        """Return a converter of an answer's tokens into text, one at a time."""
        return ShownText(self.token_bytes, self.leading_spaces, self.channels)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, control tokens included; broken UTF-8 shows as U+FFFD.

        Where answers come in channels, it is what an answer of these ids shows.
        """
        return self.decode_both(ids)[0]

    def decode_both(self, ids: Iterable[int]) -> tuple[str, str]:
        """Return the text of `decode`, and that text without half a character at the end."""
        shown = self.shown_text()
        whole = shown.push_all(ids)
        return whole + shown.finish(), whole


class _RecentIds:
    """Token ids of texts encoded lately: of a growing conversation only what is new is encoded."""

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
        """Keep the ids of a text, and drop the oldest where there are too many."""
        with self._gate:
            if key not in self._known:
                self._known[key] = ids
                self._size += len(key[0])
            while self._size > _MOST_REMEMBERED and len(self._known) > 1:
                self._size -= len(self._known.popitem(last=False)[0][0])


def _unknown_token(model: object, library: tokenizers.Tokenizer) -> int | None:
    """The id that stands for unknown characters; plain text may well yield it."""
    members = model if isinstance(model, dict) else {}
    if isinstance(members.get("unk_token"), str):
        found: int | None = library.token_to_id(members["unk_token"])
        return found
    unknown = members.get("unk_id")
    return unknown if isinstance(unknown, int) else None


def _ids(text: str, library: tokenizers.Tokenizer) -> list[int]:
    """Encode a text as a batch of one: only then does the library let other threads run."""
    with in_words():
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


def translated(text: str, table: Mapping[int, str]) -> str:
    """Return `text.translate(table)`, in pieces of a long text, so that other threads can run."""
    if len(text) <= _STRETCH:
        return text.translate(table)
    starts = range(0, len(text), _STRETCH)
    return "".join(text[start : start + _STRETCH].translate(table) for start in starts)
