"""Feature heads of every kind on a WebGPU adapter: what the native backend computes."""

from __future__ import annotations

import numpy as np
import pytest
from comparing import apart
from head_models import HEADS, MTP, ROOT, HeadWeights, random_features
from on_adapter import shared_device

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.commands import WeightFormat

TOKENS = np.random.default_rng(11).integers(0, 323, 20).tolist()
TOLERANCE = 1e-3
"""Where the last bit of a key turns its rounding to 16 bits; random heads have large keys."""


@pytest.mark.release(keep=3, reason="every head")
@pytest.mark.parametrize("name", ["mtp", *HEADS])
def test_a_head_is_what_the_cpu_computes(name: str) -> None:
    """A chain with the target's features in pieces, then a tree of its own outputs behind it."""
    config = HEADS.get(name, MTP)
    features = random_features(config, len(TOKENS))
    backends = shared_device().backend(WeightFormat.F32, "draft"), NativeBackend(Format.F32)
    ours, theirs = (Decoder.build(config, HeadWeights(config), backend) for backend in backends)
    states = ours.new_state(100), theirs.new_state(100)

    def compare(tokens: list[int], parents: list[int] | None, given: np.ndarray) -> np.ndarray:
        got = ours.forward(states[0], tokens, parents, features=given)
        expected = theirs.forward(states[1], tokens, parents, features=given)
        assert got.logits.shape == (len(tokens), config.head_rows)
        assert apart(got.hidden, expected.hidden) < TOLERANCE
        assert apart(got.logits, expected.logits) < TOLERANCE
        return expected.hidden.copy()

    for start, stop in ((0, 15), (15, 16), (16, len(TOKENS))):
        outputs = compare(TOKENS[start:stop], None, features[start:stop])
        for state in states:
            state.commit(range(stop - start))
    outputs = compare([5, 9, 5], [ROOT, ROOT, ROOT], outputs[[-1] * 3])
    compare([7, 8, 9], [2, 2, 2], outputs[[2] * 3])


def test_a_head_without_features_is_refused() -> None:
    config = HEADS["dgf 1"]
    backend = shared_device().backend(WeightFormat.F32, "draft")
    model = Decoder.build(config, HeadWeights(config), backend)
    with pytest.raises(ValueError, match="needs the features"):
        model.forward(model.new_state(64), [5])
