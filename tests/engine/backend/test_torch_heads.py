"""Feature heads on torch's CPU operators: the reference's numbers, one arithmetic for every row."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from head_models import HEADS, ROOT, HeadReference, HeadWeights, random_features

from engine.backend.decoder import Decoder
from engine.backend.ledger import Account, Ledger, Purpose
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.model.config import ModelConfig
from engine.model.tensors import HEAD_IDS, expected_tensors

every_head = pytest.mark.parametrize("config", HEADS.values(), ids=HEADS)


def torch_head(config: ModelConfig) -> Decoder:
    return Decoder.build(config, HeadWeights(config), TorchCpuBackend())


def tokens_of(config: ModelConfig, count: int) -> list[int]:
    return [(41 * i * i + 7 * i + 3) % config.vocab_size for i in range(count)]


def close(found: Any, wanted: Any, margin: float = 1e-5) -> None:
    expected = np.stack(wanted)
    assert np.linalg.norm(found - expected) < margin * np.linalg.norm(expected)


@pytest.mark.release(keep=4, reason="every head")
@every_head
def test_the_references_numbers(config: ModelConfig) -> None:
    """The target's features, then a tree on the head's own, which grow and steepen its gates."""
    reference, head = HeadReference(config, HeadWeights(config)), torch_head(config)
    tokens, features = tokens_of(config, 70), random_features(config, 70)
    last = reference.extend(tokens, features)
    state = head.new_state(100)
    got = head.forward(state, tokens, features=features)
    close(got.hidden, reference.hidden)
    close(got.logits, reference.logits)
    state.commit(range(70))
    first = [reference.add(token, last) for token in (5, 6, 7)]
    level = head.forward(state, [5, 6, 7], [ROOT] * 3, features=got.hidden[[-1] * 3])
    close(level.logits, [reference.logits[pair] for pair in first], 1e-4)
    second = [reference.add(8, first[2]), reference.add(9, first[0])]
    level = head.forward(state, [8, 9], [2, 0], features=level.hidden[[2, 0]])
    close(level.logits, [reference.logits[pair] for pair in second], 1e-3)
    close(level.hidden, [reference.hidden[pair] for pair in second], 1e-3)


@pytest.mark.release(keep=4, reason="every head")
@every_head
def test_rows_alone_and_among_others(config: ModelConfig) -> None:
    head = torch_head(config)
    tokens, features = tokens_of(config, 70), random_features(config, 70)
    ends = []
    for chunk in (1, 7, 70):
        state = head.new_state(100)
        for start in range(0, 70, chunk):
            stop = min(start + chunk, 70)
            got = head.forward(state, tokens[start:stop], features=features[start:stop])
            state.commit(range(stop - start))
        own = got.hidden[[-1] * 3]
        many = head.forward(state, [9, 5, 5], [ROOT] * 3, features=own)
        state.discard()
        one = head.forward(state, [5], features=own[:1])
        np.testing.assert_array_equal(many.logits[1:], np.repeat(one.logits, 2, axis=0))
        ends.append(np.concatenate((got.logits[-1], one.logits[0])))
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


@every_head
def test_its_weights_are_entered(config: ModelConfig) -> None:
    ledger = Ledger("cpu", "Memory")
    backend = TorchCpuBackend(Account(ledger, "draft"))
    blocks = range(config.num_layers)
    segment = backend.compile(config, HeadWeights(config), blocks, embed=True, head=True)
    shapes = {name: s for name, s in expected_tensors(config).items() if name != HEAD_IDS}
    held = sum(line.nbytes for line in ledger.lines() if line.purpose is Purpose.WEIGHTS)
    assert held == 4 * sum(prod(shape) for shape in shapes.values())
    matrices = sum(prod(shape) for shape in shapes.values() if len(shape) == 2)
    assert 4 * matrices <= segment.weight_bytes <= held


def test_a_head_is_one_segment() -> None:
    config = HEADS["dgf 2"]
    with pytest.raises(ValueError, match="one segment"):
        TorchCpuBackend().compile(config, HeadWeights(config), range(1), embed=True, head=True)
    head = torch_head(config)
    with pytest.raises(ValueError, match="features"):
        head.forward(head.new_state(10), [1, 2, 3])
