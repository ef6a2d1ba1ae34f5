"""Folders with a vocabulary in other files than tokenizer.json."""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path

import pytest
from published_vocabularies import library, opened
from tokenizers import Tokenizer as Library
from transformers import Qwen3_5Tokenizer

from engine.errors import UserFixable
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.library import byte_level
from engine.model.text.vocabulary.pieces import (
    PieceKind,
    Pieces,
    SentencePieceModel,
    by_rank,
    by_score,
)
from engine.model.text.vocabulary.pretokenisers import pretokeniser

TEXTS = [
    "Hello, y'all! 1234 über 日本語 👩‍👩‍👧  \n\n\tdef x(): pass",
    " leading",
    "a\x00\x1f\u200d",
    "</s> <|endoftext|> [INST]",
]


def folder_of(tmp_path: Path, published_folder: Path, *files: str) -> Path:
    for name in files:
        source, _, target = name.partition(">")
        file = tmp_path / (target or Path(source).name)
        file.write_bytes((published_folder / source).read_bytes())
    return tmp_path


@pytest.mark.parametrize("files", [("gpt2/vocab.json", "gpt2/merges.txt"), ("gpt2/gpt2.tiktoken",)])
def test_gpt2_in_other_files(
    tmp_path: Path, published_folder: Path, files: tuple[str, ...]
) -> None:
    tokenizer = Tokenizer.open(folder_of(tmp_path, published_folder, *files))
    theirs = library("gpt2", published_folder)
    assert tokenizer.vocabulary == theirs.get_vocab(with_added_tokens=True)
    assert tokenizer.control_tokens == {"<|endoftext|>": 50256}
    for text in TEXTS:
        assert tokenizer.encode_text(text) == theirs.encode(text).ids
        assert tokenizer.decode(tokenizer.encode_text(text)) == text


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("llama2/tokenizer.model", "llama-spm"),
        ("mistral/tokenizer.model.v1", "mistral-v1"),
        ("mistral/tokenizer.model.v3", "mistral-v3"),
    ],
)
def test_sentencepiece_files(tmp_path: Path, published_folder: Path, file: str, name: str) -> None:
    tokenizer = Tokenizer.open(folder_of(tmp_path, published_folder, file))
    same = opened(f"{name}.gguf", published_folder)
    assert tokenizer.control_tokens == same.control_tokens
    for text in TEXTS:
        ids = tokenizer.encode_text(text)
        assert ids == same.encode_text(text)
        assert tokenizer.decode(ids) == text


def test_sentencepiece_ids_are_llama_2s(tmp_path: Path, published_folder: Path) -> None:
    """As the library gives them by tokenizer.json; the copy at hand has lost its hard spaces."""
    data = json.loads((published_folder / "llama2" / "tokenizer.json").read_text())
    model = data["model"]
    pieces = SentencePieceModel.read(published_folder / "llama2" / "tokenizer.model")
    model["vocab"] = {text: index for index, text in enumerate(pieces.pieces.texts)}
    model["merges"] = [merge for merge in model["merges"] if merge.count(" ") == 1]
    library = Library.from_str(json.dumps(data))
    library.encode_special_tokens = True
    tokenizer = Tokenizer.open(folder_of(tmp_path, published_folder, "llama2/tokenizer.model"))
    # Of U+2581 such a vocabulary knows nothing: it is a space, and comes back as one.
    for text in (*TEXTS, "a \u2581\u2581 b"):
        assert tokenizer.encode_text(text) == library.encode(text, add_special_tokens=False).ids


def test_added_tokens_beside_a_vocabulary(tmp_path: Path, published_folder: Path) -> None:
    folder = folder_of(tmp_path, published_folder, "llama2/tokenizer.model")
    settings = {
        "added_tokens_decoder": {
            "1": {"content": "<s>", "special": True},
            "32001": {"content": "<|im_end|>", "special": True},
        },
        "eos_token": "<|im_end|>",
        "bos_token": "<s>",
        "add_bos_token": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "added_tokens.json").write_text('{"<tool>": 32003}')
    tokenizer = Tokenizer.open(folder)
    assert tokenizer.control_tokens["<|im_end|>"] == 32001
    assert tokenizer.control_tokens["<tool>"] == 32003
    assert tokenizer.vocab_size == 32004
    assert (tokenizer.bos_id, tokenizer.adds_bos, tokenizer.eos_ids) == (1, True, {32001})


