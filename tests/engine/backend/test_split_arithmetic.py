"""A model in several segments computes what it computes in one, bit for bit."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from full_models import full_decoder
from native_models import native_decoder
from split_models import CUTS, split_decoder, split_folder, split_full_decoder
from test_one_arithmetic import (
    after_commit_logits,
    chain_logits,
    fingerprint,
    prefilled,
    prompt,
    settled_logits,
    tree_logits,
)
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import ThreadPool
from engine.backend.native.segment import NativeBackend
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

FAMILIES = ("llama", "qwen2", "gemma3_text", "gpt_oss", "qwen3_moe")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("split")
    tied = {"qwen2": True, "gemma3_text": True}
    return {
        family: write_model(root / family, family, tie_word_embeddings=tied.get(family, False))
        for family in FAMILIES
    }


def every_logit(model: Decoder) -> dict[str, str]:
    """Chains, trees and what follows a commit, in fresh and in reused states."""
    path = prompt(model, 12)[::-1]
    reused = prefilled(model, 64)
    reused.crop(50)
    tokens = prompt(model)[50:]
    model.forward(reused, tokens, logit_rows=())
    reused.commit(range(len(tokens)))
    return {
        f"{kind}, {shape.__name__}": fingerprint(shape(model, state, path))
        for kind, state in (("fresh", prefilled(model, 100)), ("reused", reused))
        for shape in (chain_logits, tree_logits, after_commit_logits, settled_logits)
    }


@pytest.mark.release(keep=2, reason="every border")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_split_gives_the_same_bits(family: str, folders: dict[str, Path]) -> None:
    expected = every_logit(native_decoder(folders[family], Format.Q8))
    assert len(set(expected.values())) == 1
    for name, borders in CUTS.items():
        split = split_folder(folders[family], borders(3), Format.Q8)
        assert every_logit(split) == expected, name


@pytest.mark.release(keep=1, reason="every border")
@pytest.mark.parametrize("fmt", [None, Format.Q4], ids=["stored", "Q4"])
def test_a_split_with_every_feature(fmt: Format | None) -> None:
    expected = every_logit(full_decoder(fmt))
    for threads in (1, 2):
        for borders in ((0,), (1,), (0, 2), (4,)):
            split = split_full_decoder(fmt, borders, ThreadPool(threads))
            assert every_logit(split) == expected, (threads, borders)


@pytest.mark.parametrize("borders", [(0,), (2,), (0, 1), (3,)])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_split_of_the_portable_path(
    family: str, borders: Sequence[int], folders: dict[str, Path]
) -> None:
    config = open_config(folders[family])
    weights = ModelWeights.of_folder(config, folders[family])
    whole = Decoder.build(config, weights, TorchCpuBackend())
    split = split_decoder(config, weights, borders, TorchCpuBackend())
    tokens = prompt(whole, 90)
    expected = whole.forward(whole.new_state(128), tokens)
    got = split.forward(split.new_state(128), tokens)
    np.testing.assert_array_equal(got.logits, expected.logits)
    np.testing.assert_array_equal(got.hidden, expected.hidden)
    assert split.signature == whole.signature
    assert split.weight_bytes == whole.weight_bytes


def test_taps_of_every_segment(folders: dict[str, Path]) -> None:
    whole = native_decoder(folders["llama"], Format.Q8)
    split = split_folder(folders["llama"], (0, 1, 2), Format.Q8)
    tokens = prompt(whole, 100)
    for taps in ((0, 1, 2), (2, 0), (1,)):
        expected = whole.forward(whole.new_state(128), tokens, taps=taps)
        got = split.forward(split.new_state(128), tokens, taps=taps)
        assert got.taps.keys() == set(taps)
        for tap in taps:
            np.testing.assert_array_equal(got.taps[tap], expected.taps[tap])
        np.testing.assert_array_equal(got.hidden, expected.hidden)


# -- what is held ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("borders", [(0,), (0, 2), (3,)])
def test_a_tied_matrix_is_held_once(
    family: str, borders: Sequence[int], folders: dict[str, Path]
) -> None:
    whole = native_decoder(folders[family], Format.Q8)
    split = split_folder(folders[family], borders, Format.Q8)
    assert split.weight_bytes == whole.weight_bytes
    embedding, head = (
        segment.struct  # type: ignore[attr-defined]
        for segment in (split.segments[0], split.segments[-1])
    )
    assert (embedding.embedding.data == head.head.data) == (family == "qwen2")
    assert split.signature == whole.signature


def test_other_weights_share_nothing(folders: dict[str, Path], tmp_path: Path) -> None:
    """One backend compiles two models, one after the other and side by side."""
    other = write_model(tmp_path / "other", "qwen2", seed=9, tie_word_embeddings=True)
    backend = NativeBackend(Format.Q8)
    split: dict[Path, Decoder] = {}
    for folder in (folders["qwen2"], other):
        config = open_config(folder)
        weights = ModelWeights.of_folder(config, folder)
        split[folder] = split_decoder(config, weights, (0, 2), backend)
    for folder, decoder in split.items():
        whole = native_decoder(folder, Format.Q8)
        tokens = prompt(whole, 20)
        expected = whole.forward(whole.new_state(64), tokens).logits
        got = decoder.forward(decoder.new_state(64), tokens).logits
        np.testing.assert_array_equal(got, expected)


def test_nothing_stays_when_a_split_goes(folders: dict[str, Path]) -> None:
    config = open_config(folders["qwen2"])
    weights = ModelWeights.of_folder(config, folders["qwen2"])
    backend = NativeBackend(Format.Q8)
    first = split_decoder(config, weights, (0, 2), backend)
    held = first.weight_bytes
    del first
    gc.collect()
    assert split_decoder(config, weights, (0, 2), backend).weight_bytes == held
