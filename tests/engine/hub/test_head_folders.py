"""Draft heads in folders: recognised, read in every published layout, refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from head_folders import BLOCKS, INNER, LAYOUTS, ROWS, Arrays, change_tensors, write_head
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from tiny_models import write_model

from engine.errors import NotPossible, UserFixable
from engine.model.config import Fusion, ModelConfig
from engine.model.families import open_config
from engine.model.heads.description import DraftOnly, alone
from engine.model.heads.reading import read_head
from engine.model.json_object import JsonObject
from engine.model.local_model import LocalModel
from engine.model.other_family import OtherConfig
from engine.model.tensors import (
    EMBEDDING,
    HEAD,
    HEAD_IDS,
    borrowed_tensors,
    expected_tensors,
)
from engine.model.weights.head_weights import HeadWeights
from engine.model.weights.model_weights import ModelWeights

LAYERS = 7


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target") / "target"
    return write_model(folder, num_hidden_layers=LAYERS, tie_word_embeddings=request.param)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    """The config of a target."""
    folder = tmp_path_factory.mktemp("plain") / "target"
    return open_config(write_model(folder, num_hidden_layers=LAYERS))


def described(folder: Path) -> DraftOnly:
    config = LocalModel.inspect(folder).config
    assert isinstance(config, DraftOnly)
    return config


def test_a_head_without_a_fusion_is_of_an_unknown_kind() -> None:
    with pytest.raises(UserFixable, match="EagleSomething"):
        read_head(JsonObject({"architectures": ["EagleSomething"]}, "config.json"), ["norm.weight"])


def test_a_head_that_names_no_target_is_no_chat_model(tmp_path: Path, plain: ModelConfig) -> None:
    head = replace(described(write_head(tmp_path / "head", "dgf", plain)), target="")
    assert alone("Head", head).cause.startswith("Head is a draft head, not a model")


def with_fusion(head: DraftOnly, **changes: Any) -> DraftOnly:
    return replace(head, config=replace(head.config, fusion=replace(head.config.fusion, **changes)))


def paired(folder: Path, target: ModelConfig) -> Fusion:
    fusion = described(folder).for_target(target, "Head", "Target").fusion
    assert fusion is not None
    return fusion


@pytest.mark.release(keep=10, reason="every layout in every way")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_a_head_with_all_its_tensors(
    tmp_path: Path, target: Path, layout: str
) -> None:
    """Each canonical tensor is the stored one of its place; what is not there is the target's.

    A matrix of which it borrows some rows comes whole; loading takes the rows.
    """
    its = open_config(target)
    folder = write_head(tmp_path / "head", layout, its)
    model = LocalModel.inspect(folder)
    assert isinstance(model.config, DraftOnly)
    assert (model.kind, model.draft) == ("F32", None)
    config = model.config.for_target(its, model.name, "Target")
    source = ModelWeights.of_folder(its, target)
    tied = its.tie_word_embeddings
    weights = model.draft_weights(config, source, tied)
    stored = load_file(folder / "model.safetensors")
    assert set(weights.names()) == set(expected_tensors(config))
    for name, shape in expected_tensors(config).items():
        borrowed = name in borrowed_tensors(config)
        right = (its.vocab_size, its.hidden_size) if borrowed else shape
        assert weights.shape(name) == weights.float32(name).shape == right, name
        if borrowed:
            wanted = source.float32(EMBEDDING if tied else name)
        elif name == HEAD_IDS:
            ids = stored["d2t"] + np.arange(ROWS) if "d2t" in stored else stored[HEAD_IDS]
            wanted = ids.astype(np.float32)
        else:
            wanted = stored[place(layout, name)]
        np.testing.assert_array_equal(weights.float32(name), wanted, err_msg=name)
        if len(shape) == 2:
            read = np.concatenate([piece.copy() for piece in weights.stretches(name)])
            np.testing.assert_array_equal(read, wanted, err_msg=name)
    assert weights.nbytes == sum(weights.stored_bytes(name) for name in stored_once(weights))


def stored_once(weights: HeadWeights) -> list[str]:
    """Names without those that lie in one place."""
    names = list(weights.names())
    if weights.lent.get(HEAD) == EMBEDDING and EMBEDDING in weights.lent:
        names.remove(HEAD)
    return names


def place(layout: str, name: str) -> str:
    """Where a published folder holds a tensor."""
    if "our" in layout or layout == "dgf":
        return name
    if name.startswith("fusion."):
        return f"fc.{name.rpartition('.')[2]}"
    name = name.removeprefix("model.")
    return name if layout in ("eagle2", "speculators") else name.replace("layers.0", "midlayer")


def test_what_each_layout_says(tmp_path: Path, plain: ModelConfig) -> None:
    heads = {name: paired(write_head(tmp_path / name, name, plain), plain) for name in LAYOUTS}
    hidden = plain.hidden_size
    assert heads == {
        "dgf": Fusion("dgf", hidden),
        "our linear": Fusion("linear", hidden, bias=True),
        "our eagle3": Fusion("eagle3", hidden, (0, 2, LAYERS - 1)),
        "our reduced dgf": Fusion("dgf", hidden, own_head=True),
        "our reduced linear": Fusion("linear", hidden, bias=True, own_head=True),
        "our reduced eagle3": Fusion("eagle3", hidden, (0, 2, LAYERS - 1), own_head=True),
        "our borrowed rows": Fusion("dgf", hidden),
        "eagle2": Fusion("linear", hidden, bias=True, own_embedding=True),
        # What enters the layers 2, 7 // 2 and 7 - 3.
        "eagle3": Fusion("eagle3", hidden, (1, 2, 3), own_head=True),
        "specforge": Fusion(
            "eagle3", hidden, (1, 2, LAYERS - 1), own_embedding=True, own_head=True
        ),
        "speculators": Fusion(
            "eagle3", hidden, (1, 2, LAYERS - 1), residual_normed=True, own_head=True
        ),
    }
    reduced = {name for name in heads if described(tmp_path / name).config.rows == ROWS}
    ours = {"our borrowed rows", "our reduced dgf", "our reduced linear", "our reduced eagle3"}
    assert reduced == {"eagle3", "specforge", "speculators", *ours}


def test_the_usual_taps_are_what_enters_layers_2_16_and_29_of_32(
    tmp_path: Path, plain: ModelConfig
) -> None:
    """As EAGLE-3 for Llama-3.1-8B was trained."""
    deep = replace(plain, blocks=plain.blocks[:1] * 32)
    assert paired(write_head(tmp_path / "head", "eagle3", plain), deep).taps == (1, 15, 28)


def test_a_head_takes_what_is_the_targets(tmp_path: Path, target: Path) -> None:
    its = open_config(target)
    head = described(write_head(tmp_path / "head", "dgf", its))
    config = head.for_target(its, "Head", "Target")
    assert config.tie_word_embeddings == its.tie_word_embeddings
    assert (config.num_layers, config.head_rows) == (BLOCKS, its.vocab_size)
    assert (head.target, head.target_layers) == ("Some target", LAYERS)
    gemma = replace(its, embedding_scale=8.0, family="gemma2")
    assert head.for_target(gemma, "Head", "Target").embedding_scale == 1.0


def test_a_head_with_the_targets_vocabulary_and_no_output_matrix(
    tmp_path: Path, plain: ModelConfig
) -> None:
    folder = write_head(tmp_path / "head", "eagle3", plain, draft_vocab_size=None)
    for name in ("lm_head.weight", "d2t", "t2d"):
        change_tensors(folder, lambda tensors, name=name: tensors.pop(name))
    config = described(folder).for_target(plain, "Head", "Target")
    assert config.fusion is not None
    assert (config.rows, config.fusion.own_head) == (None, False)


@pytest.mark.parametrize("first", ["input_layernorm", "mlp.up_proj"])
def test_later_blocks_are_ordinary_ones(tmp_path: Path, plain: ModelConfig, first: str) -> None:
    folder = write_head(tmp_path / "head", "speculators", plain)
    config = json.loads((folder / "config.json").read_text())
    config["transformer_layer_config"]["num_hidden_layers"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserFixable, match=r"layers\.1"):
        LocalModel.inspect(folder)

    def deepen(tensors: Arrays) -> None:
        hidden = plain.hidden_size
        for name, tensor in list(tensors.items()):
            if name.startswith("layers.0.") and "hidden_norm" not in name:
                narrow = tensor if tensor.ndim == 1 else tensor[:, : min(tensor.shape[1], INNER)]
                if name.split(".")[-2] in ("q_proj", "k_proj", "v_proj"):
                    narrow = tensor[:, :hidden]
                tensors[name.replace("layers.0.", "layers.1.")] = np.ascontiguousarray(narrow)

    change_tensors(folder, deepen)
    head = described(folder)
    assert head.config.num_layers == 2
    assert f"model.layers.1.{first}.weight" in expected_tensors(head.config)


# -- what does not belong together -----------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "change", "words"),
    [
        ("dgf", {"hidden_size": 96}, "hidden states of 64 numbers.*have 96"),
        ("eagle3", {"vocab_size": 400}, "knows 320 tokens.*has 400"),
        ("dgf", {"blocks": 6}, "a model of 7 layers, and this one has 6"),
        ("speculators", {"blocks": 6}, "output of layer 7, and this model has 6"),
        ("eagle3", {"blocks": 4}, "at least 5 layers, and this one has 4"),
    ],
)
def test_a_head_of_another_model(
    tmp_path: Path, plain: ModelConfig, layout: str, change: dict[str, Any], words: str
) -> None:
    head = described(write_head(tmp_path / "head", layout, plain))
    if "blocks" in change:
        change = {"blocks": plain.blocks[:1] * change["blocks"]}
    with pytest.raises(NotPossible, match=words) as refused:
        head.for_target(replace(plain, **change), "Head", "Target")
    assert refused.value.cause.startswith("Head cannot draft for Target: ")
    assert ("Some target" in refused.value.remedy) == (layout != "eagle3")


def test_a_target_without_hidden_states(tmp_path: Path, plain: ModelConfig) -> None:
    head = described(write_head(tmp_path / "head", "dgf", plain))
    other = OtherConfig("stablelm", "StableLmForCausalLM", plain.vocab_size, 640, 512)
    with pytest.raises(NotPossible, match="no hidden states"):
        head.for_target(other, "Head", "Target")


def test_a_borrowed_embedding_must_fit(tmp_path: Path, plain: ModelConfig) -> None:
    folder = write_head(tmp_path / "head", "eagle3", plain)
    head = with_fusion(described(folder), target_hidden=96)
    wide = replace(plain, hidden_size=96)
    with pytest.raises(NotPossible, match="of 96 instead of 64"):
        head.for_target(wide, "Head", "Target")
    own = with_fusion(head, own_embedding=True)
    assert own.for_target(wide, "Head", "Target").hidden_size == 64


# -- broken folders --------------------------------------------------------------------------


def without(name: str) -> Callable[[Arrays], object]:
    return lambda tensors: tensors.pop(name)


def with_tensor(name: str, *shape: int) -> Callable[[Arrays], object]:
    return lambda tensors: tensors.update({name: np.ones(shape, dtype=np.float32)})


def with_ids(first: int) -> Callable[[Arrays], object]:
    def change(tensors: Arrays) -> None:
        tensors["d2t"][0] = first

    return change


@pytest.mark.parametrize(
    ("layout", "change", "words"),
    [
        ("dgf", without("fusion.gate.weight"), "fusion.gate.weight is missing"),
        ("dgf", with_tensor("model.layers.0.input_layernorm.weight", 64), "does not mention"),
        ("dgf", with_tensor("fusion.gate.weight", 64, 64), "is 64 x 64, not 64 x 128"),
        ("eagle2", without("layers.0.mlp.up_proj.weight"), "mlp.up_proj.weight is missing"),
        ("eagle3", without("d2t"), "d2t is missing"),
        ("eagle3", without("fc.weight"), "fc.weight is missing"),
        ("eagle3", without("lm_head.weight"), "lm_head.weight is missing"),
        ("eagle3", with_ids(-1), "names tokens that the model does not have"),
        ("eagle3", with_ids(320), "names tokens that the model does not have"),
        ("eagle3", with_tensor("d2t", ROWS, 1), "not 240"),
        ("eagle3", with_tensor("input_norm.weight", 192), "does not mention"),
        ("eagle3", with_tensor("fc.weight", 64, 128), "is 64 x 128, not 64 x 192"),
    ],
)
def test_broken_tensors(
    tmp_path: Path, plain: ModelConfig, layout: str, change: Callable[[Arrays], object], words: str
) -> None:
    folder = change_tensors(write_head(tmp_path / "head", layout, plain), change)
    with pytest.raises(UserFixable, match=words):
        LocalModel.inspect(folder)


def test_a_token_named_twice(tmp_path: Path, plain: ModelConfig) -> None:
    folder = write_head(tmp_path / "head", "eagle3", plain)

    def twice(tensors: Arrays) -> None:
        tensors["d2t"][1] = tensors["d2t"][0] - 1

    change_tensors(folder, twice)
    with pytest.raises(UserFixable, match="or one twice"):
        LocalModel.inspect(folder)


def test_tokens_that_are_no_numbers(tmp_path: Path, plain: ModelConfig) -> None:
    folder = write_head(tmp_path / "head", "eagle3", plain)

    def change(tensors: Arrays) -> None:
        tensors["d2t"] = np.full(ROWS, np.nan, dtype=np.float32)

    change_tensors(folder, change)
    with pytest.raises(UserFixable, match="names tokens"):
        LocalModel.inspect(folder)


@pytest.mark.parametrize(
    ("layout", "changes", "words"),
    [
        ("eagle3", {"norm_before_fc": True}, "norm_before_fc"),
        ("speculators", {"speculators_model_type": "dflash"}, "kind of draft head.*dflash"),
        ("eagle3", {"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state"),
        ("eagle3", {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}, "numbers of layers"),
        ("eagle3", {"eagle_aux_hidden_state_layer_ids": [1, "2", 3]}, "numbers of layers"),
        ("eagle3", {"eagle_aux_hidden_state_layer_ids": [1, 2]}, "not 64 x 128"),
        ("eagle3", {"model_type": "deepseek_v3"}, "its family is"),
        ("eagle3", {"model_type": "gemma2"}, "kind of draft head.*gemma2"),
        ("eagle3", {"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, "spiral"),
        ("eagle3", {"num_hidden_layers": 512}, "512 blocks"),
        ("dgf", {"duotail_head": {"fusion": "magic"}}, "one of dgf, linear, eagle3"),
        ("dgf", {"duotail_head": []}, "an object"),
        ("dgf", {"quantization_config": {"quant_method": "awq"}}, "quantised"),
    ],
)
def test_configs_that_cannot_be(
    tmp_path: Path, plain: ModelConfig, layout: str, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserFixable, match=words):
        LocalModel.inspect(write_head(tmp_path / "head", layout, plain, **changes))


@pytest.mark.parametrize("layout", ["eagle2", "eagle3"])
def test_old_weights_are_refused_with_the_way_out(
    tmp_path: Path, plain: ModelConfig, layout: str
) -> None:
    folder = write_head(tmp_path / "head", layout, plain)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserFixable, match="hidden code") as refused:
        LocalModel.inspect(folder)
    assert 'torch.load("pytorch_model.bin", weights_only=True)' in refused.value.remedy


def test_the_way_out_leads_out(tmp_path: Path, plain: ModelConfig) -> None:
    """The sentence on how to convert, done."""
    import torch
    from safetensors.torch import save_file as save_torch

    folder = write_head(tmp_path / "head", "eagle2", plain)
    file = folder / "model.safetensors"
    tensors = {name: torch.from_numpy(array) for name, array in load_file(file).items()}
    torch.save(tensors, folder / "pytorch_model.bin")
    file.unlink()
    save_torch(torch.load(folder / "pytorch_model.bin", weights_only=True), file)
    assert described(folder).kind == "linear"


def test_a_model_of_one_block_is_a_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", num_hidden_layers=1)
    assert isinstance(LocalModel.inspect(folder).config, ModelConfig)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserFixable, match="no weights"):
        LocalModel.inspect(folder)


@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_config_is_more_than_refused(
    tmp_path_factory: pytest.TempPathFactory, plain: ModelConfig, data: st.DataObject
) -> None:
    """Whatever its members are, a head is read or refused in words."""
    folder = tmp_path_factory.mktemp("any")
    layout = data.draw(st.sampled_from(list(LAYOUTS)))
    config, tensors = LAYOUTS[layout](plain)
    anything = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(max_size=5),
        st.lists(st.integers(-5, 600), max_size=4),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    )
    places = [config, *(value for value in config.values() if isinstance(value, dict))]
    chosen = data.draw(st.sampled_from(places))
    for key in data.draw(st.lists(st.sampled_from(sorted(chosen)), min_size=1, max_size=3)):
        chosen[key] = data.draw(anything)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    try:
        model = LocalModel.inspect(folder)
        if isinstance(model.config, DraftOnly):
            model.config.for_target(plain, "Head", "Target")
    except UserFixable:
        pass
