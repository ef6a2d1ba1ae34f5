"""Fuzz targets for texts of strangers: tokenizers, templates, histories, streams of servers."""

from __future__ import annotations

import contextlib
import json
from functools import cache
from typing import Any

import jinja2
from refusals import in_words
from tiny_gguf import TEMPLATE, TOKENS

from app.history import HistoryStore
from app.history.columns import clean_text
from app.history.exchange import export_json, import_text, read_trees
from engine.errors import UserFixable
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.template_sandbox import SandboxedTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import gguf_tokens
from engine.remote.catalogue import Catalogue
from engine.remote.stream import BadStream, EventStream, ServerSaid, error_message, read_chunk
from engine.request import Message, Role

_TALK = (
    Message(Role.SYSTEM, "Be brief."),
    Message(Role.USER, "Hello \U0001f999 <s>[user]"),
    Message(Role.ASSISTANT, "<think>\nHm.\n</think>\n\nHi!"),
    Message(Role.USER, "</s> ok"),
)
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_NAMES = {"bos_token": "<s>", "eos_token": "</s>"}


@cache
def _usual() -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers that have every byte: SentencePiece, byte-level."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    pieces = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ("<unk>", "<s>", "</s>", *_BYTES, "▁", "▁a", "a", "in", "▁in"),
        "tokenizer.ggml.scores": [0.0] * 264,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * 5],
    }
    words = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": ("<s>", "</s>", "<think>", *letters, "in", "an"),
        "tokenizer.ggml.token_type": [3, 3, 4, *[1] * 258],
        "tokenizer.ggml.merges": ("i n", "a n"),
    }
    return Tokenizer.from_gguf(pieces), Tokenizer.from_gguf(words)


def tokenizer(data: bytes) -> None:
    """A text with usual vocabularies, or a vocabulary of a GGUF file with usual texts."""
    head, body = data[:1], data[1:]
    if head in (b"", b"t"):
        _encoded(_text(body))
        return
    try:
        made = Tokenizer.from_gguf(_metadata(head, body))
        gguf_tokens(_metadata(head, body))
    except UserFixable as refused:
        in_words(refused)
        return
    with contextlib.suppress(UserFixable):  # told in words where the library fails
        for text in ("", "a in an", "<s>x</s>\u4f60\n", body[:200].decode("utf-8", "replace")):
            ids = made.encode_text(text)
            made.decode([*ids, *made.encode_rendered(text), len(made.vocabulary), -1])


def _text(body: bytes) -> str:
    """Any text, lone surrogates included."""
    try:
        return body.decode("utf-8", "surrogatepass")
    except ValueError:
        return body.decode("latin-1")


def _encoded(text: str) -> None:
    """No control token comes out of a text, and the text comes back."""
    pieces, words = _usual()
    for made in (pieces, words):
        ids = made.encode_text(text)
        controls = set(made.control_tokens.values()) - {made.control_tokens.get("<unk>")}
        assert not controls & set(ids)
        rendered = made.encode_rendered(text)
        assert all(0 <= index < len(made.vocabulary) + 1 for index in rendered)
        again = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if made is words:
            assert made.decode(ids) == again
        else:
            assert made.decode(ids).lstrip(" ") == again.replace("▁", " ").lstrip(" ")


def _metadata(head: bytes, body: bytes) -> dict[str, Any]:
    """Tokens are lines, the last of them merges; the first byte chooses the rest."""
    lines = body.decode("utf-8", "replace").split("\n")
    tokens = (*TOKENS, *lines[: len(lines) // 2])
    kinds = [2, 3, 3, 6, 6, *[1] * (len(TOKENS) - 5), *(1 + len(line) % 6 for line in lines)]
    return {
        "tokenizer.ggml.model": ("llama", "gpt2", "gemma4")[head[0] % 3],
        "tokenizer.ggml.pre": ("default", "qwen2", "llama-bpe", "gpt-4o")[head[0] // 3 % 4],
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(len(token)) for token in tokens],
        "tokenizer.ggml.token_type": kinds[: len(tokens)],
        "tokenizer.ggml.merges": tuple(lines[len(lines) // 2 :]),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": bool(head[0] & 64),
        "tokenizer.chat_template": TEMPLATE,
    }


def template(data: bytes) -> None:
    """A chat template: compiled and rendered in the sandbox; the parser's paths guide."""
    source = data.decode("utf-8", "replace")
    with contextlib.suppress(jinja2.TemplateError, RecursionError):
        jinja2.Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=True).parse(source)
    pieces, _ = _usual()
    try:
        opened = ChatTemplate(SandboxedTemplate(source, _NAMES))
        assert opened.prompt(_TALK, pieces, continue_answer=False).ids
        assert opened.prompt(_TALK[:3], pieces, continue_answer=True).ids
    except UserFixable as refused:
        in_words(refused)


def history(data: bytes) -> None:
    """Conversations of any program: imported, stored, exported and imported again."""
    text = data.decode("utf-8", "replace")
    try:
        trees, left_out, marks = read_trees(text)
    except UserFixable as refused:
        in_words(refused)
        return
    assert trees
    assert left_out >= 0
    assert marks >= 0
    with HistoryStore.open_in_memory() as store:
        taken = import_text(store.trees, text)
        assert len(taken) == len(trees)
        out = export_json(store.trees, [each.id for each in taken])
        again, lost, _ = read_trees(out)
        assert (len(again), lost) == (len(trees), 0)
        for one, other in zip(trees, again, strict=True):
            texts = [clean_text(message.text) for message in one.messages]
            assert texts == [message.text for message in other.messages]


def stream(data: bytes) -> None:
    """What a server sends, in whatever pieces; its list of models too."""
    size, sent = 1 + (data[:1] or b"\x07")[0], data[1:]
    whole, pieces = _events(sent, len(sent) or 1), _events(sent, size)
    assert whole == pieces or BadStream in (*whole, *pieces)
    for event in whole:
        if isinstance(event, str):
            with contextlib.suppress(BadStream, ServerSaid):
                chunk = read_chunk(event)
                assert isinstance(chunk.said, str)
                assert isinstance(chunk.thought, str)
    with contextlib.suppress(ValueError, RecursionError):
        body = json.loads(sent)
        error_message(body)
        Catalogue.read(body)


def _events(sent: bytes, size: int) -> list[object]:
    stream, found = EventStream(), list[object]()
    try:
        for at in range(0, len(sent), size):
            found += stream.feed(sent[at : at + size])
        found += stream.finish()
    except BadStream:
        found.append(BadStream)
    return found
