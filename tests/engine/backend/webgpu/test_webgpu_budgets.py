"""Counted work per token: a card's speed cannot be measured here, what it is asked to do can."""

from __future__ import annotations

from pathlib import Path

import pytest
from hybrid_models import write_hybrid
from on_adapter import on_adapter, shared_device
from stored_models import Stored, stored_config
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.webgpu.gpu import DeviceWork
from engine.backend.webgpu.sizes import TICKS_BYTES
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.tensors import EMBEDDING, expected_tensors
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Weights

MOST_DISPATCHES = 12
"""Of a dense block, even where queries, keys and values are stored in three formats."""

OF_A_MIXTURE = 13
OF_A_STATE = 11
"""Of a dense block with a state: rows are made ready for it, see it together, and leave it."""
MOST_BYTES = 1.05
"""Of weights read, for each byte of the file."""
MANY = [(4, 1), (12, 3), (64, 2)]
"""Rows, and how often a software adapter reads all weights for them."""


def counted(
    config: ModelConfig, weights: Weights, fmt: WeightFormat, rows: int
) -> tuple[DeviceWork, int]:
    """What a forward over so many rows does, behind a prompt, and bytes of its logits."""
    device = shared_device()
    assert device.gpu is not None
    model = Decoder.build(config, weights, device.backend(fmt, "target"))
    state = model.new_state(128)
    model.forward(state, [5], logit_rows=())
    state.commit([0])
    device.gpu.counts = DeviceWork()
    found = model.forward(state, [7] * rows)
    return device.gpu.counts, found.logits.nbytes + found.hidden.nbytes


@pytest.mark.parametrize(("rows", "readings"), [(1, 1), *MANY])
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_forward_is_one_list_of_work_and_one_wait(
    family: str, rows: int, readings: int, tmp_path: Path
) -> None:
    folder = write_model(tmp_path, family)
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    counts, results = counted(config, weights, WeightFormat.F32, rows)
    stored = file_bytes(config, weights)
    assert stored < counts.weights / readings <= MOST_BYTES * stored
    assert (counts.submits, counts.waits, counts.writes) == (1, 1, 1)
    assert counts.written < 1024 + 16 * 256, "tokens, positions, slots: no numbers"
    assert counts.read == results + TICKS_BYTES
    outside = {"embed": 1, "gather": 1, "norm": 1, "product": 1}
    outside["softcap"] = 1 if config.logit_softcap else 0
    inside = sum(counts.dispatches.values()) - sum(outside.values())
    assert inside == 10 * config.num_layers


@pytest.mark.release(reason="compiles shaders for 8 formats")
@pytest.mark.parametrize(("rows", "readings"), [(1, 1), *MANY])
def test_a_block_of_many_formats_stays_within_its_budget(rows: int, readings: int) -> None:
    config = stored_config()
    weights = Stored(config)
    counts, _ = counted(config, weights, WeightFormat.STORED, rows)
    inside = sum(counts.dispatches.values()) - 4
    assert inside == MOST_DISPATCHES * config.num_layers
    stored = file_bytes(config, weights)
    assert stored < counts.weights / readings <= MOST_BYTES * stored


def test_a_token_reads_the_experts_that_it_chose(tmp_path: Path) -> None:
    folder = write_model(tmp_path, "qwen3_moe")
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    counts, _ = counted(config, weights, WeightFormat.F32, 1)
    inside = sum(counts.dispatches.values()) - 4
    assert inside == OF_A_MIXTURE * config.num_layers
    experts = config.blocks[0].experts
    assert experts is not None
    of_experts = file_bytes(config, weights, ".experts.")
    chosen = of_experts * experts.used / experts.count
    stored = file_bytes(config, weights) - of_experts + chosen
    assert stored < counts.weights <= MOST_BYTES * stored


def test_a_rejected_round_costs_nothing(tmp_path: Path) -> None:
    """Rounds over states are one list of work and one wait each, whatever came of the last."""
    folder = write_hybrid(tmp_path)
    config, model = open_config(folder), on_adapter(folder)
    gpu = shared_device().gpu
    assert gpu is not None
    state = model.new_state(128)
    model.forward(state, [5] * 9, logit_rows=())
    state.commit(range(9))
    for accepted in ([0], [0, 1, 2], [0]):
        gpu.counts = DeviceWork()
        model.forward(state, [7, 8, 9, 6], [-1, 0, 1, 0])
        state.commit(accepted)
        counts = gpu.counts
        assert (counts.submits, counts.waits, counts.writes) == (1, 1, 2)
        inside = sum(counts.dispatches.values()) - 4
        attending = sum(block.delta is None for block in config.blocks)
        assert inside == 10 * attending + OF_A_STATE * (config.num_layers - attending)


def file_bytes(config: ModelConfig, weights: Weights, part: str = "") -> int:
    """Bytes of matrices in their file but the embedding, which is looked up.

    `part`: of all names.
    """
    shapes = expected_tensors(config).items()
    every = (name for name, shape in shapes if len(shape) == 2 and name != EMBEDDING)
    matrices = (name for name in every if part in name)
    return sum(stretch.nbytes for name in matrices for stretch in weights.stretches(name))
