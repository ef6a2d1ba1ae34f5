"""Vocabularies from GGUF metadata: the ids that llama.cpp and the published files give."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from published_vocabularies import gguf_like, library, opened
from tokenizers import Tokenizer as Library

from engine.errors import UserFixable
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.pieces import PieceKind

GOLDEN = Path(__file__).parent / "golden"
WHOLE_FILES = [
    *("command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-bpe"),
    *("llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder"),
]
SEPARATOR = "\n__ggml_vocab_test__\n"
MORE = [
    "  def f(x):\n\treturn x  # é\u0301 \u200d👩‍👩‍👧 🏳️‍🌈\r\n\r\n",
    "I'LL don't they'Ve 1234567 ١٢٣ Ⅻ ½",
    "\x00\x01\x7f\u2028\ufeff",
    "עברית العربية हिन्दी ไทย 한국어 日本語",
    "▁ ▁▁ <0x0A> <s> <unk> <|end|>",
    *(" " * length for length in range(1, 40)),
]


def texts() -> list[str]:
    return (GOLDEN / "texts.txt").read_text(encoding="utf-8").split(SEPARATOR)


def wanted(path: Path) -> list[list[int]]:
    return [[int(index) for index in line.split()] for line in path.read_text().split("\n")]


def wrong(tokenizer: Tokenizer, inputs: list[str], ids: list[list[int]]) -> list[str]:
    pairs = zip(inputs, ids, strict=False)
    return [text for text, expected in pairs if tokenizer.encode_text(text) != expected]


@pytest.mark.parametrize("name", ["gpt-2", "llama-spm", "phi-3", "mpt"])
def test_golden_ids(published_folder: Path, name: str) -> None:
    tokenizer = opened(f"{name}.gguf", published_folder)
    assert wrong(tokenizer, texts(), wanted(GOLDEN / f"{name}.ids")) == []
    for text in texts():
        assert tokenizer.decode(tokenizer.encode_text(text)) == text


@pytest.mark.parametrize(
    "name",
    WHOLE_FILES,
)
def test_golden_ids_of_whole_files(name: str) -> None:
    folder = os.environ.get("DUOTAIL_TEST_VOCABULARIES")
    if not folder:
        pytest.skip("DUOTAIL_TEST_VOCABULARIES names no folder")
    from gguf import GGUFReader

    file = Path(folder) / f"ggml-vocab-{name}.gguf"
    fields = GGUFReader(file).fields
    metadata = {key: field.contents() for key, field in fields.items() if "GGUF." not in key}
    tokenizer = Tokenizer.from_gguf(metadata)
    inputs = file.with_suffix(".gguf.inp").read_text(encoding="utf-8").split(SEPARATOR)
    assert wrong(tokenizer, inputs, wanted(file.with_suffix(".gguf.out"))) == []


@pytest.mark.parametrize(
    ("name", "source"), [("gpt-2", "gpt2"), ("phi-2", "phi-2"), ("phi-3", "phi-3-mini")]
)
def test_ids_are_those_of_tokenizer_json(published_folder: Path, name: str, source: str) -> None:
    theirs = library(source, published_folder)
    tokenizer = opened(f"{name}.gguf", published_folder)
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in MORE]
    assert wrong(tokenizer, MORE, expected) == []


def byte_level(**changes: Any) -> dict[str, Any]:
    """A vocabulary of bytes, a few words and control tokens."""
    from engine.model.text.token_bytes import BYTE_OF

    words = ["he", "ll", "hell", "hello", "Ġhello"]
    tokens = [*BYTE_OF, *words, "<|im_start|>", "<|im_end|>", "<think>", "ü!", "[PAD264]", ""]
    controls = {"<|im_start|>": PieceKind.CONTROL, "<|im_end|>": PieceKind.CONTROL}
    words_added = {"<think>": PieceKind.USER_DEFINED, "ü!": PieceKind.USER_DEFINED}
    padding = {"[PAD264]": PieceKind.UNUSED}
    kinds = controls | words_added | padding
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [int(kinds.get(text, PieceKind.NORMAL)) for text in tokens],
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o", "Ġ hello", "x y", "h e"],
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
    }
    return {f"{key}": value for key, value in (metadata | changes).items() if value is not None}


def test_kinds_of_tokens() -> None:
    metadata = byte_level()
    names = metadata["tokenizer.ggml.tokens"]
    tokenizer = Tokenizer.from_gguf(metadata)
    assert set(tokenizer.control_tokens) == {"<|im_start|>", "<|im_end|>", "<think>", "ü!"}
    assert tokenizer.encode_text(" hello") == [names.index("Ġhello")]
    assert tokenizer.encode_rendered("<|im_start|>hello") == [
        names.index("<|im_start|>"),
        names.index("hello"),
    ]
    for text in ("<think>", "[PAD264]", "ü! ü"):
        ids = tokenizer.encode_text(text)
        assert max(ids) < 256
        assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes(names.index("ü!")) == "ü!".encode()
    assert tokenizer.vocab_size == len(names)
    assert tokenizer.eos_ids == {names.index("<|im_end|>")}
    assert tokenizer.bos_id is None
    assert not tokenizer.adds_bos


def test_files_that_do_not_say_what_tokens_are_for(published_folder: Path) -> None:
    """Older ones list no kinds, or call control tokens words."""
    metadata = byte_level(**{"tokenizer.ggml.token_type": None})
    tokenizer = Tokenizer.from_gguf(metadata)
    assert set(tokenizer.control_tokens) == {"<|im_start|>", "<|im_end|>"}
    scored = gguf_like("llama-spm", published_folder)
    same = opened("llama-spm.gguf", published_folder)
    bare = Tokenizer.from_gguf({**scored, "tokenizer.ggml.token_type": None})
    assert bare.control_tokens == same.control_tokens
    assert bare.encode_text("🦙 </s>") == same.encode_text("🦙 </s>")


@pytest.mark.parametrize(
    ("changes", "adds"),
    [
        ({}, False),
        ({"tokenizer.ggml.pre": "llama-bpe"}, True),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, False),
        ({"tokenizer.ggml.add_bos_token": True}, True),
        ({"tokenizer.ggml.pre": "tekken", "tokenizer.ggml.bos_token_id": 9999}, False),
    ],
)
def test_who_puts_the_beginning(changes: dict[str, Any], adds: bool) -> None:
    metadata = byte_level(**{"tokenizer.ggml.bos_token_id": 261, **changes})
    assert Tokenizer.from_gguf(metadata).adds_bos is adds


@pytest.mark.parametrize(
    "changes",
    [
        {"tokenizer.ggml.model": None},
        {"tokenizer.ggml.model": "bert"},
        {"tokenizer.ggml.model": 3},
        {"tokenizer.ggml.pre": "from-the-future"},
        {"tokenizer.ggml.tokens": None},
        {"tokenizer.ggml.tokens": []},
        {"tokenizer.ggml.tokens": ["a", 3]},
        {"tokenizer.ggml.token_type": [1, 2, 3]},
        {"tokenizer.ggml.token_type": ["x"]},
        {"tokenizer.ggml.merges": None},
        {"tokenizer.ggml.merges": "h e"},
        {"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": None},
        {"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [float("nan")] * 267},
    ],
)
def test_damaged_vocabularies(changes: dict[str, Any]) -> None:
    with pytest.raises(UserFixable):
        Tokenizer.from_gguf(byte_level(**changes))


def test_templates_are_in_the_metadata() -> None:
    template = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}"
    metadata = byte_level(**{"tokenizer.ggml.bos_token_id": 0})
    key = "tokenizer.chat_template"
    plain = ChatTemplate.from_gguf(metadata)
    assert plain.stop == ("\nUser:",)
    named = {f"{key}s": ["tool_use", "rag"], f"{key}.tool_use": "tools", f"{key}.rag": "rag"}
    assert ChatTemplate.from_gguf(metadata | named).stop == ()
    both = metadata | named | {key: template}
    for found in (both, metadata | {f"{key}s": ["default"], f"{key}.default": template}):
        assert ChatTemplate.from_gguf(found).source == template


def test_spaces_behind_control_tokens(published_folder: Path) -> None:
    """One before a word, as in Llama 2, and no second one before a blank."""
    tokenizer = opened("mistral-v3.gguf", published_folder)
    begin = tokenizer.control_tokens["[INST]"]
    hello = tokenizer.id_of("▁Hello")
    assert tokenizer.encode_rendered("[INST]Hello") == [begin, hello]
    assert tokenizer.encode_rendered("[INST] Hello") == [begin, hello]
    assert tokenizer.encode_text(" Hello") == [tokenizer.id_of("▁"), hello]


def test_phi3_swallows_blanks_behind_control_tokens(published_folder: Path) -> None:
    tokenizer = opened("phi-3.gguf", published_folder)
    library = Library.from_file(str(published_folder / "phi-3-mini" / "tokenizer.json"))
    text = "<|user|>\nHello there<|end|>\n<|assistant|>\n"
    assert tokenizer.encode_rendered(text) == library.encode(text).ids


def test_other_threads_get_their_turn_while_a_vocabulary_is_built() -> None:
    """The window's: the library takes what it is given in one call, and lets go in Python only."""
    words = [f"hello{number}" for number in range(4096)]
    metadata = byte_level()
    metadata["tokenizer.ggml.tokens"] += words
    metadata["tokenizer.ggml.token_type"] += [int(PieceKind.NORMAL)] * len(words)
    turns: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            turns[frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        tokenizer = Tokenizer.from_gguf(metadata)
    finally:
        sys.setprofile(None)
    assert turns["_IdInTurns.__index__"] >= len(words) // 512
    assert turns["_MergesInTurns.__iter__"] >= 5
    assert tokenizer.encode_text("hello") == [metadata["tokenizer.ggml.tokens"].index("hello")]
    assert tokenizer.id_of("hello4095") == len(metadata["tokenizer.ggml.tokens"]) - 1


def test_a_large_vocabulary_builds_quickly() -> None:
    """As many tokens as Qwen's. The bound is generous: a second is what it should take."""
    from itertools import islice, product

    from engine.model.text.token_bytes import BYTE_OF

    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = ["".join(pair) for pair in product(letters, repeat=2)]
    words = list(islice(("".join(pair) for pair in product(pairs, repeat=2)), 150_000))
    tokens = [*BYTE_OF, *pairs, *words]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [
            *(f"{pair[0]} {pair[1]}" for pair in pairs),
            *(f"{word[:2]} {word[2:]}" for word in words),
        ],
    }
    start = time.process_time()
    tokenizer = Tokenizer.from_gguf(metadata)
    assert time.process_time() - start < 6
    assert tokenizer.encode_text("abcd") == [tokens.index("abcd")]
