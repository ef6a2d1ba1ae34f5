"""Model folders around small real tokenizers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from small_tokenizers import TokenizerFolder, byte_level, sentencepiece


@pytest.fixture(scope="session")
def tokenizer_files() -> dict[str, str]:
    """Kind -> contents of tokenizer.json."""
    return {
        "byte_level": byte_level().to_str(),
        "normalizer": sentencepiece("normalizer").to_str(),
        "metaspace": sentencepiece("metaspace").to_str(),
    }


@pytest.fixture
def tokenizer_folder(tmp_path: Path, tokenizer_files: dict[str, str]) -> TokenizerFolder:
    def write(
        kind: str,
        *,
        settings: Mapping[str, Any] = {"bos_token": "<s>", "eos_token": "</s>"},
        config: Mapping[str, Any] | None = None,
    ) -> Path:
        (tmp_path / "tokenizer.json").write_text(tokenizer_files[kind], encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        if config is not None:
            (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return tmp_path

    return write
