"""Counted work per token: a card's speed cannot be measured here, what it is asked to do can."""

from __future__ import annotations

from pathlib import Path

import pytest
from on_adapter import shared_device
from stored_models import Stored, stored_config
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.webgpu.gpu import DeviceWork
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Weights

MOST_DISPATCHES = 12
"""Of a dense block, even where queries, keys and values are stored in three formats."""


def counted(
    config: ModelConfig, weights: Weights, fmt: WeightFormat, rows: int
) -> tuple[DeviceWork, int]:
    """What a forward over so many rows does, behind a prompt, and bytes of its logits."""
    device = shared_device()
    assert device.gpu is not None
    model = Decoder.build(config, weights, device.backend(fmt, "target"))
    state = model.new_state(128)
    model.forward(state, [5] * 9, logit_rows=())
    state.commit(range(9))
    device.gpu.counts = DeviceWork()
    found = model.forward(state, [7] * rows)
    return device.gpu.counts, found.logits.nbytes + found.hidden.nbytes


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_forward_is_one_list_of_work_and_one_wait(family: str, rows: int, tmp_path: Path) -> None:
    folder = write_model(tmp_path, family)
    config = open_config(folder)
    counts, results = counted(
        config, ModelWeights.of_folder(config, folder), WeightFormat.F32, rows
    )
    assert (counts.submits, counts.waits, counts.writes) == (1, 1, 1)
    assert counts.written < 1024 + 16 * 256, "tokens, positions, slots: no numbers"
    assert counts.read == results
    outside = {"embed": 1, "gather": 1, "norm": 1, "product": 1}
    outside["softcap"] = 1 if config.logit_softcap else 0
    inside = sum(counts.dispatches.values()) - sum(outside.values())
    assert inside == 10 * config.num_layers


def test_a_block_of_many_formats_stays_within_its_budget() -> None:
    config = stored_config()
    counts, _ = counted(config, Stored(config), WeightFormat.STORED, 1)
    inside = sum(counts.dispatches.values()) - 4
    assert inside == MOST_DISPATCHES * config.num_layers
