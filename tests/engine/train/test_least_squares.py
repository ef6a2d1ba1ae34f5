"""First weights of a linear fusion: where the next feature is a linear map, they are that map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from head_models import head_config
from safetensors.torch import load_file
from training_runs import run, settings, write_data

from engine.model.tensors import HEAD, HEAD_IDS
from engine.train import least_squares
from engine.train.batches import Batch, BatchPlace
from engine.train.least_squares import fit_linear_fusion
from engine.train.modules import DraftModule
from engine.train.settings import DraftKind, DraftShape

HIDDEN, VOCAB = 72, 323


def worlds(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor, Iterator[Batch]]:
    """An embedding, a map, and batches in which every feature follows by that map."""
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(VOCAB, HIDDEN, generator=generator)
    matrix = torch.randn(2 * HIDDEN, HIDDEN, generator=generator) * HIDDEN**-0.5 / 2
    shift = torch.randn(HIDDEN, generator=generator)

    def batches() -> Iterator[Batch]:
        for number in range(count):
            lengths = torch.tensor([20, 14])
            tokens = torch.randint(0, VOCAB, (2, 20), generator=generator)
            states = torch.randn(2, 20, HIDDEN, generator=generator)
            for place in range(1, 20):
                seen = torch.cat((embedding[tokens[:, place]], states[:, place - 1]), 1)
                states[:, place] = seen @ matrix + shift
            for row, length in enumerate(lengths.tolist()):
                tokens[row, length:] = 0
                states[row, length - 1 :] = 0  # of the last token there may be none
            last = number + 1 == count
            following = BatchPlace(1) if last else BatchPlace(0, number + 1)
            yield Batch(tokens, tokens > 0, lengths, states, states, following)

    return embedding, matrix, batches()


def fused(draft: DraftModule, embedding: torch.Tensor, batch: Batch) -> torch.Tensor:
    embedded = embedding[batch.tokens[:, 1:]]
    with torch.no_grad():
        return draft.run_head(batch.features[:, :-1], embedded, [])[0]


def test_a_map_is_found_and_the_blocks_begin_without_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(least_squares, "_PRIOR", 1e-3)
    draft = DraftModule(head_config("linear", 2, bias=True))
    embedding, _, batches = worlds(1, 60)
    fit_linear_fusion(draft, batches, embedding)
    _, matrix, others = worlds(1, 3)
    found = draft.fusion.linear.weight.t()
    torch.testing.assert_close(found, matrix, rtol=1e-2, atol=1e-2)
    for batch in others:
        output = fused(draft, embedding, batch)
        wanted = batch.hidden[0, 1:-1]
        torch.testing.assert_close(output[0, :-1], wanted, rtol=2e-2, atol=5e-2)


def test_few_tokens_say_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fewer there are, the nearer is the map to none: what fits them alone is worth nothing."""
    sizes = []
    for prior in (1e-3, 1e2, 1e6):
        monkeypatch.setattr(least_squares, "_PRIOR", prior)
        draft = DraftModule(head_config("linear", bias=True))
        embedding, _, batches = worlds(2, 2)
        fit_linear_fusion(draft, batches, embedding)
        sizes.append(float(draft.fusion.linear.weight.detach().norm()))
    assert sizes[0] > 2 * sizes[1] > 20 * sizes[2]


def test_no_more_is_read_than_asked_for() -> None:
    embedding, _, batches = worlds(3, 50)
    fit_linear_fusion(DraftModule(head_config("linear")), batches, embedding, most=100)
    assert len(list(batches)) == 47


@pytest.mark.release(reason="a whole training")
def test_a_head_that_borrows_its_rows_has_none_of_its_own(chat_model: Path, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl")
    kinds = {}
    for borrows in (False, True):
        shape = DraftShape(DraftKind.EAGLE, rows=40, borrows=borrows)
        result, _ = run(settings(chat_model, data, tmp_path / str(borrows), shape=shape))
        kinds[borrows] = load_file(result.out / "model.safetensors")
    assert HEAD in kinds[False]
    assert HEAD not in kinds[True]
    assert torch.equal(kinds[True][HEAD_IDS], kinds[False][HEAD_IDS])
