"""Output rows of a shortlist, taken out of whole matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native import cached_weights
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.native.library import Format
from engine.backend.native.packed_cache import PackedCache, settle
from engine.backend.native.segment import NativeBackend
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.tensors import EMBEDDING, HEAD, HEAD_IDS
from engine.model.text.shortlist import shortened
from engine.model.weights import reader
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.shortlisted import Shortlisted

IDS = np.array([0, 2, 3, *range(17, 90, 2), 200, 311, 319], dtype=np.int64)


@pytest.fixture(params=[False, True], ids=["own output matrix", "tied"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ModelConfig, ModelWeights]:
    folder = write_model(tmp_path, tie_word_embeddings=request.param)
    config = open_config(folder)
    return config, ModelWeights.of_folder(config, folder)


def short(config: ModelConfig, weights: ModelWeights) -> tuple[ModelConfig, Shortlisted]:
    matrix = EMBEDDING if config.tie_word_embeddings else HEAD
    return shortened(config, len(IDS)), Shortlisted(weights, matrix, IDS)


def test_rows_are_those_of_the_tokens(
    model: tuple[ModelConfig, ModelWeights], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, weights = model
    monkeypatch.setattr(reader, "STRETCH_BYTES", 32 * config.hidden_size * 4)  # many stretches
    _, few = short(config, weights)
    whole = weights.float32(EMBEDDING if config.tie_word_embeddings else HEAD)
    parts = [part.copy() for part in few.stretches(HEAD)]
    assert all(len(part) % 16 == 0 for part in parts[:-1])
    assert np.array_equal(np.concatenate(parts), whole[IDS])
    assert np.array_equal(few.float32(HEAD), whole[IDS])
    assert np.array_equal(few.float32(HEAD_IDS), IDS)
    assert few.shape(HEAD) == (len(IDS), config.hidden_size)
    assert np.array_equal(few.float32(EMBEDDING), weights.float32(EMBEDDING))


@pytest.mark.parametrize("fmt", [Format.Q4, Format.Q8, Format.F32])
def test_logits_are_those_of_the_whole_model(
    model: tuple[ModelConfig, ModelWeights], fmt: Format
) -> None:
    config, weights = model
    whole = Decoder.build(config, weights, NativeBackend(fmt))
    few = Decoder.build(*short(config, weights), NativeBackend(fmt))
    tokens = [1, 5, 300, 7]
    expected = whole.forward(whole.new_state(8), tokens).logits
    found = few.forward(few.new_state(8), tokens).logits
    assert np.array_equal(found, expected[:, IDS])
    spread = few.over_vocabulary(found)
    assert np.array_equal(spread[:, IDS], expected[:, IDS])
    assert np.isneginf(np.delete(spread, IDS, axis=1)).all()


def test_a_trained_models_own_weights() -> None:
    config = open_config(FOLDER_TARGET)
    weights = ModelWeights.of_folder(config, FOLDER_TARGET)
    _, few = short(config, weights)
    assert few.names().count(HEAD) == 1
    assert few.nbytes >= weights.nbytes
    assert few.as_floats().kind(HEAD) == "BF16"


def test_rows_of_another_list_do_not_come_out_of_the_cache(
    model: tuple[ModelConfig, ModelWeights], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files, the same names and shapes, other tokens: as after a change of the list."""
    monkeypatch.setattr(cached_weights, "JUST_NOW_S", 0.0)
    config, weights = model
    matrix = EMBEDDING if config.tie_word_embeddings else HEAD
    cache, tokens = PackedCache(tmp_path / "packed"), [1, 5, 300, 7]
    whole = Decoder.build(config, weights, NativeBackend(Format.Q8))
    expected = whole.forward(whole.new_state(8), tokens).logits
    for ids in (IDS, IDS + 0, np.sort(319 - IDS)):
        few, own = shortened(config, len(ids)), Shortlisted(weights, matrix, ids)
        listed = ids.astype(np.float32)
        with CachedWeights(own, own.files, Format.Q8, 1 << 20, ids=listed, cache=cache) as kept:
            built = Decoder.build(few, kept, NativeBackend(Format.Q8))
        settle()
        found = built.forward(built.new_state(8), tokens).logits
        assert np.array_equal(found, expected[:, ids])
    assert cache.usage() > 0
