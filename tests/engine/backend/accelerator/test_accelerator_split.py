"""A model part of which lies on an accelerator, and the rest on the native CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from comparing import apart
from native_models import native_decoder
from test_one_arithmetic import after_commit_logits, chain_logits, prefilled, prompt, tree_logits
from tiny_models import write_model

from engine.backend.accelerator.device import TorchDevice
from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Share
from engine.commands import WeightFormat
from engine.machine.facts import CPU
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

LAYERS = 3
CARD = "cuda:0"


def split(folder: Path, shares: list[Share]) -> Decoder:
    """Blocks on the card in fp32 with fp16 keys, the others native; all weights of 8 bits."""
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    card = TorchDevice("cpu", label="A card").backend(WeightFormat.Q8, "target")
    return Decoder.placed(config, weights, shares, {CARD: card, CPU: NativeBackend(Format.Q8)})


SHARES = {
    "embedding, card, rest": [
        Share(CPU, range(0), embeds=True),
        Share(CARD, range(2)),
        Share(CPU, range(2, 3), heads=True),
    ],
    "card first": [Share(CARD, range(2), embeds=True), Share(CPU, range(2, 3), heads=True)],
    "card between": [
        Share(CPU, range(1), embeds=True),
        Share(CARD, range(1, 2)),
        Share(CPU, range(2, 3), heads=True),
    ],
    "card last": [Share(CPU, range(1), embeds=True), Share(CARD, range(1, 3), heads=True)],
    "all but the embedding": [
        Share(CPU, range(0), embeds=True),
        Share(CARD, range(3), heads=True),
    ],
    "the head alone": [Share(CPU, range(3), embeds=True), Share(CARD, range(3, 3), heads=True)],
}


@pytest.mark.release(keep=4, reason="every border")
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", SHARES)
def test_a_split_model_is_the_model(tmp_path: Path, name: str, tied: bool) -> None:
    """Native products round activations to 8 bits, so the blocks on the card are more exact."""
    folder = write_model(tmp_path, tie_word_embeddings=tied)
    model, whole = split(folder, SHARES[name]), native_decoder(folder, Format.Q8)
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
    config = open_config(folder)
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


@pytest.mark.parametrize("name", ["card first", "card between", "card last"])
def test_taps_on_both_sides_of_a_border(tmp_path: Path, name: str) -> None:
    """What feature heads are fed with: outputs of blocks here and there, in chains and trees."""
    folder = write_model(tmp_path)
    model, whole = split(folder, SHARES[name]), native_decoder(folder, Format.Q8)
    tokens, taps = prompt(whole, 40), (0, 1, 2)
    states = [model.new_state(640), whole.new_state(640)]
    for given, parents in ((tokens, None), ([5, 6, 7], [-1, -1, 0])):
        found, expected = (
            decoder.forward(state, given, parents, taps=taps)
            for decoder, state in zip((model, whole), states, strict=True)
        )
        assert set(found.taps) == set(taps)
        for tap in taps:
            assert apart(found.taps[tap], expected.taps[tap]) < 0.1
        for state in states:
            if parents is None:
                state.commit(range(len(given)))
