"""An embedding seen along its main directions: who was alike stays alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.train.initial_weights import projected


def _alike(rows: Tensor) -> Tensor:
    normed = functional.normalize(rows.double(), dim=1)
    return normed @ normed.t()


def _of_rank(rank: int, tokens: int = 300, hidden: int = 48) -> Tensor:
    rng = torch.Generator().manual_seed(rank)
    return torch.randn(tokens, rank, generator=rng) @ torch.randn(rank, hidden, generator=rng)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_of_few_directions_none_is_lost(kind: torch.dtype) -> None:
    embedding = _of_rank(16)
    seen = projected(embedding.to(kind), 16)
    assert seen.shape == (300, 16)
    assert seen.dtype == torch.float32
    near = 1e-5 if kind == torch.float32 else 0.03
    torch.testing.assert_close(_alike(seen), _alike(embedding), atol=near, rtol=0)


def test_of_many_the_strongest_are_kept() -> None:
    embedding = _of_rank(12) * 3 + 0.1 * _of_rank(48)
    strong, weak = projected(embedding, 12), embedding[:, :12]
    off = [(_alike(each) - _alike(embedding)).abs().mean() for each in (strong, weak)]
    assert off[0] < off[1] / 5


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_logits_of_a_normed_state_begin_with_a_spread_of_one(scale: float) -> None:
    seen = projected(scale * _of_rank(48), 24)
    state = functional.rms_norm(torch.randn(2000, 24), (24,))
    assert float((state @ seen.t()).square().mean().sqrt()) == pytest.approx(1.0, rel=0.1)


def test_wider_than_the_target_the_rest_is_noise() -> None:
    embedding = _of_rank(48)
    seen = projected(embedding, 64)
    assert seen.shape == (300, 64)
    assert float(seen[:, 48:].std()) == pytest.approx(0.02, rel=0.1)
    torch.testing.assert_close(_alike(seen[:, :48]), _alike(embedding), atol=1e-4, rtol=0)


def test_large_vocabularies_are_sampled_and_still_projected_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.train.initial_weights._ROWS", 64)
    embedding = _of_rank(8)
    torch.testing.assert_close(
        _alike(projected(embedding, 8)), _alike(embedding), atol=1e-4, rtol=0
    )
