"""JSON files and GGUF metadata with values of the wrong type: words that name file and key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folder_models import FOLDER_STORIES
from hostile_tokenizers import small_metadata
from wrong_values import WRONG

from engine.errors import UserFixable
from engine.model.gguf.config import model_config
from engine.model.gguf.file import GgufFile, Metadata
from engine.model.local_model import LocalModel
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.template_source import folder_ends
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.folder import first_readable
from engine.model.weights.stored import StoredTensor

_MORE: dict[str, dict[str, Any]] = {
    "config.json": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "head_dim": 8},
    "tokenizer_config.json": {"add_bos_token": True, "eos_token": "</s>"},
    "generation_config.json": {"temperature": 0.7, "top_k": 5, "do_sample": True},
    "duotail.json": {"name": "Stories", "draft": "../draft"},
    "special_tokens_map.json": {"eos_token": {"content": "</s>"}},
}


def _contents(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    held = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return {**held, **_MORE[name]}


def _read(folder: Path, tokenizer: Tokenizer) -> None:
    """Everything that a load reads but the weights; the vocabulary itself is read already."""
    model = LocalModel.inspect(folder)
    model.sampling()
    folder_ends(folder, tokenizer)
    model.template()


@pytest.mark.release(reason="every member of every file takes five seconds", keep=2)
@pytest.mark.parametrize("name", _MORE)
def test_json_files(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "stories"
    shutil.copytree(FOLDER_STORIES, folder)
    tokenizer = first_readable(folder, Tokenizer)
    contents = _contents(folder, name)
    for key, held in contents.items():
        for value in WRONG:
            (folder / name).write_text(json.dumps({**contents, key: value}))
            said = _words(lambda: _read(folder, tokenizer), f"{name}: {key} = {value!r}")
            if said and isinstance(held, int | float) and isinstance(value, str | list | dict):
                assert name in said, key
                assert key in said or "not valid JSON" in said


def _words(read: Callable[[], object], case: str) -> str:
    """The words and details with which reading fails; anything else that is raised is a bug."""
    try:
        read()
    except UserFixable as error:
        return f"{error.cause} {error.details}"
    except Exception as error:
        raise AssertionError(case) from error
    return ""


@pytest.mark.parametrize(
    ("name", "key", "read"),
    [
        ("config.json", "rope_scaling", LocalModel.inspect),
        ("tokenizer.json", "decoder", Tokenizer.open),
    ],
)
def test_nested_too_deeply(
    name: str, key: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    """At some depth a value can just be read, and is too deep for what is done with it."""
    shutil.copytree(FOLDER_STORIES, tmp_path, dirs_exist_ok=True)
    contents = json.loads((tmp_path / name).read_text("utf-8"))
    others = json.dumps({other: contents[other] for other in contents if other != key})[:-1]
    for depth in range(890, 960):
        (tmp_path / name).write_text(f'{others}, "{key}": {"[" * depth}{"]" * depth}}}')
        assert _words(lambda: read(tmp_path), f"{depth} deep")


_MODEL = {
    "general.architecture": "llama",
    "general.name": "Small",
    "general.file_type": 1,
    "llama.block_count": 2,
    "llama.context_length": 64,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.key_length": 16,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
    "llama.rope.dimension_count": 16,
    "llama.rope.scaling.type": "linear",
    "llama.rope.scaling.factor": 2.0,
    "llama.expert_count": 0,
    "general.sampling.temp": 0.7,
}


@pytest.mark.parametrize("key", sorted({*_MODEL, *small_metadata()}))
def test_gguf_metadata(key: str) -> None:
    file = Path("small.gguf")
    metadata = {**small_metadata(), **_MODEL}
    rows = len(metadata["tokenizer.ggml.tokens"])
    table = StoredTensor(file, "F16", (rows, 64), 0, rows * 128)
    for value in (*WRONG[1:], ("a", "b"), np.arange(3), np.array([np.nan]), np.zeros(5000)):
        stored = Metadata({**metadata, key: value}, file.name)
        model = GgufFile((file,), stored, {"token_embd.weight": table})
        readers: list[Callable[[], object]] = [lambda model=model: model_config(model)]
        if key.startswith("tokenizer.") or key == "general.architecture":
            readers.append(lambda stored=stored: ChatTemplate.from_gguf(stored.values))
            readers.append(lambda stored=stored: Tokenizer.from_gguf(stored.values))
        for read in readers:
            said = _words(read, f"{key} = {value!r}")
            if said and isinstance(metadata[key], int | float) and isinstance(value, dict | list):
                assert key.rpartition(".")[2] in said
