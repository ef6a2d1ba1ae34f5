"""Safetensors folders: exact values, and every way a folder can be broken."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from engine.errors import UserFixable
from engine.model.config import ModelConfig
from engine.model.families import parse_config
from engine.model.tensors import expected_tensors
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.parts import StoredPart
from engine.model.weights.reader import TensorReader
from engine.model.weights.safetensors_folder import SafetensorsFolder

CONFIG: dict[str, object] = {
    "model_type": "llama",
    "vocab_size": 24,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "tie_word_embeddings": True,
}


def model_tensors(config: ModelConfig) -> dict[str, torch.Tensor]:
    return {
        name: torch.randn(shape, dtype=torch.bfloat16)
        for name, shape in expected_tensors(config).items()
    }


def write_model(folder: Path, **changes: torch.Tensor | None) -> ModelConfig:
    config = parse_config(CONFIG)
    tensors: dict[str, torch.Tensor | None] = {**model_tensors(config), **changes}
    save_file(
        {name: value for name, value in tensors.items() if value is not None},
        folder / "model.safetensors",
    )
    return config


def write_sharded(folder: Path, shards: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    weight_map = {name: file for file, tensors in shards.items() for name in tensors}
    for file, tensors in shards.items():
        save_file(dict(tensors), folder / file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_raw(
    folder: Path, header: object, data: bytes = b"", name: str = "model.safetensors"
) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def rows_of(
    folder: SafetensorsFolder, name: str, first: int, count: int | None
) -> Iterator[NDArray[Any]]:
    """Some rows of a stored tensor; None: all."""
    whole = folder.shape(name)
    rows = whole[0] if count is None else count
    part = StoredPart(name, whole, (rows, *whole[1:]), first)
    return TensorReader({name: folder.found(part)}).stretches(name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_float32_is_exact_for_every_stored_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    if dtype == torch.float32:
        tensor = torch.randn(256, 256)
    else:
        tensor = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).reshape(256, 256)
    save_file(
        {"w": tensor, "odd": torch.zeros(3, dtype=torch.uint8)}, tmp_path / "model.safetensors"
    )
    folder = SafetensorsFolder.open(tmp_path)
    values = folder.float32("w")
    assert values.dtype == np.float32
    assert values.flags["C_CONTIGUOUS"]
    assert values.flags["WRITEABLE"]
    np.testing.assert_array_equal(values, tensor.float().numpy())
    assert folder.shape("w") == (256, 256)
    assert folder.nbytes == tensor.nbytes + 3


def test_float32_of_other_types_is_refused(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(3, dtype=torch.int8)}, tmp_path / "model.safetensors")
    folder = SafetensorsFolder.open(tmp_path)
    assert folder.kind("w") == "I8"
    with pytest.raises(UserFixable, match="I8"):
        folder.float32("w")


def test_stretches_start_at_any_row_and_bytes_stay_bytes(tmp_path: Path) -> None:
    matrix = torch.arange(40 * 6, dtype=torch.float16).reshape(40, 6)
    blocks = torch.arange(2 * 3 * 4 * 16, dtype=torch.uint8).reshape(2, 3, 4, 16)
    save_file({"w": matrix, "blocks": blocks}, tmp_path / "model.safetensors")
    folder = SafetensorsFolder.open(tmp_path)
    for first, count in ((0, None), (7, 20), (39, 1), (5, 0)):
        parts = [part.copy() for part in rows_of(folder, "w", first, count)]
        rows = np.concatenate([np.empty((0, 6), np.float16), *parts])
        last = 40 if count is None else first + count
        np.testing.assert_array_equal(rows, matrix.numpy()[first:last])
    (rows,) = rows_of(folder, "blocks", 1, 4)
    np.testing.assert_array_equal(rows, blocks.numpy().reshape(6, 64)[1:5])
    assert folder.kind("blocks") == "U8"
    with pytest.raises(UserFixable, match="U8"):
        folder.float32("blocks")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_finite_values_are_checked_on_request(tmp_path: Path, value: float) -> None:
    save_file({"w": torch.tensor([1.0, value])}, tmp_path / "model.safetensors")
    folder = SafetensorsFolder.open(tmp_path)
    assert folder.float32("w")[0] == 1.0
    with pytest.raises(UserFixable, match="not numbers"):
        folder.float32("w", check_finite=True)


def test_expected_names_and_shapes_are_those_of_transformers() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    for family, changes in (
        ("llama", {}),
        ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 6}),
        ("qwen2", {"tie_word_embeddings": False}),
    ):
        data = {**CONFIG, **changes, "model_type": family}
        theirs = AutoConfig.for_model(**data)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(theirs)
        shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
        assert expected_tensors(parse_config(data)) == shapes


def test_a_complete_model_passes(tmp_path: Path) -> None:
    config = write_model(
        tmp_path, **{"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}
    )
    ModelWeights.of_folder(config, tmp_path)


def test_a_tied_head_may_be_stored_but_must_be_equal(tmp_path: Path) -> None:
    embedding = torch.randn(24, 8)
    same = {"model.embed_tokens.weight": embedding, "lm_head.weight": embedding.clone()}
    ModelWeights.of_folder(write_model(tmp_path, **same), tmp_path)
    other = {**same, "lm_head.weight": embedding + 1}
    with pytest.raises(UserFixable, match=r"lm_head\.weight"):
        ModelWeights.of_folder(write_model(tmp_path, **other), tmp_path)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"model.norm.weight": None}, r"model\.norm\.weight is missing"),
        ({"model.layers.1.mlp.up_proj.weight": torch.zeros(8, 12)}, "8 x 12, not 12 x 8"),
        ({"model.layers.0.self_attn.q_proj.bias": torch.zeros(8)}, r"q_proj\.bias"),
        ({"model.layers.2.mlp.up_proj.weight": torch.zeros(12, 8)}, r"layers\.2"),
        ({"model.norm.weight": torch.zeros(8, dtype=torch.int8)}, "I8"),
        ({"model.norm.weight": torch.zeros(())}, "a single number, not 8"),
    ],
)
def test_weights_that_do_not_fit_the_config(
    tmp_path: Path, changes: dict[str, torch.Tensor | None], word: str
) -> None:
    config = write_model(tmp_path, **changes)
    with pytest.raises(UserFixable, match=word):
        ModelWeights.of_folder(config, tmp_path)


def test_more_blocks_than_weights_is_refused_at_once(tmp_path: Path) -> None:
    write_model(tmp_path)
    config = parse_config({**CONFIG, "num_hidden_layers": 500})
    with pytest.raises(UserFixable, match="500 blocks"):
        ModelWeights.of_folder(config, tmp_path)


def test_shards_read_as_one(tmp_path: Path) -> None:
    config = parse_config(CONFIG)
    tensors = model_tensors(config)
    names = list(tensors)
    parts = {
        "model-00001-of-00002.safetensors": {name: tensors[name] for name in names[:5]},
        "model-00002-of-00002.safetensors": {name: tensors[name] for name in names[5:]},
    }
    write_sharded(tmp_path, parts)
    folder = SafetensorsFolder.open(tmp_path)
    ModelWeights.of_folder(config, tmp_path)
    assert set(folder.names()) == set(names)
    for name in names:
        np.testing.assert_array_equal(folder.float32(name), tensors[name].float().numpy())

    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserFixable, match=r"1 of 2 .*model-00002-of-00002\.safetensors"):
        SafetensorsFolder.open(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    first = {"v": torch.ones(2), "w": torch.ones(2)}
    write_sharded(tmp_path, {"a.safetensors": first, "b.safetensors": {"w": torch.ones(2)}})
    with pytest.raises(UserFixable, match="another weight file"):
        SafetensorsFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "word"),
    [
        ({"w": "../outside.safetensors"}, "outside"),
        ({"w": "/etc/passwd.safetensors"}, "outside"),
        ({"w": "sub\\a.safetensors"}, "outside"),
        ({"w": "C:a.safetensors"}, "outside"),
        ({"w": "a.bin"}, "outside"),
        ({"w": 3}, "outside"),
        ({}, "weight_map"),
        (["a.safetensors"], "weight_map"),
        ({"w": "a.safetensors", "v": "a.safetensors"}, "“v” is not in"),
    ],
)
def test_bad_indices_are_refused(tmp_path: Path, weight_map: object, word: str) -> None:
    save_file({"w": torch.ones(2)}, tmp_path / "a.safetensors")
    save_file({"w": torch.ones(2)}, tmp_path.parent / "outside.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(UserFixable, match=word):
        SafetensorsFolder.open(tmp_path)


def test_truncated_anywhere_is_incomplete_or_damaged(tmp_path: Path) -> None:
    write_model(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    for size in (0, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(UserFixable, match=f"incomplete: {size} of"):
            SafetensorsFolder.open(tmp_path)
    file.write_bytes(whole + b"x")
    with pytest.raises(UserFixable, match="damaged"):
        SafetensorsFolder.open(tmp_path)


def test_a_file_that_shrinks_after_the_check(tmp_path: Path) -> None:
    save_file({"w": torch.ones(100)}, tmp_path / "model.safetensors")
    folder = SafetensorsFolder.open(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(UserFixable, match="shorter"):
        folder.float32("w")
    file.unlink()
    with pytest.raises(UserFixable, match="cannot be read"):
        folder.float32("w")


def entry(**changes: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


@pytest.mark.parametrize(
    ("header", "word"),
    [
        (b"not json!", "table of contents"),
        (b"[1, 2]", "table of contents"),
        (b"[" * 50_000, "table of contents"),
        (b'{"w": {}, "w": {}}', "table of contents"),
        ({"w": 3}, "description"),
        ({"w": entry(dtype="F4")}, "F4"),
        ({"w": entry(dtype=None)}, "description"),
        ({"w": entry(dtype="\0")}, "description"),
        ({"\u202e": entry()}, "name that is not text"),
        ({"w": entry(shape=[-2])}, "description"),
        ({"w": entry(shape=[True, 2])}, "description"),
        ({"w": entry(shape=[1] * 9)}, "description"),
        ({"w": entry(shape=[2**62, 2**62])}, "different size"),
        ({"w": entry(shape=[3])}, "different size"),
        ({"w": entry(data_offsets=[8, 0])}, "different size"),
        ({"w": entry(data_offsets=[0])}, "description"),
        ({"w": entry(data_offsets=[8, 16])}, "does not follow"),
        ({"w": entry(), "v": entry()}, "does not follow"),
        ({"w": entry(), "v": entry(data_offsets=[4, 12])}, "does not follow"),
        ({"w": entry(shape=[2**40], data_offsets=[0, 2**42])}, "incomplete"),
    ],
)
def test_hostile_headers(tmp_path: Path, header: object, word: str) -> None:
    write_raw(tmp_path, header, bytes(8))
    with pytest.raises(UserFixable, match=word):
        SafetensorsFolder.open(tmp_path)


def test_a_huge_header_length_is_refused_without_allocation(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 16)
    with pytest.raises(UserFixable, match="not a safetensors file"):
        SafetensorsFolder.open(tmp_path)


def test_empty_tensors_and_metadata_are_fine(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "none": entry(shape=[0, 4], data_offsets=[8, 8]),
        "w": entry(),
    }
    folder = SafetensorsFolder.open(write_raw(tmp_path, header, bytes(8)))
    assert folder.float32("none").shape == (0, 4)


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["pytorch_model.bin"], "old format"),
        (["model.pt"], "old format"),
        (["model.gguf"], "GGUF"),
        (["adapter_model.safetensors"], "adapter"),
        (["model-00001-of-00002.safetensors"], r"index\.json is missing"),
        (["readme.md"], "no weights"),
        ([], "no weights"),
    ],
)
def test_folders_without_readable_weights(tmp_path: Path, names: list[str], word: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UserFixable, match=word):
        SafetensorsFolder.open(tmp_path)


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserFixable, match="no weights"):
        SafetensorsFolder.open(tmp_path / "nowhere")
