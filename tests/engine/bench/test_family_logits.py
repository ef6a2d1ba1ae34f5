"""Every family computes what llama.cpp computes from the same file; skipped where it is not there.

With weights, keys and values in fp32 the two differ by little more than the order of their sums,
so that whatever one of them left out would show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from llama_files import llama, needs_peer, quantised
from peer_families import DESCRIBED, RECURRENT, family_config
from peer_models import Random

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.native.pool import ThreadPool
from engine.backend.native.segment import NativeBackend
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.model.config import BlockConfig, ModelConfig
from engine.model.families import parse_config
from engine.model.gguf.config import config_json
from engine.model.gguf.file import open_gguf
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Floats, Readable

TOKENS = np.random.default_rng(1).integers(0, 333, 80).tolist()
BOUND = 1e-5
GELU_BOUND = 1e-3
"""llama.cpp looks GELU up in a table of fp16."""

NATIVE_BOUNDS = {"f16": 2e-3, "q8_0": 4e-2}
"""With weights, keys and values in fp16; and with activations in 8 bits."""

pytestmark = needs_peer


def logits(config: ModelConfig, weights: Readable) -> Floats:
    """Ours in fp32."""
    decoder = Decoder.build(config.for_context(256), weights, TorchCpuBackend())
    return decoder.forward(decoder.new_state(256), TOKENS).logits


def bound(config: ModelConfig) -> float:
    return GELU_BOUND if config.activation == "gelu_tanh" else BOUND


def apart(ours: Floats, theirs: Floats) -> float:
    """Length of the difference to that of the whole."""
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Floats]:
    """llama.cpp's logits of every family."""
    folder = tmp_path_factory.mktemp("families")
    found = {}
    with llama() as peer:
        for name in DESCRIBED:
            config = family_config(name)
            path = folder / f"{name}.gguf"
            peer.write(path, config, Random(config))
            found[name] = peer.logits(path, TOKENS)
    return found


@pytest.mark.parametrize("name", DESCRIBED)
def test_same_logits(name: str, theirs: dict[str, Floats]) -> None:
    config = family_config(name)
    assert apart(logits(config, Random(config)), theirs[name]) < bound(config)


def _blocks(change: Callable[[BlockConfig], BlockConfig]) -> Callable[[ModelConfig], ModelConfig]:
    return lambda config: replace(config, blocks=tuple(map(change, config.blocks)))


def _rope(**changes: object) -> Callable[[ModelConfig], ModelConfig]:
    def changed(block: BlockConfig) -> BlockConfig:
        return replace(block, rope=block.rope and replace(block.rope, **changes))

    return _blocks(changed)


def _experts(**changes: object) -> Callable[[ModelConfig], ModelConfig]:
    def changed(block: BlockConfig) -> BlockConfig:
        return replace(block, experts=block.experts and replace(block.experts, **changes))

    return _blocks(changed)


def _without_plain_blocks(config: ModelConfig) -> ModelConfig:
    return replace(config, blocks=(config.blocks[0],) * config.num_layers)


