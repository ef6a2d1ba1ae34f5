"""Canonical tensors out of what files hold: fused, stacked, turned, quantised, in both kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tiny_models import SHAPE, decoder, write_model, write_mxfp4_model

from engine.errors import UserFixable
from engine.model.config import Experts, ModelConfig
from engine.model.families import open_config, parse_config
from engine.model.gguf.file import open_gguf
from engine.model.tensors import expected_tensors
from engine.model.weights import reader
from engine.model.weights.model_weights import ModelWeights, layout
from engine.model.weights.reader import TensorReader, widened

Arrays = dict[str, NDArray[Any]]
ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "gpt_oss": gguf.MODEL_ARCH.GPT_OSS,
}
IN_PAIRS = ("llama", "smollm3")


def model(folder: Path, family: str, **shape: Any) -> tuple[ModelConfig, Arrays]:
    """A random model and its tensors as transformers stores them."""
    tied = {"tie_word_embeddings": family.startswith("gemma")}
    write_model(folder, family, **{**tied, **shape})
    return open_config(folder), load_file(folder / "model.safetensors")


def as_llama_cpp_stores(config: ModelConfig, tensors: Mapping[str, NDArray[Any]]) -> Arrays:
    """What its converter makes of Hugging Face's tensors, by the package's own table of names."""
    table = gguf.get_tensor_name_map(ARCHITECTURES[config.family], config.num_layers)
    result: Arrays = {}
    for name, tensor in _with_experts_apart(config, tensors).items():
        if config.family in IN_PAIRS and ("q_proj" in name or "k_proj" in name):
            halves = tensor.reshape(-1, 2, config.typical.head_dim // 2, *tensor.shape[1:])
            tensor = halves.swapaxes(1, 2).reshape(tensor.shape)  # noqa: PLW2901
        if config.family.startswith("gemma") and name.endswith("norm.weight"):
            tensor = tensor + 1  # noqa: PLW2901
        name = name if name.endswith(("weight", "bias")) else f"{name}.weight"  # noqa: PLW2901
        found = table.get_name(name, (".weight", ".bias"))
        assert found is not None, name
        result[found] = tensor
    return result


def _with_experts_apart(config: ModelConfig, tensors: Mapping[str, NDArray[Any]]) -> Arrays:
    """gpt-oss's gate and up apart, in rows; Qwen3's experts in one tensor each."""
    result: Arrays = {}
    stacks: dict[str, list[NDArray[Any]]] = {}
    for name in sorted(
        tensors, key=lambda name: [int(w) if w.isdigit() else -1 for w in name.split(".")]
    ):
        tensor, (head, _, tail) = tensors[name], name.partition(".mlp.experts.")
        if config.family == "gpt_oss" and tail:
            which, bias = tail.removesuffix("_bias"), tail.endswith("_bias")
            rows = tensor if bias else tensor.swapaxes(1, 2)
            ending = "bias" if bias else "weight"
            parts = {"down_proj": rows}
            if which == "gate_up_proj":
                parts = {"gate_proj": rows[:, ::2], "up_proj": rows[:, 1::2]}
            result |= {f"{head}.mlp.experts.{n}.{ending}": v for n, v in parts.items()}
        elif tail:
            stacks.setdefault(f"{head}.mlp.experts.{tail.partition('.')[2]}", []).append(tensor)
        else:
            result[name] = tensor
    return result | {name: np.stack(parts) for name, parts in stacks.items()}


def write_gguf(path: Path, tensors: Mapping[str, NDArray[Any]]) -> TensorReader:
    writer = gguf.GGUFWriter(path, "llama")
    for name, tensor in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(tensor))
    finish(writer)
    return open_gguf(path).reader()


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("family", list(ARCHITECTURES))
def test_both_kinds_of_files_give_the_same_tensors(tmp_path: Path, family: str) -> None:
    config, tensors = model(tmp_path, family, **BIASES.get(family, {}))
    ours = ModelWeights.of_folder(config, tmp_path)
    file = write_gguf(tmp_path / "model.gguf", as_llama_cpp_stores(config, tensors))
    theirs = ModelWeights.open(config, file, "gguf")
    assert set(ours.names()) == set(theirs.names()) == set(expected_tensors(config))
    for name, shape in expected_tensors(config).items():
        values = ours.float32(name, check_finite=True)
        assert ours.shape(name) == theirs.shape(name) == values.shape == shape
        np.testing.assert_array_equal(values, theirs.float32(name), err_msg=name)
    assert ours.nbytes == theirs.nbytes == sum(tensor.nbytes for tensor in tensors.values())
    for weights in (ours, theirs):
        assert sum(weights.stored_bytes(name) for name in weights.names()) == weights.nbytes


BIASES: dict[str, dict[str, Any]] = {"llama": {"attention_bias": True, "mlp_bias": True}}


@pytest.mark.parametrize("family", ["phi3", "qwen3_moe", "gpt_oss", "smollm3"])
def test_stretches_are_the_matrix(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces that are multiples of 16 rows, whatever a row's place in the file is."""
    monkeypatch.setattr(reader, "STRETCH_BYTES", 4096)
    shape = {"head_dim": 24} if family == "smollm3" else {}
    config, tensors = model(tmp_path, family, **shape)
    file = write_gguf(tmp_path / "model.gguf", as_llama_cpp_stores(config, tensors))
    apart = [ModelWeights.of_folder(config, tmp_path), ModelWeights.open(config, file, "gguf")]
    longest = 0
    for weights in apart:
        for name in weights.names():
            if len(weights.shape(name)) == 1:
                continue
            pieces = [piece.copy() for piece in weights.stretches(name)]
            assert all(len(piece) % 16 == 0 for piece in pieces[:-1])
            assert all(piece.flags["C_CONTIGUOUS"] for piece in weights.stretches(name))
            longest = max(longest, len(pieces))
            whole = widened(np.concatenate(pieces), weights.kind(name))
            np.testing.assert_array_equal(whole, weights.float32(name), err_msg=name)
    assert longest > 2


