"""Rule 3.2 on the native path: one hash over everything that must not matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from full_models import full_decoder
from native_models import native_decoder
from split_models import split_full_decoder
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
from tiny_models import decoder, write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format, instruction_sets, library
from engine.backend.native.matrix import PACKABLE
from engine.backend.native.pool import ThreadPool
from engine.commands import KvType

ISAS = instruction_sets()
pytestmark = pytest.mark.usefixtures("isa_as_before")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("native")
    odd = {"hidden_size": 72, "intermediate_size": 90, "vocab_size": 323}
    return {
        "grouped heads": write_model(root / "grouped"),
        "odd widths": write_model(root / "odd", **odd),
        "biases": write_model(root / "biases", "qwen2", tie_word_embeddings=True),
        "trained": FOLDER_TARGET,
    }


def hashes(model: Decoder, chunks: tuple[int, ...]) -> dict[tuple[object, ...], str]:
    path = prompt(model, 12)[::-1]
    reused = prefilled(model, 100)
    found = {}
    for chunk in chunks:
        reused.crop(LENGTH // 3)
        tokens = prompt(model)[len(reused) :]
        model.forward(reused, tokens, logit_rows=())
        reused.commit(range(len(tokens)))
        for kind, state in (("fresh", prefilled(model, chunk)), ("reused", reused)):
            for shape in (chain_logits, tree_logits, after_commit_logits, settled_logits):
                found[chunk, kind, shape.__name__] = fingerprint(shape(model, state, path))
    return found


@pytest.mark.release(keep=3, reason="every shape in every format")
@pytest.mark.parametrize("fmt", PACKABLE, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("name", ["grouped heads", "odd widths", "biases"])
def test_one_hash(name: str, fmt: Format, folders: dict[str, Path]) -> None:
    assert_one_hash(lambda pool: native_decoder(folders[name], fmt, pool))


@pytest.mark.release(keep=1, reason="in every format")
@pytest.mark.parametrize("fmt", [None, Format.Q4], ids=["stored", "Q4"])
def test_one_hash_with_every_feature(fmt: Format | None) -> None:
    assert_one_hash(lambda pool: full_decoder(fmt, pool))


@pytest.mark.release(keep=2, reason="every shape")
@pytest.mark.parametrize("name", ["grouped heads", "odd widths", "biases"])
def test_one_hash_with_keys_in_8_bits(name: str, folders: dict[str, Path]) -> None:
    assert_one_hash(lambda pool: native_decoder(folders[name], Format.Q8, pool, KvType.Q8))


def test_one_hash_with_every_feature_and_keys_in_8_bits() -> None:
    assert_one_hash(lambda pool: full_decoder(Format.Q4, pool, KvType.Q8))


@pytest.mark.release(keep=1, reason="at every border")
@pytest.mark.parametrize("borders", [(0, 2), (1, 4)], ids=str)
def test_one_hash_of_a_split(borders: tuple[int, ...]) -> None:
    """Segments as they lie on several devices, and the whole: the same bits."""
    split = assert_one_hash(lambda pool: split_full_decoder(Format.Q4, borders, pool))
    assert split == next(iter(hashes(full_decoder(Format.Q4), (7,)).values()))


def assert_one_hash(build: Callable[[ThreadPool], Decoder]) -> str:
    found: dict[tuple[object, ...], str] = {}
    for isa in ISAS:
        assert library().dt_use_isa(isa) == 0
        for threads in (1, 2, 3):
            model = build(ThreadPool(threads))
            chunks = (1, 7, 64, 512) if threads == 2 else (7, 512)
            cells = hashes(model, chunks if isa is ISAS[-1] else (64,))
            found |= {(isa.name, threads, *cell): value for cell, value in cells.items()}
    assert len(set(found.values())) == 1, found
    return next(iter(found.values()))


@pytest.mark.parametrize("fmt", [Format.Q4, Format.Q8], ids=lambda fmt: fmt.name)
def test_one_hash_of_a_trained_model(fmt: Format, folders: dict[str, Path]) -> None:
    model = native_decoder(folders["trained"], fmt)
    assert len(set(hashes(model, (1, 7, 64, 512)).values())) == 1


@pytest.mark.parametrize("name", ["grouped heads", "odd widths", "biases", "trained"])
def test_the_native_path_computes_the_same_model(name: str, folders: dict[str, Path]) -> None:
    """16-bit keys and weights against fp32: close; 8 and 4 bits: closer the more bits."""
    exact = decoder(folders[name])
    tokens = prompt(exact, 90)
    expected = exact.forward(exact.new_state(128), tokens)
    errors = {}
    for fmt in (Format.F16, Format.Q8, Format.Q4):
        native = native_decoder(folders[name], fmt)
        got = native.forward(native.new_state(128), tokens, taps=(0, 1))
        errors[fmt] = np.linalg.norm(got.logits - expected.logits)
        errors[fmt] /= np.linalg.norm(expected.logits)
        hidden = np.linalg.norm(got.hidden - expected.hidden) / np.linalg.norm(expected.hidden)
        assert hidden < 3 * errors[fmt]
        assert set(got.taps) == {0, 1}
    assert errors[Format.F16] < 2e-3
    assert errors[Format.F16] < errors[Format.Q8] < errors[Format.Q4] < 0.5


def test_taps_are_what_the_blocks_put_out(folders: dict[str, Path]) -> None:
    exact = decoder(folders["grouped heads"])
    native = native_decoder(folders["grouped heads"], Format.F16)
    tokens = prompt(exact, 100)
    ours = native.forward(native.new_state(128), tokens, taps=(0, 2)).taps
    theirs = exact.forward(exact.new_state(128), tokens, taps=(0, 2)).taps
    for tap in (0, 2):
        np.testing.assert_allclose(ours[tap], theirs[tap], atol=0.05, rtol=0.02)
