"""What holding weights in fewer bits costs: perplexity on dialogues written for this test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import exp
from pathlib import Path

import numpy as np
import pytest
from folder_models import FOLDER_TARGET

from engine.backend.decoder import Decoder
from engine.bench.forward import decoder_for
from engine.commands import WeightFormat
from engine.loading.inspected_model import own_model
from engine.model.local_model import LocalModel
from engine.request import Message, Role

DIALOGUES = Path(__file__).with_name("dialogues.jsonl")


def perplexity(decoder: Decoder, passages: Sequence[Sequence[int]]) -> float:
    """exp of the mean negative log likelihood of each passage's tokens but the first."""
    nats: list[float] = []
    for tokens in passages:
        logits = decoder.forward(decoder.new_state(len(tokens)), tokens[:-1]).logits
        weights = logits.astype(np.float64)
        shares = weights - np.log(np.exp(weights).sum(axis=1, keepdims=True))
        nats += (-shares[np.arange(len(tokens) - 1), tokens[1:]]).tolist()
    return exp(sum(nats) / len(nats))


@pytest.fixture(scope="module")
def passages() -> list[list[int]]:
    """Token ids of the dialogues, at most 64 each."""
    model = LocalModel.inspect(FOLDER_TARGET)
    template, tokenizer = model.template(), model.tokenizer()
    found = []
    for line in DIALOGUES.read_text("utf-8").splitlines():
        turns = [Message(Role(row["role"]), row["content"]) for row in json.loads(line)["messages"]]
        found.append(list(template.prompt(turns, tokenizer, continue_answer=True).ids[:64]))
    return found


def test_what_each_format_costs(passages: list[list[int]]) -> None:
    config, weights, _ = own_model(LocalModel.inspect(FOLDER_TARGET), WeightFormat.F32)
    found = {
        wanted: perplexity(decoder_for(config, weights, wanted), passages)
        for wanted in (WeightFormat.F32, WeightFormat.BF16, WeightFormat.Q8, WeightFormat.Q4)
    }
    exact = found[WeightFormat.F32]
    assert 3 < exact < 40
    costs = {wanted: each / exact - 1 for wanted, each in found.items()}
    assert abs(costs[WeightFormat.BF16]) < 0.001  # the weights are bf16 to begin with
    assert abs(costs[WeightFormat.Q8]) < 0.01
    assert 0 < costs[WeightFormat.Q4] < 0.06
