"""Vocabularies of published models as GGUF files would have them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library

from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.pieces import PieceKind, SentencePieceModel

Metadata = dict[str, Any]
GGUF_LIKE = ("gpt-2", "phi-2", "mpt", "llama-spm", "phi-3", "mistral-v1", "mistral-v3")


@functools.cache
def opened(name: str, published_folder: Path) -> Tokenizer:
    """The tokenizer of one of the folders, or of a `gguf_like` name that ends in .gguf."""
    if name.endswith(".gguf"):
        return Tokenizer.from_gguf(gguf_like(name.removesuffix(".gguf"), published_folder))
    return Tokenizer.open(published_folder / name)


@functools.cache
def library(folder: str, published_folder: Path) -> Library:
    """The library's own tokenizer of a folder's tokenizer.json, to which all text is text."""
    found = Library.from_file(str(published_folder / folder / "tokenizer.json"))
    found.encode_special_tokens = True
    return found


def gguf_like(name: str, published_folder: Path) -> Metadata:
    """GGUF metadata with the vocabulary of a published model."""
    if name in ("gpt-2", "phi-2", "mpt"):
        source = {"gpt-2": "gpt2", "phi-2": "phi-2", "mpt": "gpt-neox-20b"}[name]
        return _byte_level(published_folder / source / "tokenizer.json", name)
    if name == "llama-spm":
        return _scored(published_folder / "llama2" / "tokenizer.model")
    if name == "phi-3":
        return _phi3(published_folder)
    return _scored(
        published_folder / "mistral" / f"tokenizer.model.{name.removeprefix('mistral-')}"
    )


def _byte_level(file: Path, pre: str) -> Metadata:
    data = json.loads(file.read_text(encoding="utf-8"))
    texts = {index: text for text, index in data["model"]["vocab"].items()}
    kinds = dict.fromkeys(texts, PieceKind.NORMAL)
    for token in data["added_tokens"]:
        texts[token["id"]] = token["content"]
        kinds[token["id"]] = PieceKind.CONTROL if token["special"] else PieceKind.USER_DEFINED
    end = data["added_tokens"][0]["id"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [texts[index] for index in range(len(texts))],
        "tokenizer.ggml.token_type": [int(kinds[index]) for index in range(len(texts))],
        "tokenizer.ggml.merges": [
            merge if isinstance(merge, str) else " ".join(merge)
            for merge in data["model"]["merges"]
        ],
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.eos_token_id": end,
    }


def _scored(file: Path) -> Metadata:
    pieces = SentencePieceModel.read(file).pieces
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": list(pieces.texts),
        "tokenizer.ggml.scores": list(pieces.scores),
        "tokenizer.ggml.token_type": list(pieces.kinds),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def _phi3(folder: Path) -> Metadata:
    """Llama 2's vocabulary with more control tokens."""
    metadata = _scored(folder / "llama2" / "tokenizer.model")
    added = json.loads((folder / "phi-3-mini" / "tokenizer.json").read_text())["added_tokens"]
    for token in added:
        if token["id"] >= len(metadata["tokenizer.ggml.tokens"]):
            metadata["tokenizer.ggml.tokens"].append(token["content"])
            metadata["tokenizer.ggml.scores"].append(-1000.0)
            metadata["tokenizer.ggml.token_type"].append(int(PieceKind.CONTROL))
    metadata["tokenizer.ggml.token_type"][2] = int(PieceKind.USER_DEFINED)
    metadata["tokenizer.ggml.eos_token_id"] = 32000
    return metadata | {"general.architecture": "phi3"}
