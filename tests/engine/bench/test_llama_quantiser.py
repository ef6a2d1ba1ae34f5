"""Our account of llama.cpp's mixtures against its own quantiser; skipped where it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_files import llama, needs_peer, quantised
from peer_families import family_config
from peer_models import Random

from engine.bench.peer.export import gguf_names
from engine.bench.recipes import RECIPES, tensor_kinds
from engine.model.gguf.file import open_gguf

LONG = {"hidden_size": 256, "intermediate_size": 512}
SHORT = {"hidden_size": 96, "intermediate_size": 256}
EXPERTS = {"hidden_size": 256, "moe_intermediate_size": 32, "num_experts": 16}


@needs_peer
@pytest.mark.parametrize(
    ("family", "sizes"),
    [("llama", LONG), ("qwen2", SHORT), ("phi3", SHORT), ("qwen3moe", EXPERTS)],
)
def test_same_types(family: str, sizes: dict[str, int], tmp_path: Path) -> None:
    config = family_config(family, num_hidden_layers=9, head_dim=24, **sizes)
    source = tmp_path / "model.gguf"
    with llama() as peer:
        peer.write(source, config, Random(config))
    names = gguf_names(config)
    for recipe, path in quantised(source, *RECIPES).items():
        theirs = open_gguf(path).tensors
        for name, kind in tensor_kinds(config, recipe).items():
            assert (name, kind) == (name, theirs[names[name]].kind), recipe
