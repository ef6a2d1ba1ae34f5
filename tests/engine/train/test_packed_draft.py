"""Drafts in few bits: what quantising costs, and what is not packed."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from reduced_drafts import write_reduced
from safetensors.numpy import load_file

from engine.backend.native.library import Format
from engine.backend.native.matrix import pack_rows, unpack
from engine.backend.native.pool import shared_pool
from engine.errors import NotPossible, UserFixable
from engine.model.local_model import LocalModel
from engine.model.tensors import HEAD_IDS
from engine.train.packed_draft import quantised, write_packed
from engine.train.settings import PackedKind


@pytest.mark.parametrize("kind", PackedKind)
def test_the_error_is_no_greater_than_that_of_the_obvious_scales(kind: PackedKind) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 96)).astype(np.float32)
    rows[3] = 0
    rows[4] = 2.5
    stored = Kind[kind.upper()]

    def error(blocks: NDArray[np.uint8]) -> float:
        return float(np.square(gguf.quants.dequantize(blocks, stored) - rows).sum())

    found = quantised(rows, kind)
    obvious = gguf.quants.quantize(rows, stored)
    assert found.shape == obvious.shape
    ratio = {"q8_0": 1.05, "q4_0": 0.95, "q4_1": 0.95}[kind]
    assert error(found) < ratio * error(obvious)
    again = gguf.quants.dequantize(found, stored)
    np.testing.assert_array_equal(again[3], 0)
    np.testing.assert_allclose(again[4], 2.5, rtol=1e-2)


@pytest.mark.parametrize(
    ("kind", "fmt"), [(PackedKind.Q8_0, Format.Q8), (PackedKind.Q4_0, Format.Q4)]
)
def test_the_numbers_are_those_that_a_load_would_make(kind: PackedKind, fmt: Format) -> None:
    rows = np.random.default_rng(1).standard_normal((40, 96)).astype(np.float32)
    stored = gguf.quants.dequantize(quantised(rows, kind), Kind[kind.upper()])
    np.testing.assert_array_equal(stored, unpack(pack_rows(shared_pool(), rows, fmt)))


def test_a_draft_of_few_rows_keeps_its_tokens(tmp_path: Path) -> None:
    draft = write_reduced(tmp_path / "draft", FOLDER_TARGET)
    file = write_packed(draft, tmp_path / "out", PackedKind.Q8_0)
    (stored,) = (each for each in gguf.GGUFReader(file).tensors if each.name == HEAD_IDS)
    ids = load_file(draft / "model.safetensors")[HEAD_IDS]
    np.testing.assert_array_equal(stored.data, ids)
    assert LocalModel.inspect(tmp_path / "out").config == LocalModel.inspect(draft).config
    (tmp_path / "file").touch()
    with pytest.raises(UserFixable, match="cannot be written"):
        write_packed(draft, tmp_path / "file", PackedKind.Q8_0)


def test_a_chat_model_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(NotPossible, match="no draft"):
        write_packed(FOLDER_TARGET, tmp_path / "out", PackedKind.Q8_0)
    assert not (tmp_path / "out").exists()
