"""Feature heads on torch's "cpu" device: what the equations say, but for the rounding of fp32.

Keys and values are fp32 here, too: those of a first block that sees features as they are, are large
in these random heads, and fp16 would hide a small mistake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from accelerated import AsPacked
from comparing import apart
from head_models import HEADS, ROOT, HeadReference, HeadWeights, random_features

from engine.backend.accelerator import memory
from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.sizes import cache_bytes, segment_bytes
from engine.backend.decoder import MAX_TREE, Decoder
from engine.backend.ledger import Purpose
from engine.backend.native.library import Format
from engine.commands import WeightFormat
from engine.model.config import ModelConfig

TOKENS = np.random.default_rng(11).integers(0, 323, 90).tolist()
TOLERANCE = 1e-4


@pytest.fixture(autouse=True)
def _exact_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "NUMBER", torch.float32)


def head_on(device: TorchDevice, config: ModelConfig, fmt: WeightFormat) -> Decoder:
    return Decoder.build(config, HeadWeights(config), device.backend(fmt, "draft"))


def rows_of(reference: HeadReference, pairs: list[int]) -> tuple[Any, Any]:
    hidden = np.array([reference.hidden[pair] for pair in pairs], dtype=np.float32)
    return hidden, np.array([reference.logits[pair] for pair in pairs], dtype=np.float32)


@pytest.mark.release(keep=4, reason="every head")
@pytest.mark.parametrize("name", HEADS)
def test_a_head_is_its_equations(name: str) -> None:
    """A chain with the target's features in pieces, then a tree of its own outputs behind it."""
    config = HEADS[name]
    features = random_features(config, len(TOKENS))
    reference = HeadReference(config, HeadWeights(config))
    last = reference.extend(TOKENS, features)
    model = head_on(TorchDevice("cpu"), config, WeightFormat.F32)
    state = model.new_state(200)
    for start, stop in ((0, 70), (70, 71), (71, len(TOKENS))):
        found = model.forward(state, TOKENS[start:stop], features=features[start:stop])
        hidden, logits = rows_of(reference, list(range(start, stop)))
        assert found.logits.shape == (stop - start, config.head_rows)
        assert apart(found.hidden, hidden) < TOLERANCE
        assert apart(found.logits, logits) < TOLERANCE
        state.commit(range(stop - start))
    outputs = found.hidden[-1:].copy()
    tokens, parents = [5, 9, 5], [ROOT, ROOT, ROOT]
    pairs = [reference.add(token, last) for token in tokens]
    for _ in range(2):
        found = model.forward(state, tokens, parents, features=outputs[[0] * 3])
        hidden, logits = rows_of(reference, pairs)
        assert apart(found.hidden, hidden) < TOLERANCE
        assert apart(found.logits, logits) < TOLERANCE
        outputs = found.hidden[2:].copy()
        pairs, tokens = [reference.add(token, pairs[2]) for token in (7, 8, 9)], [7, 8, 9]
        parents = [len(state.staged) - 1] * 3


@pytest.mark.parametrize("fmt", [WeightFormat.Q4, WeightFormat.Q8, WeightFormat.STORED])
def test_a_head_in_every_format(fmt: WeightFormat) -> None:
    """Quantised as the CPU does it; the reference has what that makes of the weights."""
    config = HEADS["eagle3 normed"]
    weights: Any = HeadWeights(config)
    if fmt is not WeightFormat.STORED:
        packed = {WeightFormat.Q4: Format.Q4, WeightFormat.Q8: Format.Q8}[fmt]
        weights = AsPacked(config, weights, packed)
    reference, features = HeadReference(config, weights), random_features(config, 12)
    reference.extend(TOKENS[:12], features)
    model = head_on(TorchDevice("cpu"), config, fmt)
    got = model.forward(model.new_state(64), TOKENS[:12], features=features)
    assert apart(got.logits, rows_of(reference, list(range(12)))[1]) < TOLERANCE


def test_what_a_head_holds_is_what_is_planned() -> None:
    config = HEADS["eagle3 reduced"]
    device = TorchDevice("cpu")
    model = head_on(device, config, WeightFormat.F32)
    state = model.new_state(300)
    model.forward(state, TOKENS, features=random_features(config, len(TOKENS)))
    held = {line.purpose: line.nbytes for line in device.ledger.lines() if line.owner == "draft"}
    slots = 300 + MAX_TREE
    assert held[Purpose.WEIGHTS] == model.weight_bytes
    assert held[Purpose.KV] == 2 * cache_bytes(config, range(1), slots)  # fp32 here
    assert held[Purpose.WORKSPACE] == segment_bytes(config, range(1), slots)


def test_a_head_without_features_is_refused() -> None:
    model = head_on(TorchDevice("cpu"), HEADS["dgf 1"], WeightFormat.F32)
    with pytest.raises(ValueError, match="no features"):
        model.forward(model.new_state(64), [5])
