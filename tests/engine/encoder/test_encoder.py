"""Embedding models of the BERT family, compared with transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_models import TEXTS, bert, bert_gguf, nomic, nomic_gguf, roberta
from transformers import AutoModel, AutoTokenizer

from engine.encoder.encoder import TooLong, load_encoder
from engine.errors import UserFixable

Make = Callable[[Path], Path]


def theirs(folder: Path, text: str, *, first: bool = False) -> np.ndarray[tuple[int], np.dtype]:
    """The embedding by transformers."""
    model = AutoModel.from_pretrained(folder).eval()
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state[0]
    pooled = hidden[0] if first else hidden.mean(dim=0)
    return torch.nn.functional.normalize(pooled, dim=0).numpy()


@pytest.mark.parametrize("make", [bert, roberta, nomic])
def test_a_folder_gives_what_transformers_gives(make: Make, tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    encoder = load_encoder(folder)
    for text in TEXTS:
        ours = encoder.embed(text).vector
        np.testing.assert_allclose(ours, theirs(folder, text), atol=2e-5)
        assert abs(float(np.linalg.norm(ours)) - 1) < 1e-6


@pytest.mark.parametrize(("make", "packed"), [(bert, bert_gguf), (nomic, nomic_gguf)])
def test_a_gguf_file_gives_what_its_folder_gives(
    make: Make, packed: Callable[[Path, Path], Path], tmp_path: Path
) -> None:
    folder = make(tmp_path / "model")
    whole, file = load_encoder(folder), load_encoder(packed(folder, tmp_path / "model.gguf"))
    for text in TEXTS:
        ours = file.embed(text)
        assert ours.tokens == whole.embed(text).tokens
        np.testing.assert_allclose(ours.vector, whole.embed(text).vector, atol=1e-6)


def test_the_first_token_stands_for_the_text_where_the_files_say_so(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model")
    (folder / "1_Pooling").mkdir()
    told = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))
    ours = load_encoder(folder).embed(TEXTS[0]).vector
    np.testing.assert_allclose(ours, theirs(folder, TEXTS[0], first=True), atol=2e-5)


def test_a_text_that_is_too_long_is_refused_and_not_cut(tmp_path: Path) -> None:
    encoder = load_encoder(bert(tmp_path / "model"))
    encoder.embed("rain " * (encoder.longest - 2))
    with pytest.raises(TooLong):
        encoder.embed("rain " * (encoder.longest - 1))


def broken(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", "{}"),
        ("config.json", '{"model_type": "mpnet"}'),
        ("config.json", "["),
        ("modules.json", '[{"type": "sentence_transformers.models.Dense"}]'),
        ("modules.json", "{}{"),
        ("tokenizer.json", "{}"),
        ("model.safetensors", "nothing"),
    ],
)
def test_what_cannot_be_used_is_told_in_words(name: str, text: str, tmp_path: Path) -> None:
    folder = bert(tmp_path / "model")
    with pytest.raises(UserFixable):
        load_encoder(broken(folder, name, text))


def test_a_missing_tensor_a_missing_file_and_a_chat_model_are_told_in_words(
    tmp_path: Path,
) -> None:
    folder = bert(tmp_path / "model")
    told = json.loads((folder / "config.json").read_text())
    for change in ({"num_hidden_layers": 3}, {"intermediate_size": 65}, {"vocab_size": 5}):
        (folder / "config.json").write_text(json.dumps(told | change))
        with pytest.raises(UserFixable, match="do not match its description"):
            load_encoder(folder)
    with pytest.raises(UserFixable, match="no file"):
        load_encoder(tmp_path / "nothing.gguf")
