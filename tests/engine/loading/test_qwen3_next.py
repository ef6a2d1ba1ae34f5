"""Qwen3-Next, whose projections lie fused by key heads: transformers' numbers from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from engine_session import Session
from hybrid_models import (
    EXPERTS,
    UNLIKE,
    apart,
    reference_logits,
    write_hybrid_gguf,
    write_qwen3_next,
)
from native_models import native_decoder
from tiny_models import write_chat_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.commands import Mode, WeightFormat
from engine.errors import UserFixable
from engine.loading.inspected_model import own_model
from engine.model.families import open_config
from engine.model.local_model import LocalModel
from engine.model.weights.readable import Floats
from engine.request import SamplingParams

TOKENS = np.random.default_rng(2).integers(3, 320, 75).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_qwen3_next(tmp_path_factory.mktemp("next"))


def logits(model: Decoder) -> Floats:
    return model.forward(model.new_state(640), TOKENS).logits


def of_gguf(file: Path) -> Decoder:
    config, weights, _ = own_model(LocalModel.inspect(file), WeightFormat.AUTO)
    return Decoder.build(config, weights, NativeBackend(None))


def test_numbers_are_transformers(folder: Path) -> None:
    found = logits(native_decoder(folder, Format.F32))
    assert apart(found, reference_logits(folder, TOKENS)) < 1e-4


def test_gguf_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    """All queries, keys and values lie in order there, but b and a still by key head."""
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf")
    assert apart(logits(of_gguf(file)), reference_logits(folder, TOKENS)) < 1e-4


@pytest.mark.parametrize("step", ["plus one", "rate"])
def test_a_step_of_the_converter_matters(folder: Path, tmp_path: Path, step: str) -> None:
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf", leave_out=[step])
    assert not apart(logits(of_gguf(file)), reference_logits(folder, TOKENS)) < 0.05


def test_a_model_with_blocks_without_experts_is_refused(tmp_path: Path) -> None:
    other = write_qwen3_next(tmp_path, mlp_only_layers=[1])
    with pytest.raises(UserFixable, match="blocks without experts"):
        open_config(other)


def test_answers_are_the_models_own(session: Session, tmp_path: Path) -> None:
    shape = {**UNLIKE, **EXPERTS, "dtype": torch.bfloat16}
    chat = write_chat_model(tmp_path / "chat", "qwen3_next", **shape)
    texts = []
    for mode in (Mode.PLAIN, Mode.CPU):
        session.load(chat, mode=mode)
        greedy = SamplingParams(temperature=0)
        texts.append(session.ask("A fox, a fox.", sampling=greedy, max_tokens=24).token_ids)
    assert texts[0] == texts[1]