def test_quantised_rows_of_heads_are_put_in_order(tmp_path: Path) -> None:
    """In ggml's blocks, as they are: nothing is widened on the way."""
    config, tensors = model(tmp_path, "llama")
    stored = as_llama_cpp_stores(config, tensors)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for name, tensor in stored.items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, tensor)
    finish(writer)
    file = open_gguf(tmp_path / "model.gguf").reader(("Q8_0",))
    weights = ModelWeights.open(config, file, "gguf")
    for which in "qk":
        name = f"model.layers.1.self_attn.{which}_proj.weight"
        (stretch,) = weights.stretches(name)
        assert (weights.kind(name), stretch.dtype) == ("Q8_0", np.uint8)
        rounded = gguf.quants.dequantize(gguf.quants.quantize(tensors[name], kind), kind)
        np.testing.assert_array_equal(weights.float32(name), rounded)


def test_stacked_experts_are_read_like_single_ones(tmp_path: Path) -> None:
    config, tensors = model(tmp_path, "qwen3_moe")
    apart = ModelWeights.of_folder(config, tmp_path)
    stacked: Arrays = {}
    for name, tensor in tensors.items():
        if ".experts." not in name:
            stacked[name] = tensor
    for block in range(config.num_layers):
        place = f"model.layers.{block}.mlp.experts."
        one = [
            {
                which: tensors[f"{place}{expert}.{which}_proj.weight"]
                for which in ("gate", "up", "down")
            }
            for expert in range(6)
        ]
        pairs = [np.concatenate((expert["gate"], expert["up"])) for expert in one]
        stacked[f"{place}gate_up_proj"] = np.stack(pairs)
        stacked[f"{place}down_proj"] = np.stack([expert["down"] for expert in one])
    other = tmp_path / "stacked"
    other.mkdir()
    save_file(stacked, other / "model.safetensors")
    together = ModelWeights.of_folder(config, other)
    for name in together.names():
        np.testing.assert_array_equal(together.float32(name), apart.float32(name))


def quantised(folder: Path) -> tuple[ModelConfig, Arrays]:
    """gpt-oss with its experts in MXFP4, and its tensors."""
    write_mxfp4_model(folder)
    return open_config(folder), load_file(folder / "model.safetensors")


