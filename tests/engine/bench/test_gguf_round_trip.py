"""What is written for llama.cpp is read again: the same model, the same weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from llama_files import llama, needs_peer
from peer_families import DESCRIBED, family_config
from peer_models import Random

from engine.model.config import RopeConfig
from engine.model.families import parse_config
from engine.model.gguf.config import config_json
from engine.model.gguf.file import open_gguf
from engine.model.rope import rotations
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Floats

UNSAID = {"bos_token_id": None, "eos_token_ids": (), "blocks": ()}
"""The file has no vocabulary."""


def turns(rope: RopeConfig | None) -> Floats:
    """What positions are rotated by; nothing says in GGUF that gpt-oss's YaRN rounds."""
    if rope is None:
        return np.empty(0, np.float32)
    return np.concatenate(rotations(replace(rope, truncate=True), 80))


@needs_peer
@pytest.mark.parametrize("name", DESCRIBED)
def test_same_model(name: str, tmp_path: Path) -> None:
    config = family_config(name)
    with llama() as peer:
        peer.write(tmp_path / "model.gguf", config, Random(config))
    file = open_gguf(tmp_path / "model.gguf")
    read = parse_config(config_json(file))
    family = "llama" if name == "mistral" else config.family
    assert replace(read, **UNSAID) == replace(config, **UNSAID, family=family)
    for block, wanted in zip(read.blocks, config.blocks, strict=True):
        assert (block.window, block.experts) == (wanted.window, wanted.experts)
        np.testing.assert_allclose(turns(block.rope), turns(wanted.rope), atol=1e-5)
    weights = ModelWeights.open(read, file.reader(), "gguf")
    for tensor in weights.names():
        assert np.array_equal(weights.float32(tensor), Random(config).float32(tensor)), tensor
