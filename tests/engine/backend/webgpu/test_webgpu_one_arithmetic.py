"""Rule 3.2 on a WebGPU adapter: a row's bits depend on the row and its path alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from comparing import apart, check_tree_in_parts, in_chunks
from native_models import native_decoder
from on_adapter import NAME, on_adapter, shared_device
from test_native_one_arithmetic import hashes
from test_one_arithmetic import after_commit_logits, chain_logits, prefilled, prompt, tree_logits
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Share
from engine.backend.webgpu import sizes
from engine.backend.webgpu.gpu import Gpu
from engine.commands import WeightFormat
from engine.machine.facts import CPU
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

_LATER = pytest.mark.release(reason="every family and number of rows")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llama"), num_hidden_layers=2)


@pytest.mark.release(keep=1, reason="every family")
@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3"])
def test_one_hash(family: str, tmp_path: Path) -> None:
    """Prompts in chunks, chains, trees, what follows a commit; in fresh and in reused states."""
    folder = write_model(tmp_path, family, num_hidden_layers=2)
    model = on_adapter(folder, WeightFormat.Q8)
    found = hashes(model, (1, 7, 64, 512) if family == "llama" else (7, 512))
    assert len(set(found.values())) == 1, found


@pytest.mark.release(keep=1, reason="compiles the products of 16 rows")
@pytest.mark.parametrize("fmt", [WeightFormat.F32, WeightFormat.Q8])
def test_rows_that_share_a_reading_of_the_weights(fmt: WeightFormat, llama: Path) -> None:
    """Products of 1, 2, 4, 8, 16 and 64 rows give the same bits."""
    alone, *others = (on_adapter(llama, fmt, tile=tile) for tile in (1, 2, 4, 16))
    tokens = prompt(alone, 40)
    expected = in_chunks(alone, tokens, 5)
    for model, chunks in zip(others, ([2], [3], [7, 30, 40]), strict=True):
        for chunk in chunks:
            assert np.array_equal(in_chunks(model, tokens, chunk), expected), chunk


@pytest.mark.parametrize(
    ("family", "fmt", "counts"),
    [
        pytest.param("qwen3_moe", WeightFormat.F32, (3, 4, 9, 17, 64), id="some"),
        pytest.param("qwen3_moe", WeightFormat.Q8, range(1, 65), marks=_LATER, id="experts"),
        pytest.param("llama", WeightFormat.Q8, range(1, 65), marks=_LATER, id="dense"),
    ],
)
def test_any_number_of_rows(
    family: str, fmt: WeightFormat, counts: Sequence[int], tmp_path: Path
) -> None:
    """From 1 to 64 rows in a forward, of a chain and of a tree: each row has the same bits."""
    model = on_adapter(write_model(tmp_path, family, num_hidden_layers=2), fmt)
    rng = np.random.default_rng(6)
    state, tokens = prefilled(model, 64), prompt(model, 64)[::-1]
    parents = [-1, *(int(rng.integers(max(-1, node - 6), node)) for node in range(1, 64))]
    chain = chain_logits(model, state, tokens)
    tree = model.forward(state, tokens, parents).logits.copy()
    state.discard()
    for node in range(0, 64, 9):
        path = [node]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        alone = model.forward(state, [tokens[each] for each in path]).logits
        assert np.array_equal(tree[path], alone), node
        state.discard()
    for rows in counts:
        for above, expected in ((None, chain), (parents[:rows], tree)):
            found = model.forward(state, tokens[:rows], above).logits
            assert np.array_equal(found, expected[:rows]), (rows, above is None)
            state.discard()


def test_passes_of_fewer_rows(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long sequences are computed, whose parts of attention would take too much memory."""
    model = on_adapter(llama)
    tokens = prompt(model, 140)
    expected = in_chunks(model, tokens, 140)
    monkeypatch.setattr(sizes, "PARTS_BYTES", 1)
    assert np.array_equal(in_chunks(on_adapter(llama), tokens, 140), expected)


def test_a_tree_of_many_rows_is_computed_in_parts(llama: Path) -> None:
    check_tree_in_parts(on_adapter(llama), 23)


@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_a_matrix_in_several_pieces(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a device with a small limit on bindings has it: the same bits."""
    folder = write_model(tmp_path, family, num_hidden_layers=2)
    whole = on_adapter(folder)
    tokens = prompt(whole, 20)
    expected = in_chunks(whole, tokens, 20)
    with monkeypatch.context() as small:
        small.setattr(Gpu, "most_bound", 9000)
        model = on_adapter(folder)
    assert np.array_equal(in_chunks(model, tokens, 20), expected)


SHARES = {
    "embedding, card, rest": [
        Share(CPU, range(0), embeds=True),
        Share(NAME, range(2)),
        Share(CPU, range(2, 3), heads=True),
    ],
    "card first": [Share(NAME, range(2), embeds=True), Share(CPU, range(2, 3), heads=True)],
    "all but the embedding": [
        Share(CPU, range(0), embeds=True),
        Share(NAME, range(3), heads=True),
    ],
    "the head alone": [Share(CPU, range(3), embeds=True), Share(NAME, range(3, 3), heads=True)],
}


@pytest.mark.release(keep=2, reason="every border")
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", SHARES)
def test_a_split_model_is_the_model(tmp_path: Path, name: str, tied: bool) -> None:
    folder = write_model(tmp_path, tie_word_embeddings=tied)
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    card = shared_device().backend(WeightFormat.Q8, "target")
    backends = {NAME: card, CPU: NativeBackend(Format.Q8)}
    model = Decoder.placed(config, weights, SHARES[name], backends)
    whole = native_decoder(folder, Format.Q8)
    tokens = prompt(whole, 100)
    expected = whole.forward(whole.new_state(640), tokens, taps=(0, 1, 2))
    got = model.forward(model.new_state(640), tokens, taps=(0, 1, 2))
    assert apart(got.logits, expected.logits) < 3e-2
    for tap in (0, 1, 2):
        assert apart(got.taps[tap], expected.taps[tap]) < 3e-2
    path, state = tokens[:12], prefilled(model, 64)
    chain = chain_logits(model, state, path)
    assert np.array_equal(tree_logits(model, state, path), chain)
    assert np.array_equal(after_commit_logits(model, state, path), chain)
