"""The sampling that models recommend, from both kinds of files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folder_models import FOLDER_TARGET

from engine.model.generation_config import FILE, folder_sampling, gguf_sampling
from engine.model.local_model import LocalModel
from engine.request import SamplingParams

QWEN = {
    "do_sample": True,
    "repetition_penalty": 1.1,
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
    "max_new_tokens": 2048,
}
SAID: list[tuple[dict[str, Any], SamplingParams | None]] = [
    (QWEN, SamplingParams(0.7, 20, 0.8, repetition_penalty=1.1)),
    ({"do_sample": True, "top_k": 64, "top_p": 0.95}, SamplingParams(1.0, 64, 0.95)),
    ({"temperature": 0.6}, SamplingParams(0.6)),
    ({"do_sample": False, "temperature": 0.6}, None),
    ({"do_sample": True, "temperature": 0.0}, None),
    ({"repetition_penalty": 1.2, "eos_token_id": 2}, None),
    ({"do_sample": True, "temperature": "hot"}, None),
    ({"do_sample": True, "temperature": 40.0}, None),
    ({}, None),
]


@pytest.mark.parametrize(("said", "expected"), SAID)
def test_a_folder_recommends(
    tmp_path: Path, said: dict[str, Any], expected: SamplingParams | None
) -> None:
    (tmp_path / FILE).write_text(json.dumps(said))
    assert folder_sampling(tmp_path) == expected


def test_a_broken_or_missing_file_recommends_nothing(tmp_path: Path) -> None:
    assert folder_sampling(tmp_path) is None
    (tmp_path / FILE).write_text("{")
    assert folder_sampling(tmp_path) is None


def test_a_gguf_file_that_says_nonsense_recommends_nothing() -> None:
    assert gguf_sampling({"general.sampling.temp": "hot", "general.sampling.top_k": 20}) is None


def test_a_gguf_file_recommends_in_its_own_words() -> None:
    metadata = {
        "general.name": "Qwen",
        "general.sampling.temp": float(np.float32(0.7)),
        "general.sampling.top_k": 20,
        "general.sampling.top_p": float(np.float32(0.8)),
        "general.sampling.penalty_repeat": float(np.float32(1.1)),
    }
    assert gguf_sampling(metadata) == SamplingParams(0.7, 20, 0.8, repetition_penalty=1.1)
    assert gguf_sampling({"general.sampling.top_k": 64}) == SamplingParams(1.0, 64)
    assert gguf_sampling({"general.name": "Llama"}) is None


def test_a_model_is_asked_for_it(tmp_path: Path) -> None:
    assert LocalModel.inspect(FOLDER_TARGET).sampling() is None
    copy = shutil.copytree(FOLDER_TARGET, tmp_path / "model")
    (copy / FILE).write_text(json.dumps(QWEN))
    assert LocalModel.inspect(copy).sampling() == SAID[0][1]
