"""A model part of which lies on an accelerator, and the rest on the native CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from accelerated import apart
from native_models import native_decoder
from test_one_arithmetic import after_commit_logits, chain_logits, prefilled, prompt, tree_logits
from tiny_models import write_model

from engine.backend.accelerator.device import TorchDevice
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.weights.model_weights import ModelWeights

LAYERS = 3


def split(folder: Path, first: int, *, blocks: int, embed: bool) -> Decoder:
    """`blocks` blocks from `first` on, with the embedding if asked; the others natively."""
    config = ModelConfig.open(folder)
    weights = ModelWeights.of_folder(config, folder)
    device, native = TorchDevice("cpu").backend(WeightFormat.Q8, "target"), NativeBackend(Format.Q8)
    last, segments = first + blocks, []
    if first or not embed:
        segments.append(native.compile(config, weights, range(first), embed=True, head=False))
    ends = last == LAYERS
    own = embed and not first
    segments.append(device.compile(config, weights, range(first, last), embed=own, head=ends))
    if not ends:
        segments.append(
            native.compile(config, weights, range(last, LAYERS), embed=False, head=True)
        )
    return Decoder(config, segments)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("first", "blocks", "embed"),
    [(0, 2, False), (0, 2, True), (1, 1, False), (1, 2, False), (0, 3, False), (3, 0, False)],
)
def test_a_split_model_is_the_model(
    tmp_path: Path, first: int, blocks: int, embed: bool, tied: bool
) -> None:
    """Native products round activations to 8 bits, so the blocks on the device are more exact."""
    folder = write_model(tmp_path, tie_word_embeddings=tied)
    model, whole = (
        split(folder, first, blocks=blocks, embed=embed),
        native_decoder(folder, Format.Q8),
    )
    tokens = prompt(whole, 100)
    expected = whole.forward(whole.new_state(640), tokens).logits.copy()
    assert apart(model.forward(model.new_state(640), tokens).logits, expected) < 0.1
    path = tokens[:12]
    state = prefilled(model, 64)
    chain = chain_logits(model, state, path)
    assert np.array_equal(tree_logits(model, state, path), chain)
    assert np.array_equal(after_commit_logits(model, state, path), chain)


def test_an_embedding_alone(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    config = ModelConfig.open(folder)
    weights = ModelWeights.of_folder(config, folder)
    device = TorchDevice("cpu").backend(WeightFormat.Q8, "target")
    rest = device.compile(config, weights, range(LAYERS), embed=False, head=True)
    alone = device.compile(config, weights, range(0), embed=True, head=False)
    whole = device.compile(config, weights, range(LAYERS), embed=True, head=True)
    tokens = prompt(Decoder(config, [whole]), 40)
    one, other = (Decoder(config, parts) for parts in ([alone, rest], [whole]))
    assert one.new_state(64).caches[0].nbytes == 0
    got = one.forward(one.new_state(64), tokens).logits.copy()
    assert np.array_equal(got, other.forward(other.new_state(64), tokens).logits)
