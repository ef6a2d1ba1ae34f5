"""Gated delta layers on a WebGPU adapter: the native numbers, the same bits in every way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_delta as on_cpu
from comparing import apart
from hybrid_models import EXPERTS, write_hybrid, write_hybrid_gguf
from native_models import native_decoder
from on_adapter import NAME, on_adapter, shared_device
from test_delta import fed, hashes
from test_one_arithmetic import prompt
from test_webgpu_families import FLOATS, TURNED, compare

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Share
from engine.backend.sequence import ROOT
from engine.backend.step import Step
from engine.backend.webgpu.served import WIDEST_KEY
from engine.backend.webgpu.sizes import MOST_STEPS, SNAPSHOTS
from engine.backend.webgpu.states import StateRows
from engine.commands import WeightFormat
from engine.errors import NotPossible
from engine.loading.inspected_model import own_model
from engine.machine.facts import CPU
from engine.model.families import open_config
from engine.model.local_model import LocalModel
from engine.model.weights.model_weights import ModelWeights


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hybrid(tmp_path_factory.mktemp("hybrid"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Decoder:
    return on_adapter(folder, WeightFormat.F32)


SHAPES: list[dict[str, Any]] = [
    {},
    EXPERTS,
    {"linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_key_head_dim": 128},
    {"linear_conv_kernel_dim": 2, "linear_value_head_dim": 40},
    {"linear_num_value_heads": 34, "layer_types": ["linear_attention"] * 5},
    {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2, "head_dim": 48},
]


@pytest.mark.release(keep=2, reason="every shape")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_shape_is_what_the_cpu_computes(tmp_path: Path, shape: dict[str, Any]) -> None:
    folder = write_hybrid(tmp_path, **shape)
    compare(on_adapter(folder, WeightFormat.F32), native_decoder(folder, Format.F32), FLOATS)


def test_quantised_weights_are_what_the_cpu_computes(folder: Path) -> None:
    compare(on_adapter(folder, WeightFormat.Q8), native_decoder(folder, Format.Q8), TURNED)


@pytest.mark.release(reason="as its folder, but for the order of value heads")
def test_value_heads_of_gguf_are_what_the_cpu_computes(folder: Path, tmp_path: Path) -> None:
    found = LocalModel.inspect(write_hybrid_gguf(folder, tmp_path / "m.gguf"))
    config, weights, fmt = own_model(found, WeightFormat.AUTO)
    ours = Decoder.build(config, weights, shared_device().backend(fmt, "target"))
    compare(ours, Decoder.build(config, weights, NativeBackend(None)), FLOATS)


@pytest.mark.release(keep=1, reason="chunks of one token are a forward for each")
@pytest.mark.parametrize(
    ("fmt", "chunks"), [(WeightFormat.Q8, (7, 512)), (WeightFormat.F32, (1, 64, 512))], ids=str
)
def test_one_hash(folder: Path, fmt: WeightFormat, chunks: tuple[int, ...]) -> None:
    """Prompts in chunks, chains, trees, commits; in fresh states and in copies."""
    assert len(hashes(on_adapter(folder, fmt), chunks)) == 1


@pytest.mark.release(reason="a hundred forwards each")
@pytest.mark.parametrize(
    "check",
    [
        on_cpu.test_rejected_drafts_leave_nothing,
        on_cpu.test_a_state_does_not_go_back_without_a_snapshot,
        on_cpu.test_a_snapshot_is_come_back_to,
        lambda model: on_cpu.test_prompts_in_turns_follow_their_own_lead(model, 2),
    ],
    ids=["rejected", "without a snapshot", "snapshot", "two texts"],
)
def test_a_state_is_never_wrong(model: Decoder, check: Callable[[Decoder], None]) -> None:
    """As on the CPU."""
    check(model)


def test_rejected_and_moved_rows_leave_nothing(model: Decoder) -> None:
    """A few rounds: wholly rejected, accepted among siblings, and the bits of plain decoding."""
    tokens = prompt(model, 12)
    plain = fed(model, model.new_state(640), tokens, [1])
    state, rows = model.new_state(640), []
    for place in range(0, 12, 2):
        model.forward(state, [5, 6, 7])
        state.discard()
        drafted = [9, tokens[place], 11, tokens[place + 1]]
        found = model.forward(state, drafted, [ROOT, ROOT, 1, 1]).logits
        rows.append(found[[1, 3]].copy())
        state.commit([1, 3])
    assert np.array_equal(np.concatenate(rows), plain)


def test_snapshots_are_few_and_have_their_memory_from_the_first(model: Decoder) -> None:
    state, tokens = model.new_state(640), prompt(model)
    empty = state.nbytes
    for first in range(0, 60, 10):
        fed(model, state, tokens[first : first + 10], [10])
        state.snapshot(1 << 30)
        assert state.nbytes == empty
    assert sum(state.reusable(place) == place for place in range(10, 60, 10)) == SNAPSHOTS - 1
    fed(model, state, tokens[60:70], [5])
    state.crop(61)
    expected = fed(model, model.new_state(640), tokens[:70], [70])[60:]
    assert np.array_equal(fed(model, state, tokens[60:70], [10]), expected)


def test_a_forward_that_does_not_follow_the_states_is_refused(model: Decoder) -> None:
    state, tokens = model.new_state(640), prompt(model)
    fed(model, state, tokens[:20], [10])
    del state._tokens[5:]
    with pytest.raises(ValueError, match="not those of the committed tokens"):
        model.forward(state, [3])
    state = model.new_state(640)
    model.forward(state, [5] * 60)
    with pytest.raises(ValueError, match="more rows than are kept"):
        model.forward(state, [5] * 5)


def test_keys_wider_than_the_shaders_take_are_refused_in_words(tmp_path: Path) -> None:
    folder = write_hybrid(tmp_path, linear_key_head_dim=WIDEST_KEY + 1)
    with pytest.raises(NotPossible, match="not made for its sizes"):
        on_adapter(folder, WeightFormat.Q8)


SHARES = {
    "card first": [Share(NAME, range(2), embeds=True), Share(CPU, range(2, 5), heads=True)],
    "card last": [Share(CPU, range(3), embeds=True), Share(NAME, range(3, 5), heads=True)],
    "states of one, keys of the other": [
        Share(CPU, range(2), embeds=True),
        Share(NAME, range(2, 3)),
        Share(CPU, range(3, 5), heads=True),
    ],
}


@pytest.mark.release(keep=1, reason="every border")
@pytest.mark.parametrize("name", SHARES)
def test_a_split_model_is_the_model(folder: Path, name: str) -> None:
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    card = shared_device().backend(WeightFormat.Q8, "target")
    backends = {NAME: card, CPU: NativeBackend(Format.Q8)}
    split = Decoder.placed(config, weights, SHARES[name], backends)
    whole = native_decoder(folder, Format.Q8)
    tokens = prompt(whole, 100)
    got, expected = (each.forward(each.new_state(640), tokens).logits for each in (split, whole))
    assert apart(got, expected) < TURNED
    assert len(hashes(split, (64,))) == 1


def test_the_worst_tree_has_as_many_steps_as_there_is_room_for() -> None:
    """A stem of half of the nodes, and each of the others a leaf at its end."""
    rows, taken = StateRows(3), 64
    chain = Step([5] * taken, range(-1, taken - 1), 0)
    rows.behind(chain, range(taken))
    parents = [*range(-1, 31), *[31] * 32]
    words, nodes = rows.behind(Step([5] * 64, parents, taken), range(64))
    assert nodes == taken + 64
    assert MOST_STEPS - 40 < words[1] <= MOST_STEPS
