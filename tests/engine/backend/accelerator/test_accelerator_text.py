"""Text from an accelerator's path: what the CPU's path writes, with drafts and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerated import accelerated
from folder_models import FOLDER_TARGET
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from tiny_models import decoder, write_model

from engine.backend.decoder import Decoder
from engine.commands import WeightFormat

FAMILIES = {"gemma2": {}, "qwen3_moe": {"num_hidden_layers": 1}}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.release(keep=1, reason="every family with every sampling")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["greedy", "sampled hot"])
def test_trees_write_the_text_of_plain_decoding(family: str, name: str, tmp_path: Path) -> None:
    """Random trees and budgets, in states that are used again."""
    model = accelerated(write_model(tmp_path, family, **FAMILIES[family]), WeightFormat.Q8)
    state, accepted = model.new_state(512), 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        prompt = rng.integers(3, 320, int(rng.integers(20, 90))).tolist()
        plain = decode(model, prompt, SAMPLINGS[name], max_tokens=40)
        drafter = OracleDrafter(plain.tokens, len(prompt), 320, rng)
        drafted = decode(
            model,
            prompt,
            SAMPLINGS[name],
            max_tokens=40,
            drafter=drafter,
            controller=RandomController(rng),
            state=state,
        )
        assert drafted.tokens == plain.tokens
        accepted += sum(done.accepted for done in drafted.rounds)
    assert accepted > 20, "the trees hardly tested acceptance"


def greedy(model: Decoder, prompt: list[int], count: int) -> tuple[list[int], list[float]]:
    """Tokens, and by how much each was ahead of the next best."""
    state, tokens, margins = model.new_state(256), list(prompt), []
    for _ in range(count):
        logits = model.forward(state, tokens[len(state) :], logit_rows=None).logits[-1]
        state.commit(range(len(tokens) - len(state)))
        second, first = np.partition(logits, -2)[-2:]
        margins.append(float(first - second))
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :], margins


@pytest.mark.release(reason="a whole model, interpreted")
def test_greedy_text_of_a_trained_model() -> None:
    """As long as the CPU's best token is ahead by more than fp16 keys move it, 0.05."""
    theirs, ours = decoder(FOLDER_TARGET), accelerated(FOLDER_TARGET)
    rng = np.random.default_rng(3)
    compared = 0
    for _ in range(2):
        prompt = rng.integers(5, 4000, 12).tolist()
        expected, margins = greedy(theirs, prompt, 40)
        got, _ = greedy(ours, prompt, 40)
        clear = next((step for step, margin in enumerate(margins) if margin < 0.05), len(margins))
        assert got[:clear] == expected[:clear]
        compared += clear
    assert compared > 40, "hardly anything was clear"