def test_mxfp4_experts_become_the_blocks_of_ggml(tmp_path: Path) -> None:
    from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

    config, tensors = quantised(tmp_path)
    weights = ModelWeights.of_folder(config, tmp_path)
    for name in ("gate", "up", "down"):
        fused = "model.layers.1.mlp.experts." + ("down_proj" if name == "down" else "gate_up_proj")
        blocks, scales = (torch.from_numpy(tensors[f"{fused}_{p}"]) for p in ("blocks", "scales"))
        values = _convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).numpy()
        for expert in range(5):
            columns = values[expert] if name == "down" else values[expert][:, name == "up" :: 2]
            found = f"model.layers.1.mlp.experts.{expert}.{name}_proj.weight"
            assert weights.kind(found) == "MXFP4"
            (stretch,) = weights.stretches(found)
            assert stretch.shape == (columns.shape[1], columns.shape[0] // 32 * 17)
            np.testing.assert_array_equal(weights.float32(found), columns.T)
    assert sum(weights.stored_bytes(name) for name in weights.names()) == weights.nbytes
    state = (ours := decoder(tmp_path)).new_state(64)
    assert np.isfinite(ours.forward(state, [3, 4, 5]).logits).all()


@pytest.mark.parametrize("family", ["gemma3", "mistral3"])
@pytest.mark.parametrize("names", ["published", "transformers 5"])
def test_the_text_part_of_a_model_that_sees_pictures_is_run(
    tmp_path: Path, family: str, names: str
) -> None:
    import transformers

    text = {**SHAPE, "head_dim": 16, "pad_token_id": None, "sliding_window": 20}
    text["model_type"] = "gemma3_text" if family == "gemma3" else "mistral"
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
              "num_attention_heads": 2, "image_size": 28, "patch_size": 14}  # fmt: skip
    shape: dict[str, Any] = {"text_config": text, "vision_config": vision, "image_token_index": 5}
    torch.manual_seed(0)
    whole: Any = transformers.AutoModelForImageTextToText.from_config(
        transformers.AutoConfig.for_model(family, tie_word_embeddings=True, **shape)
    ).eval()
    whole.save_pretrained(tmp_path)
    if names == "transformers 5":
        file = tmp_path / "model.safetensors"
        tensors = load_file(file)
        save_file({_new_name(name): value for name, value in tensors.items()}, file)
    tokens = [9, 8, 7, 6] * 10
    with torch.no_grad():
        expected = whole(torch.tensor([tokens])).logits[0].numpy()
    ours = decoder(tmp_path)
    got = ours.forward(ours.new_state(64), tokens).logits
    np.testing.assert_allclose(got, expected, atol=1e-4, rtol=1e-4)


def _new_name(name: str) -> str:
    if name.startswith("language_model.model."):
        return name.replace("language_model.model.", "model.language_model.", 1)
    return f"model.{name}"


@pytest.mark.parametrize(
    ("family", "change", "word"),
    [
        (
            "phi3",
            {"model.layers.0.self_attn.qkv_proj.weight": None},
            r"qkv_proj\.weight is missing",
        ),
        ("phi3", {"model.layers.1.mlp.gate_up_proj.weight": (112, 64)}, "112 x 64, not 224 x 64"),
        ("phi3", {"model.layers.1.mlp.up_proj.weight": (112, 64)}, "does not mention"),
        ("gemma2", {"model.layers.0.post_feedforward_layernorm.weight": None}, "is missing"),
        ("gemma2", {"lm_head.weight": (320, 64)}, "lm_head"),
        ("gemma2", {"lm_head.weight": (300, 64)}, "lm_head"),
        ("gpt_oss", {"model.layers.0.self_attn.sinks": (3,)}, "3, not 4"),
        ("gpt_oss", {"model.layers.0.mlp.experts.down_proj": None}, "down_proj_blocks is missing"),
        ("gpt_oss", {"model.layers.0.mlp.experts.down_proj": (5, 64, 32)}, "5 x 64 x 32, not 5"),
        ("qwen3_moe", {"model.layers.2.mlp.experts.5.up_proj.weight": None}, "is missing"),
        ("qwen3", {"vision_tower.weight": (2,)}, "vision_tower"),
    ],
)
def test_weights_that_do_not_fit(
    tmp_path: Path, family: str, change: dict[str, tuple[int, ...] | None], word: str
) -> None:
    config, tensors = model(tmp_path, family)
    for name, shape in change.items():
        if shape is None:
            del tensors[name]
        else:
            tensors[name] = np.ones(shape, dtype=np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserFixable, match=word):
        ModelWeights.of_folder(config, tmp_path)


def test_blocks_of_bytes_must_be_bytes(tmp_path: Path) -> None:
    config, tensors = quantised(tmp_path)
    name = "model.layers.0.mlp.experts.down_proj_scales"
    tensors[name] = tensors[name].astype(np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserFixable, match="cannot be read"):
        ModelWeights.of_folder(config, tmp_path)


def test_rows_must_divide_into_blocks(tmp_path: Path) -> None:
    write_mxfp4_model(tmp_path, intermediate_size=40)
    with pytest.raises(UserFixable, match="down_proj_blocks cannot be read"):
        ModelWeights.of_folder(open_config(tmp_path), tmp_path)


def test_hostile_counts_of_experts_cost_nothing() -> None:
    config = parse_config({"model_type": "qwen3_moe"})
    experts = Experts(1 << 12, 1, 1 << 18, normalise=True)
    hostile = replace(config, blocks=(replace(config.typical, experts=experts),) * 512)
    stored = {f"tensor.{index}": (1,) for index in range(600)}
    with pytest.raises(UserFixable, match="2097152 experts"):
        layout(hostile, stored, "safetensors")
