"""What is trained computes what is run: torch modules against the plain reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from head_models import HeadReference, HeadWeights, head_config, random_features, small_target

from engine.model.config import FusionKind, ModelConfig
from engine.model.tensors import borrowed_tensors, expected_tensors
from engine.train.draft_folder import describe_draft, draft_config
from engine.train.modules import DraftModule
from engine.train.settings import DraftKind, DraftShape

PAIRS = 9


def _own(config: ModelConfig) -> ModelConfig:
    """Heads are trained with the target's output matrix."""
    assert config.fusion is not None
    return replace(config, rows=None, fusion=replace(config.fusion, own_head=False))


CASES: list[tuple[FusionKind, int]] = [
    ("dgf", 1), ("dgf", 3), ("linear", 1), ("linear", 2), ("eagle3", 1), ("eagle3", 2),
]  # fmt: skip


def _filled(config: ModelConfig, weights: HeadWeights) -> DraftModule:
    draft = DraftModule(config)
    with torch.no_grad():
        for name, parameter in draft.named_parameters():
            parameter.copy_(torch.from_numpy(weights.float32(name)))
    return draft


@pytest.mark.parametrize(("kind", "blocks"), CASES)
def test_parameters_are_the_heads_tensors(kind: FusionKind, blocks: int) -> None:
    config = _own(head_config(kind, blocks, bias=kind == "linear"))
    expected = expected_tensors(config)
    for name in borrowed_tensors(config):
        expected.pop(name, None)
    named = {name: tuple(p.shape) for name, p in DraftModule(config).named_parameters()}
    assert named == expected


@pytest.mark.release(keep=3, reason="every kind")
@pytest.mark.parametrize(("kind", "blocks"), CASES)
def test_outputs_are_those_of_the_reference(kind: FusionKind, blocks: int) -> None:
    """Step 0 over true features; then drafting on from own outputs, two steps at every pair."""
    config = _own(head_config(kind, blocks, bias=kind == "linear"))
    weights = HeadWeights(config)
    tokens = np.random.default_rng(1).integers(0, config.vocab_size, PAIRS).tolist()
    features = random_features(config, PAIRS)
    embedding = torch.from_numpy(weights.float32("model.embed_tokens.weight"))
    draft = _filled(config, weights)
    embedded = embedding[torch.tensor(tokens)][None]
    with torch.no_grad():
        given, earlier, outputs = torch.from_numpy(features)[None], [], []
        for _ in range(3):
            output, kept = draft.run_head(given, embedded, earlier)
            earlier.append(kept)
            outputs.append(output)
            given = torch.nn.functional.pad(output[:, :-1], (0, 0, 1, 0))
    for last in range(2, PAIRS):
        for step in range(3):
            reference = HeadReference(config, weights)
            true = last - step + 1
            parent = reference.extend(tokens[:true], features[:true])
            for token in tokens[true : last + 1]:
                parent = reference.add(token, parent)
            wanted = reference.hidden[parent]
            error = np.abs(outputs[step][0, last].numpy() - wanted).max()
            assert error < 1e-3 * np.abs(wanted).max()  # fp32, its own errors drafted on


def test_a_stand_alone_model_is_a_llama() -> None:
    """The tensors of the model that is written are those of our own decoder."""
    shape, target = DraftShape(DraftKind.MODEL, 2, 32, 2, 48), small_target()
    config = draft_config(describe_draft(shape, target, "", ""), target)
    named = {name: tuple(p.shape) for name, p in DraftModule(config).named_parameters()}
    assert named == expected_tensors(config)
