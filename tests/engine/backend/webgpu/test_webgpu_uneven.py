"""Blocks that differ in heads and sizes, and share keys, on a WebGPU adapter."""

from __future__ import annotations

import numpy as np
import pytest
from comparing import apart
from full_models import RandomWeights, full_decoder, uneven_config
from on_adapter import NAME, shared_device
from test_native_one_arithmetic import hashes
from test_one_arithmetic import after_commit_logits, chain_logits, prefilled, prompt, tree_logits

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Share
from engine.commands import WeightFormat
from engine.machine.facts import CPU

CONFIG = uneven_config()


def placed(shares: list[Share]) -> Decoder:
    card = shared_device().backend(WeightFormat.Q8, "target")
    backends = {NAME: card, CPU: NativeBackend(Format.Q8)}
    return Decoder.placed(CONFIG, RandomWeights(CONFIG), shares, backends)


@pytest.mark.release(reason="compiles its products")
def test_one_hash() -> None:
    found = hashes(placed([Share(NAME, range(6), embeds=True, heads=True)]), (7, 512))
    assert len(set(found.values())) == 1, found


@pytest.mark.release(keep=1, reason="every border")
@pytest.mark.parametrize("border", [4, 5])
def test_a_split_model_is_the_model(border: int) -> None:
    """As Dovetail places it: the first blocks on the card, the rest on the CPU."""
    there, here = Share(NAME, range(border)), Share(CPU, range(border, 6), heads=True)
    model = placed([Share(CPU, range(0), embeds=True), there, here])
    whole = full_decoder(Format.Q8, config=CONFIG)
    tokens, taps = prompt(whole, 100), tuple(range(5))  # behind them an expert may be another
    expected = whole.forward(whole.new_state(640), tokens, taps=taps)
    got = model.forward(model.new_state(640), tokens, taps=taps)
    for tap in taps:
        assert apart(got.taps[tap], expected.taps[tap]) < 3e-2
    path, state = tokens[:12], prefilled(model, 64)
    chain = chain_logits(model, state, path)
    assert np.array_equal(tree_logits(model, state, path), chain)
    assert np.array_equal(after_commit_logits(model, state, path), chain)
