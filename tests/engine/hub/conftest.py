"""Small models in every form, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_models import Kind, write_gguf

from engine.hub.shelf.shelf import ModelShelf


@pytest.fixture(scope="session")
def small_gguf(tmp_path_factory: pytest.TempPathFactory, chat_model: Path) -> Path:
    """The chat model in one file."""
    return write_gguf(chat_model, tmp_path_factory.mktemp("one") / "babbler-Q8_0.gguf", Kind.Q8_0)


@pytest.fixture(scope="session")
def split_gguf(tmp_path_factory: pytest.TempPathFactory, chat_model: Path) -> Path:
    """The chat model in several files; the first one."""
    folder = tmp_path_factory.mktemp("parts")
    return write_gguf(chat_model, folder / "split.gguf", Kind.F16, parts=12)


@pytest.fixture
def shelf(tmp_path: Path) -> ModelShelf:
    """A shelf of a new user; its folder's name has a blank and letters of two alphabets."""
    return ModelShelf(tmp_path / "Über 数据")