WITHOUT: list[tuple[str, str, Callable[[ModelConfig], ModelConfig]]] = [
    ("gemma2", "windows", _blocks(lambda block: replace(block, window=0))),
    ("gemma2", "windows one longer", _blocks(lambda b: replace(b, window=b.window and 25))),
    ("gemma2", "attention softcap", lambda config: replace(config, attention_softcap=0.0)),
    ("gemma2", "logit softcap", lambda config: replace(config, logit_softcap=0.0)),
    ("gemma2", "output norms", lambda config: replace(config, output_norms=False)),
    ("gemma2", "embedding scale", lambda config: replace(config, embedding_scale=1.0)),
    ("gemma3", "windows", _blocks(lambda block: replace(block, window=0))),
    ("gemma3", "two rotations", _rope(theta=1e4)),
    ("gemma3", "norms of heads", lambda config: replace(config, qk_norm=False)),
    ("gpt-oss", "sinks", lambda config: replace(config, sinks=False)),
    ("gpt-oss", "windows", _blocks(lambda block: replace(block, window=0))),
    ("gpt-oss", "one expert less", _experts(used=2)),
    ("gpt-oss", "biases of experts", _experts(bias=False)),
    ("gpt-oss", "activation", lambda config: replace(config, activation="silu")),
    ("qwen3", "norms of heads", lambda config: replace(config, qk_norm=False)),
    ("qwen3 yarn", "YaRN", _rope(kind="none")),
    ("qwen3 yarn", "its factor on scores", _rope(attention_factor=1.0)),
    ("qwen3moe", "shares that sum to 1", _experts(normalise=False)),
    ("qwen3moe", "one expert less", _experts(used=2)),
    ("qwen2", "biases", lambda config: replace(config, qkv_bias=False)),
    ("llama3", "stretched positions", _rope(kind="none")),
    ("llama linear", "stretched positions", _rope(kind="none")),
    ("phi3 longrope", "stretched positions", _rope(kind="none")),
    ("phi3 longrope", "its factor on scores", _rope(attention_factor=1.0)),
    ("phi3 longrope", "the factors of long texts", _rope(original_max_positions=128)),
    ("smollm3", "blocks without positions", _without_plain_blocks),
]
"""Family, what is left out of ours, and how."""


@pytest.mark.release(keep=6, reason="every family")
@pytest.mark.parametrize(("name", "what", "change"), WITHOUT, ids=lambda value: str(value)[:24])
def test_nothing_can_be_left_out(
    name: str,
    what: str,
    change: Callable[[ModelConfig], ModelConfig],
    theirs: dict[str, Floats],
) -> None:
    config = family_config(name)
    changed = change(config)
    assert changed != config, what
    assert apart(logits(changed, Random(config)), theirs[name]) > 4 * bound(config), what


def native_logits(path: Path) -> Floats:
    """Those of the file's model, held as it is stored."""
    file = open_gguf(path)
    config = _rope(truncate=True)(parse_config(config_json(file))).for_context(256)
    weights = ModelWeights.open(config, file.reader(NATIVE_KINDS), "gguf")
    decoder = Decoder.build(config, weights, NativeBackend(None, ThreadPool(1)))
    return decoder.forward(decoder.new_state(256), TOKENS).logits


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_same_files_in_the_native_backend(name: str, tmp_path: Path) -> None:
    config = family_config(name)
    with llama() as peer:
        peer.write(tmp_path / "model.gguf", config, Random(config))
        for kind, path in quantised(tmp_path / "model.gguf", *NATIVE_BOUNDS).items():
            ours, theirs = native_logits(path), peer.logits(path, TOKENS, kv="f16")
            # Activations are rounded to 8 bits on both sides, but not alike; where experts are
            # nearly equal, some rows go through others.
            rows = [apart(*pair) for pair in zip(ours, theirs, strict=True)]
            assert float(np.median(rows)) < NATIVE_BOUNDS[kind], kind


def recurrent_logits(config: ModelConfig, weights: Readable) -> Floats:
    """Ours in fp32, but for keys and values in 16 bits."""
    backend = NativeBackend(Format.F32, ThreadPool(1))
    decoder = Decoder.build(config.for_context(256), weights, backend)
    return decoder.forward(decoder.new_state(256), TOKENS).logits


def _deltas(**changes: object) -> Callable[[ModelConfig], ModelConfig]:
    def changed(block: BlockConfig) -> BlockConfig:
        return replace(block, delta=block.delta and replace(block.delta, **changes))

    return _blocks(changed)


@pytest.mark.parametrize("name", RECURRENT)
def test_same_logits_of_families_with_states(name: str, tmp_path: Path) -> None:
    """Value heads lie tiled in the file: read in the other order, all is different."""
    config = family_config(name)
    with llama() as peer:
        peer.write(tmp_path / "model.gguf", config, Random(config))
        theirs = peer.logits(tmp_path / "model.gguf", TOKENS, kv="f16")
    rows = [
        apart(*pair) for pair in zip(recurrent_logits(config, Random(config)), theirs, strict=True)
    ]
    assert float(np.median(rows)) < 1e-3
    other = _deltas(tiled=False)(config)
    assert apart(recurrent_logits(other, Random(config)), theirs) > 0.05
