"""Gated delta layers: transformers' numbers, the same bits in every way, and no stale state."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hybrid_models import EXPERTS, apart, reference_logits, write_hybrid
from native_models import native_decoder
from test_one_arithmetic import (
    LENGTH,
    after_commit_logits,
    chain_logits,
    fingerprint,
    prefilled,
    prompt,
    settled_logits,
    tree_logits,
)

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format, instruction_sets, library
from engine.backend.native.pool import ThreadPool
from engine.backend.sequence import SequenceState
from engine.model.weights.readable import Floats

ISAS = instruction_sets()
pytestmark = pytest.mark.usefixtures("isa_as_before")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hybrid(tmp_path_factory.mktemp("hybrid"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Decoder:
    return native_decoder(folder, Format.F32)


@pytest.fixture(scope="module")
def expected(folder: Path, model: Decoder) -> Floats:
    return reference_logits(folder, prompt(model))


def fed(model: Decoder, state: SequenceState, tokens: list[int], sizes: list[int]) -> Floats:
    """Logits of all tokens, in forwards of these sizes over and over."""
    rows: list[Floats] = []
    while tokens:
        size = sizes[len(rows) % len(sizes)]
        rows.append(model.forward(state, tokens[:size]).logits.copy())
        state.commit(range(len(tokens[:size])))
        tokens = tokens[size:]
    return np.concatenate(rows)


@pytest.mark.parametrize("sizes", [[LENGTH], [1], [7], [64], [63, 1, 5, 65]], ids=str)
def test_forwards_of_any_size_give_the_numbers_of_transformers(
    model: Decoder, expected: Floats, sizes: list[int]
) -> None:
    got = fed(model, model.new_state(640), prompt(model), sizes)
    assert apart(got, expected) < 1e-4


def test_a_path_of_a_tree_gives_the_numbers_of_transformers(
    model: Decoder, expected: Floats
) -> None:
    state, tokens = model.new_state(640), prompt(model)
    fed(model, state, tokens[:100], [100])
    got = tree_logits(model, state, tokens[100:112])
    assert apart(got, expected[100:112]) < 1e-4


@pytest.mark.parametrize(
    "shape",
    [
        {"linear_num_key_heads": 3, "linear_num_value_heads": 3},
        {"linear_conv_kernel_dim": 2, "linear_value_head_dim": 40},
        {"linear_num_value_heads": 34, "num_key_value_heads": 1, "head_dim": 48},
        {"num_hidden_layers": 3, "layer_types": ["linear_attention"] * 3},
        {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2},
        EXPERTS,
    ],
    ids=str,
)
def test_other_shapes_give_the_numbers_of_transformers(
    tmp_path: Path, shape: dict[str, object]
) -> None:
    folder = write_hybrid(tmp_path, **shape)
    model = native_decoder(folder, Format.F32)
    tokens = prompt(model, 70)
    got = fed(model, model.new_state(640), tokens, [33])
    assert apart(got, reference_logits(folder, tokens)) < 1e-4


Shape = Callable[[Decoder, SequenceState, list[int]], Floats]
SHAPES: tuple[Shape, ...] = (chain_logits, tree_logits, after_commit_logits, settled_logits)


def hashes(model: Decoder, chunks: tuple[int, ...]) -> set[str]:
    path = prompt(model, 12)[::-1]
    found = set()
    for chunk in chunks:
        state = prefilled(model, chunk)
        state.snapshot(1 << 30)
        reused = model.new_state(640)
        reused.copy_prefix(state, LENGTH)
        for each in (state, reused):
            for shape in SHAPES:
                found.add(fingerprint(shape(model, each, path)))
                assert len(each) == LENGTH
    return found


@pytest.mark.parametrize("fmt", [Format.F32, Format.Q4, Format.Q8], ids=lambda fmt: fmt.name)
def test_one_hash(folder: Path, fmt: Format) -> None:
    """Over instruction sets, threads, forwards, trees, commits and copies."""
    assert_one_hash(folder, fmt)


def test_one_hash_with_experts(tmp_path: Path) -> None:
    assert_one_hash(write_hybrid(tmp_path, **EXPERTS), Format.Q8)


def assert_one_hash(folder: Path, fmt: Format) -> None:
    found: dict[object, set[str]] = {}
    for isa in ISAS:
        assert library().dt_use_isa(isa) == 0
        for threads in (1, 2, 3):
            model = native_decoder(folder, fmt, ThreadPool(threads))
            whole = isa is ISAS[-1] and threads == 2
            found[isa.name, threads] = hashes(model, (1, 7, 64, 512) if whole else (64,))
    assert len(set().union(*found.values())) == 1, found


def test_rejected_drafts_leave_nothing(model: Decoder) -> None:
    """Rounds whose tokens are all rejected, or in part: the text goes on as without them."""
    tokens, rng = prompt(model), np.random.default_rng(5)
    plain = fed(model, model.new_state(640), tokens, [1])
    state = model.new_state(640)
    rows: list[Floats] = []
    for place in range(0, 100, 2):
        for _ in range(int(rng.integers(0, 3))):  # rejected as a whole
            model.forward(state, rng.integers(3, 320, 9).tolist())
            state.discard()
        drafted = [tokens[place], int(rng.integers(3, 320)), tokens[place + 1], 9, 11]
        rows.append(model.forward(state, drafted, [-1, 0, 0, 2, 2]).logits[[0, 2]].copy())
        state.commit([0, 2])
    assert np.array_equal(np.concatenate(rows), plain[:100])


@pytest.mark.parametrize("count", [1, 2])
def test_prompts_in_turns_follow_their_own_lead(model: Decoder, count: int) -> None:
    """Long pieces of as many sequences, some rejected, some in part, and a copy on the way."""
    texts = [prompt(model), list(reversed(prompt(model)))][:count]
    plain = [fed(model, model.new_state(640), text[:100], [1])[99] for text in texts]
    states = [model.new_state(640) for _ in texts]
    for place in range(0, 90, 30):
        for text, state in zip(texts, states, strict=True):
            if place > 30:
                model.forward(state, text[:20])
                state.discard()
            model.forward(state, text[place : place + 30])
        for text, state in zip(texts, states, strict=True):
            state.commit(range(kept := 20 if place else 30))
            if kept < 30:
                model.forward(state, text[place + 20 : place + 38])
                state.commit(range(10))
    copied = model.new_state(640)
    copied.copy_prefix(states[0], 90)
    states[0] = copied
    found = [
        fed(model, state, text[90:100], [10])[-1] for state, text in zip(states, texts, strict=True)
    ]
    assert np.array_equal(found, plain)


def test_a_state_does_not_go_back_without_a_snapshot(model: Decoder) -> None:
    state, tokens = model.new_state(640), prompt(model)
    fed(model, state, tokens[:50], [50])
    assert state.reusable(49) == 49, "these rows did not go into the state yet"
    fed(model, state, tokens[50:60], [5])
    assert (state.reusable(60), state.reusable(55), state.reusable(54)) == (60, 55, 0)
    state.crop(54)
    assert len(state) == 0
    again = fed(model, state, tokens[:60], [60])
    assert np.array_equal(again, fed(model, model.new_state(640), tokens[:60], [60]))


def test_a_snapshot_is_come_back_to(model: Decoder) -> None:
    state, tokens = model.new_state(640), prompt(model)
    fed(model, state, tokens[:40], [40])
    state.snapshot(1 << 30)
    expected = fed(model, state, tokens[40:80], [8])
    other = list(reversed(tokens))
    before = fed(model, model.new_state(640), [*tokens[:40], *other[:20]], [60])[40:]
    state.crop(70)
    assert len(state) == 40
    assert np.array_equal(fed(model, state, other[:20], [20]), before)
    copied = model.new_state(640)
    copied.copy_prefix(state, 40)
    assert np.array_equal(fed(model, copied, tokens[40:80], [8]), expected)
    state.crop(40)
    assert np.array_equal(fed(model, state, tokens[40:80], [3]), expected)


def test_snapshots_are_few_and_counted(model: Decoder) -> None:
    state, tokens = model.new_state(640), prompt(model)
    empty, kept = state.nbytes, []
    for first, last in pairwise(range(0, 130, 10)):
        fed(model, state, tokens[first:last], [10])
        state.snapshot(1 << 30)
        kept.append(state.nbytes - empty)
    assert kept[0] > 0
    assert kept[7] == kept[-1] == 8 * kept[0]
    assert state.reusable(115) == 110
    assert state.reusable(9) == 0


def test_a_forward_behind_the_state_is_refused(model: Decoder) -> None:
    """No wrong text where somebody forgot to ask: the library says no."""
    state, tokens = model.new_state(640), prompt(model)
    fed(model, state, tokens[:20], [10])
    del state._tokens[5:]
    with pytest.raises(ValueError, match="impossible arguments"):
        model.forward(state, [3])


def test_more_staged_rows_than_are_kept_are_refused(model: Decoder) -> None:
    state = model.new_state(640)
    model.forward(state, [5] * 60)
    assert state.slots == 64
    with pytest.raises(ValueError, match="impossible arguments"):
        model.forward(state, [5] * 5)
