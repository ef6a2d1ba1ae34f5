"""Models shared by the engine's tests; built once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_session import Session
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from full_models import full_decoder
from native_models import native_decoder
from tiny_models import decoder, write_chat_model, write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.matrix import PACKABLE


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """A random Llama with grouped heads and context 640."""
    return decoder(write_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def tiny_draft(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """A smaller random Qwen2 with the same vocabulary: it hardly ever agrees with `tiny`."""
    folder = tmp_path_factory.mktemp("tiny-draft")
    return decoder(write_model(folder, "qwen2", seed=5, hidden_size=32, num_hidden_layers=1))


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Widths that are no multiple of any vector register."""
    folder = tmp_path_factory.mktemp("odd")
    return decoder(write_model(folder, hidden_size=72, intermediate_size=90, vocab_size=323))


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Windows, caps, two ways to rotate, norms everywhere, in odd widths."""
    shape: dict[str, Any] = {
        "hidden_size": 72, "head_dim": 20, "intermediate_size": 90, "vocab_size": 323,
        "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0, "sliding_window": 30,
        "sliding_window_pattern": 2,
    }  # fmt: skip
    return decoder(write_model(tmp_path_factory.mktemp("gemma"), "gemma3_text", **shape))


@pytest.fixture(scope="session")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """gpt-oss: experts with biases, sinks, windows, in odd widths."""
    shape: dict[str, Any] = {
        "hidden_size": 72, "intermediate_size": 45, "num_local_experts": 7, "sliding_window": 30,
    }  # fmt: skip
    return decoder(write_model(tmp_path_factory.mktemp("experts"), "gpt_oss", **shape))


@pytest.fixture(scope="session")
def phi(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Heads rotated in part, a window in every block."""
    shape: dict[str, Any] = {"partial_rotary_factor": 0.5, "sliding_window": 70}
    return decoder(write_model(tmp_path_factory.mktemp("phi"), "phi3", **shape))


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[Format, tuple[Decoder, Decoder]]:
    """The pair tiny and tiny_draft with weights in every native format."""
    root = tmp_path_factory.mktemp("native-pair")
    target = write_model(root / "target")
    draft = write_model(root / "draft", "qwen2", seed=5, hidden_size=32, num_hidden_layers=1)
    return {fmt: (native_decoder(target, fmt), native_decoder(draft, fmt)) for fmt in PACKABLE}


@pytest.fixture(scope="session")
def featured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Decoder]:
    """Native models with windows shorter than the texts and trees of tests, softcaps, experts."""
    root = tmp_path_factory.mktemp("featured")
    windows = {"gemma2": 12, "gemma3_text": 30, "gpt_oss": 7}
    models = {
        family: native_decoder(write_model(root / family, family, sliding_window=window), Format.Q8)
        for family, window in windows.items()
    }
    return {**models, "every feature": full_decoder(Format.Q4)}


@pytest.fixture(scope="session")
def trained() -> Decoder:
    """One that has learnt to write."""
    return decoder(FOLDER_TARGET)


@pytest.fixture(scope="session")
def trained_draft() -> Decoder:
    """The draft of `trained`."""
    return decoder(FOLDER_DRAFT)


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random chat model that loads at once and hardly ever ends its turn."""
    return write_chat_model(tmp_path_factory.mktemp("chat") / "Babbler")


@pytest.fixture(scope="session")
def other_chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of another one with the same tokenizer."""
    return write_chat_model(tmp_path_factory.mktemp("chat") / "Mumbler", seed=1)


@pytest.fixture
def session() -> Iterator[Session]:
    """An engine without a model."""
    session = Session()
    yield session
    session.close()