def test_another_file_serves_when_one_is_damaged(tmp_path: Path, published_folder: Path) -> None:
    folder = folder_of(tmp_path, published_folder, "llama2/tokenizer.model")
    (folder / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": 3}}')
    assert Tokenizer.open(folder).encode_text("hello") == [22172]
    (folder / "tokenizer.model").write_bytes(b"nothing")
    with pytest.raises(UserFixable, match="vocabulary is damaged"):
        Tokenizer.open(folder)


@pytest.mark.parametrize(
    "change", [{"added_tokens_decoder": {"x": {}}}, {"added_tokens_decoder": {"9" * 12: {}}}]
)
def test_damaged_added_tokens(
    tmp_path: Path, published_folder: Path, change: dict[str, object]
) -> None:
    folder = folder_of(tmp_path, published_folder, "gpt2/vocab.json", "gpt2/merges.txt")
    (folder / "tokenizer_config.json").write_text(json.dumps(change))
    with pytest.raises(UserFixable):
        Tokenizer.open(folder)


def test_damaged_sentencepiece_files(tmp_path: Path, published_folder: Path) -> None:
    """A flipped byte anywhere gives a model or a sentence, and nothing else."""
    whole = (published_folder / "llama2" / "tokenizer.model").read_bytes()
    head, tail = whole[:3000], whole[-600:]  # tokens, and how they came about
    short = head + tail
    chance = random.Random(5)
    path = tmp_path / "tokenizer.model"
    failed = 0
    for _ in range(600):
        data = bytearray(short)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
        try:
            SentencePieceModel.read(path)
        except UserFixable:
            failed += 1
    assert failed > 200


def test_a_file_without_tokens_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"\x12\x02\x18\x02")
    with pytest.raises(UserFixable, match="is damaged") as refused:
        SentencePieceModel.read(tmp_path / "tokenizer.model")
    assert "no tokens" in refused.value.details


def test_runs_of_blanks_come_before_all_other_pieces() -> None:
    texts = ["\u2581", "\u2581\u2581", "a", "\u2581a"]
    kinds = [PieceKind.NORMAL, PieceKind.USER_DEFINED, PieceKind.NORMAL, PieceKind.NORMAL]
    pieces = Pieces(texts, [0.0, 0.0, 0.0, 5.0], kinds)
    assert by_score(pieces) == [("\u2581", "\u2581"), ("\u2581", "a")]


def test_a_token_that_is_listed_twice() -> None:
    """The later id encodes, as in llama.cpp, and both are decoded."""
    texts = ["<unk>", "a", "b", "ab", "a"]
    kinds = [PieceKind.UNKNOWN, *[PieceKind.NORMAL] * 4]
    tokenizer = Tokenizer(
        byte_level(Pieces(texts, (), kinds), [("a", "b")], pretokeniser("default"))
    )
    assert tokenizer.encode_text("a") == [4]
    assert tokenizer.encode_text("abb") == [3, 2]
    assert tokenizer.decode([1, 4, 3]) == "aaab"
    assert tokenizer.vocab_size == 5


def random_texts(count: int) -> list[str]:
    """Words of nine scripts with combining marks, digits, signs, blanks and ends of lines."""
    rng = random.Random(35)
    letters = "aZéßñжЯαΩאבعرहिन्दीกาไ한국日本語\u0301\u0308\u0654\u093c\u20dd"
    others = "0123456789٣४½Ⅻ.,!?'(“”)-_/\\#€👩\u200d🏳️   \t\n\r's'LL"
    every = (letters, letters, letters, others, " ")
    made = ("".join(rng.choice(rng.choice(every)) for _ in range(40)) for _ in range(count))
    return [unicodedata.normalize("NFC", text) for text in made]


def test_qwen3_5_cuts_where_transformers_does() -> None:
    """Combining marks belong to words, which those of earlier Qwen end before."""
    theirs = Qwen3_5Tokenizer().backend_tokenizer.pre_tokenizer
    bytes_ = Pieces(["a", "b", "ab"], (), [PieceKind.NORMAL] * 3)
    ours, earlier = (
        Library.from_str(
            json.dumps(byte_level(bytes_, [("a", "b")], pretokeniser(name)).description)
        ).pre_tokenizer
        for name in ("qwen35", "qwen2")
    )
    different = 0
    for text in random_texts(500):
        expected = theirs.pre_tokenize_str(text)
        assert ours.pre_tokenize_str(text) == expected, text
        different += earlier.pre_tokenize_str(text) != expected
    assert different > 200


def test_a_token_that_no_two_others_make_has_no_merge() -> None:
    ranks = {b"a": 0, b"b": 1, b"c": 2, b"ab": 3, b"abc": 4, b"cba": 5}
    assert by_rank(ranks) == [(b"a", b"b"), (b"ab", b"c")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gpt2.tiktoken", b"IQ== 0\nIg== x\n"),
        ("gpt2.tiktoken", b"not base 64\n"),
        ("gpt2.tiktoken", b"IQ== -5\n"),
        ("gpt2.tiktoken", b"\xff\xfe"),
        ("future.tiktoken", b"IQ== 0\n"),
        ("vocab.json", b'{"a": -1}'),
        ("vocab.json", b'{"a": 99999999}'),
        ("vocab.json", b"[]"),
        ("vocab.json", b"{}"),
    ],
)
def test_damaged_plain_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    with pytest.raises(UserFixable):
        Tokenizer.open(tmp_path)
