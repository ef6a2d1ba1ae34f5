"""Plain arithmetic against what is entered, and what is entered against what torch takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from full_models import RandomWeights, full_config

from engine.backend.accelerator.device import SHARED, TorchDevice
from engine.backend.accelerator.sizes import (
    cache_bytes,
    is_recorded,
    segment_bytes,
    shared_bytes,
    working_bytes,
)
from engine.backend.decoder import MAX_TREE, Decoder
from engine.backend.ledger import Purpose
from engine.backend.round import Budget, DraftRequest, Ranking
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.families import parse_config

SHAPES = {
    "wide": {"hidden_size": 512, "intermediate_size": 2560, "vocab_size": 1000},
    "many tokens": {"hidden_size": 256, "intermediate_size": 352, "vocab_size": 16000},
    "many heads": {"hidden_size": 512, "intermediate_size": 704, "num_attention_heads": 32},
}


def shaped(**shape: object) -> ModelConfig:
    usual = {
        "model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 8,
        "num_key_value_heads": 4, "max_position_embeddings": 8192, "vocab_size": 2000,
    }  # fmt: skip
    return parse_config({**usual, **shape})


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def loaded(config: ModelConfig, device: TorchDevice) -> Decoder:
    """In fp32, which the "cpu" device multiplies where it lies."""
    backend = device.backend(WeightFormat.F32, "target")
    return Decoder.build(config, RandomWeights(config), backend)


def lines(device: TorchDevice) -> dict[tuple[str, Purpose], int]:
    return {(line.owner, line.purpose): line.nbytes for line in device.ledger.lines()}


@pytest.mark.parametrize("config", [full_config(), shaped(**SHAPES["wide"])], ids=["full", "wide"])
def test_what_is_planned_is_what_is_entered(config: ModelConfig) -> None:
    device = TorchDevice("cpu")
    model = loaded(config, device)
    state = model.new_state(500)
    model.forward(state, [5] * 300)
    state.discard()
    model.forward(state, [5, 6, 7], [-1, -1, 0])
    blocks, slots = range(config.num_layers), 500 + MAX_TREE
    held = lines(device)
    assert held["target", Purpose.KV] == cache_bytes(config, blocks, slots) == state.nbytes
    assert held["target", Purpose.WORKSPACE] == segment_bytes(config, blocks, slots)
    shared = working_bytes(config, blocks, slots, head=True) + shared_bytes()
    assert held[SHARED, Purpose.WORKSPACE] == shared


def peak(work: Callable[[], object]) -> int:
    """Most bytes that torch had handed out at once, beside those it had before."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as seen:
        work()
    events = seen.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    held = most = 0
    for _, change in changes:
        held += change
        most = max(most, held)
    assert most > 0
    return most


@pytest.mark.release(keep=2, reason="every model")
@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("wide", 300),
        ("many tokens", 300),
        ("many heads", 300),
        ("wide", 3000),
        ("many heads", 3000),
    ],
)
def test_a_forward_takes_no_more_than_is_entered(name: str, context: int) -> None:
    config = shaped(**SHAPES[name])
    device = TorchDevice("cpu")
    model = loaded(config, device)
    state = model.new_state(context)
    entered = working_bytes(config, range(1), context + MAX_TREE, head=True)
    state.extend([5] * (context - 256))

    def prefill() -> None:
        model.forward(state, [5] * 256, logit_rows=(255,))
        state.discard()

    def tree() -> None:
        model.forward(state, [5] * 64, [-1] * 64)
        state.discard()

    taken = []
    for work in (prefill, tree):
        work()  # takes what is kept from then on
        taken.append(peak(work))
    assert max(taken) <= entered
    assert max(taken) >= entered / 3


def test_a_draft_takes_no_more_than_is_entered() -> None:
    """Neither does its noise, though its words have 64 bits."""
    config = shaped(**SHAPES["many tokens"])
    model = loaded(config, TorchDevice("cpu"))
    state = model.new_state(100)
    request = DraftRequest([5, 6], Ranking(0.7, 5, share_noise=True), Budget(9, 3, 3))
    (segment,) = model.segments

    def draft() -> None:
        segment.draft(state.caches[0], 0, state.slots, request)

    draft()  # takes what is kept from then on
    taken = peak(draft)
    entered = working_bytes(config, range(1), 100 + MAX_TREE, head=True)
    assert entered / 2 <= taken <= entered


def test_forwards_of_many_launches_are_not_recorded() -> None:
    shape = {
        "model_type": "qwen3_moe", "hidden_size": 256, "num_experts": 128, "intermediate_size": 512,
        "num_experts_per_tok": 8, "moe_intermediate_size": 64, "num_hidden_layers": 48,
        "norm_topk_prob": True, "head_dim": 32,
    }  # fmt: skip
    config = shaped(**shape)
    assert is_recorded(config, range(48), 1)
    assert not is_recorded(config, range(48), 8)
    assert is_recorded(config, range(4), 8)
    assert is_recorded(shaped(hidden_size=256, intermediate_size=512), range(1), 32)
    assert not is_recorded(shaped(hidden_size=256, intermediate_size=512), range(1), 33)


def test_planning_with_it_needs_no_torch() -> None:
    code = "import sys, engine.backend.accelerator.sizes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0
