"""Tokenizers as strangers write them: small real ones with mistakes, and parts that harm."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from folder_models import FOLDER_STORIES
from wrong_values import WRONG, mutated

_SLOW_REGEX = {"Regex": "((a|ab|b)*(a|b)*)*(x+x+)+y"}
_NORMALIZERS: tuple[Any, ...] = (
    {"type": "Replace", "pattern": {"String": ""}, "content": "aa"},
    {"type": "Replace", "pattern": _SLOW_REGEX, "content": ""},
    {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "a" * 999},
    {"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
    {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "aa" * 9}] * 40},
    {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\xff" * 40).decode()},
    {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(8)).decode()},
    {"type": "Prepend", "prepend": "\u2581" * 9999},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
     "strip_accents": None, "lowercase": True},
    {"type": "NFKD"},
    {"type": "ByteLevel"},
)  # fmt: skip
_CUTTERS: tuple[Any, ...] = (
    {"type": "Split", "pattern": _SLOW_REGEX, "behavior": "Isolated", "invert": False},
    {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed", "invert": True},
    {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False},
    {"type": "Split", "pattern": {"String": ""}, "behavior": "MergedWithNext", "invert": False},
    {"type": "Metaspace", "replacement": "ab", "prepend_scheme": "first", "split": True},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "FixedLength", "length": 0},
    {"type": "CharDelimiterSplit", "delimiter": ""},
    {"type": "Sequence", "pretokenizers": []},
)
_MODELS: tuple[Any, ...] = (
    {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<none>"},
    {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
     "max_input_chars_per_word": 1 << 60, "vocab": {"a": 0}},
    {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]]},
    {"type": "Unigram", "unk_id": 9, "vocab": [["a", -1.0]], "byte_fallback": True},
    {"type": "Unigram", "unk_id": 0, "vocab": []},
    {"type": "Unigram", "unk_id": 0, "vocab": [["", float("nan")], ["", 1e308]]},
    {"type": "BPE", "vocab": {}, "merges": []},
    {"type": "BPE", "vocab": {"a": (1 << 32) - 1, "b": 0}, "merges": []},
    {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]},
    {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "<none>", "byte_fallback": True},
)  # fmt: skip
_AFTER: tuple[Any, ...] = (
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
     "pair": [], "special_tokens": {}},
    {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}},
    {"type": "BertProcessing", "sep": ["a", 1 << 31], "cls": ["b", 0]},
    {"type": "Sequence", "processors": []},
)  # fmt: skip
_ADDED: tuple[Any, ...] = tuple(
    {"id": index, "content": content, "single_word": False, "lstrip": True, "rstrip": True,
     "normalized": normalized, "special": special}
    for index in (0, 1 << 31, (1 << 32) - 1)
    for content in ("", "a", "x" * 5000, "\0")
    for normalized in (True, False)
    for special in (True, False)
)  # fmt: skip
_PARTS = {
    "normalizer": _NORMALIZERS,
    "pre_tokenizer": _CUTTERS,
    "model": _MODELS,
    "post_processor": _AFTER,
    "decoder": (*_NORMALIZERS, {"type": "Strip", "content": "", "start": 1 << 60, "stop": 1}),
}


@cache
def small_description() -> dict[str, Any]:
    """The tokenizer.json of a model with 512 tokens."""
    found: dict[str, Any] = json.loads((FOLDER_STORIES / "tokenizer.json").read_text("utf-8"))
    return found


def hostile_description(random: Random) -> dict[str, Any]:
    """A tokenizer.json."""
    description = small_description()
    match random.randrange(4):
        case 0:
            part = random.choice(sorted(_PARTS))
            return {**description, part: random.choice(_PARTS[part])}
        case 1:
            return {**description, "added_tokens": random.sample(_ADDED, 3)}
        case 2:  # not in the long lists
            short = {key: description[key] for key in description if key != "model"}
            return {"model": description["model"], **mutated(short, random, random.randrange(1, 4))}
        case _:
            return mutated(description, random, random.randrange(1, 4))  # type: ignore[no-any-return]


@cache
def small_metadata() -> dict[str, Any]:
    """The same vocabulary as GGUF metadata."""
    vocabulary = small_description()["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tuple(tokens),
        "tokenizer.ggml.scores": [float(-index) for index in range(len(tokens))],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259),
        "tokenizer.ggml.merges": tuple(
            line if isinstance(line, str) else " ".join(line)
            for line in small_description()["model"]["merges"]
        ),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
        "tokenizer.chat_template": "{{ messages[-1].content }}",
        "tokenizer.chat_templates": ("tool_use",),
        "tokenizer.chat_template.tool_use": "x",
    }


def hostile_metadata(random: Random) -> dict[str, Any]:
    """GGUF metadata: texts, numbers, flags, and lists of one type each."""
    metadata = dict(small_metadata())
    metadata["tokenizer.ggml.model"] = random.choice(["llama", "gpt2", "gemma4", "bert", "llama"])
    for _ in range(random.randrange(1, 4)):
        key = random.choice(sorted(metadata))
        held = metadata[key]
        if isinstance(held, tuple | list) and random.random() < 0.6:
            metadata[key] = _changed_list(list(held), random, type(held))
        else:
            metadata[key] = random.choice(WRONG[1:])
    return metadata


def _changed_list(values: list[Any], random: Random, kind: type) -> Any:
    at = random.randrange(len(values) + 1)
    numbers = (-1, 0, 1 << 62, float("nan"), float("inf"), 1e308, 7, 2.5, True)
    texts = ("", "a", " ", "a b", " a b ", "\ufffd", "x" * 100_000, "<s>", "<0x0A>", "<|x|>")
    match random.randrange(4):
        case 0:
            del values[at : at + random.randrange(1, 600)]
        case 1:
            values[at:at] = values[at : at + 9]
        case _:
            for _ in range(random.choice([1, 5, 400])):
                place = random.randrange(len(values) or 1)
                values[place : place + 1] = [random.choice(texts if kind is tuple else numbers)]
    return kind(values)


def write_hostile_folder(folder: Path, random: Random) -> None:
    """A model folder whose vocabulary lies in any of the usual files, one of them wrong."""
    vocabulary = small_description()["model"]["vocab"]
    files: dict[str, Any] = {
        "tokenizer_config.json": {
            "tokenizer_class": "LlamaTokenizer",
            "bos_token": "<s>",
            "eos_token": {"content": "</s>"},
            "add_bos_token": True,
            "added_tokens_decoder": {"0": {"content": "<unk>", "special": True}},
            "chat_template": [{"name": "default", "template": "{{ messages[-1].content }}"}],
        },
        "special_tokens_map.json": {"bos_token": "<s>", "additional_special_tokens": ["<x>"]},
        "added_tokens.json": {"<x>": 513},
        "config.json": {"eos_token_id": [2]},
        "generation_config.json": {"eos_token_id": 2, "temperature": 0.7, "top_k": 5},
        "vocab.json": vocabulary,
    }
    changed = random.choice(sorted(files))
    files[changed] = mutated(files[changed], random, random.randrange(1, 4))
    if random.random() < 0.1:
        files[changed] = random.choice(WRONG)
    if random.random() < 0.5:
        files["tokenizer.json"] = small_description()
    for name, content in files.items():
        text = json.dumps(content)
        (folder / name).write_text(text[: random.choice([len(text)] * 9 + [len(text) // 2])])
    merges = ["#version: 0.2", "\u2581 t", "h e", *random.sample(["", "a", "a b c", " x", "x "], 2)]
    (folder / "merges.txt").write_text("\n".join(merges), encoding="utf-8")
    if random.random() < 0.3:
        ranks = [b"YQ== 0", b"Yg== 1", b"YWI= 2", b"YWI= -1", b"!! 3", b"YQ==", b"YQ== 99999999999"]
        lines = random.sample(ranks, 4)
        (folder / random.choice(["gpt2.tiktoken", "x.tiktoken"])).write_bytes(b"\n".join(lines))
    if random.random() < 0.5:
        (folder / "tokenizer.model").write_bytes(_hostile_pieces(random, sorted(vocabulary)))


def _hostile_pieces(random: Random, texts: list[str]) -> bytes:
    pieces = bytearray()
    for text in texts[:200]:
        raw = text.encode()
        pieces += bytes([10, len(raw) + 2, 10, len(raw)]) + raw
    pieces += bytes([18, 2, 24, 2, 26, 4, 24, 1, 32, 0])
    for _ in range(random.choice([0, 1, 3, 30])):
        pieces[random.randrange(len(pieces))] = random.randrange(256)
    return bytes(pieces[: random.choice([len(pieces)] * 4 + [random.randrange(len(pieces))])])
