"""What can be had of a repository, told by names and sizes alone, and what is left out and why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from engine.hub.messages import Packaging, RemoteFile, Variant
from engine.hub.remote.connection import ServerObject
from engine.hub.remote.faults import Fault, HubError
from engine.hub.remote.files import Reason, in_words
from engine.hub.remote.variants import gguf_variants, quantisation, remote_files, variants_of

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
}  # fmt: skip
FOLDER = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")


def large(path: str, size: int = 1000) -> dict[str, Any]:
    sha256 = hashlib.sha256(path.encode()).hexdigest()
    return {
        "rfilename": path,
        "size": size,
        "blobId": "0" * 40,
        "lfs": {"sha256": sha256, "size": size, "pointerSize": 134},
    }


def small(path: str, size: int = 10) -> dict[str, Any]:
    return {"rfilename": path, "size": size, "blobId": "1" * 40}


def sibling(path: str, size: int | None = None) -> dict[str, Any]:
    weights = path.endswith((".gguf", ".safetensors", ".bin"))
    return large(path, size or 1000) if weights else small(path, size or 10)


def had(
    *paths: str,
    config: Mapping[str, Any] | None = LLAMA,
    model: Mapping[str, Any] | None = None,
    shards: frozenset[str] | None = None,
) -> tuple[dict[str, Variant], dict[str, Reason]]:
    files, dangerous = remote_files([sibling(path) for path in paths])
    read = None if config is None else ServerObject(config)
    variants, left_out = variants_of(files, ServerObject(model or {}), read, shards)
    reasons = {each.path: each.reason for each in (*left_out, *dangerous)}
    return {variant.name: variant for variant in variants}, reasons


# -- files -----------------------------------------------------------------------------------


def test_a_large_file_has_the_hash_of_its_content_and_a_small_one_that_of_git() -> None:
    (weights, config), left_out = remote_files([large("a.gguf", 5), small("config.json", 7)])
    assert weights == RemoteFile("a.gguf", 5, sha256=hashlib.sha256(b"a.gguf").hexdigest())
    assert config == RemoteFile("config.json", 7, git_sha1="1" * 40)
    assert left_out == ()


@pytest.mark.parametrize("path", ["../a.gguf", "/a.gguf", "a/../../b", "x\0.gguf", "C:a", None, 5])
def test_a_name_that_leads_out_condemns_all_of_it(path: object) -> None:
    with pytest.raises(HubError) as caught:
        remote_files([small("config.json"), {"rfilename": path, "size": 1, "blobId": "1" * 40}])
    assert caught.value.trouble.fault is Fault.UNSAFE


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"size": True},
        {"size": "10"},
        {"size": 1.5},
        {"size": None},
        {"size": 1 << 50},
        {"blobId": "x"},
        {"blobId": None},
        {"lfs": {"sha256": "0" * 63, "size": 10}},
        {"lfs": {"sha256": "0" * 64, "size": 11}},
        {"lfs": {"size": 10}},
    ],
)
def test_sizes_and_hashes_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HubError) as caught:
        remote_files([{**small("config.json"), **wrong}])
    assert caught.value.trouble.fault is Fault.UNREADABLE


def test_what_no_system_could_store_is_left_out() -> None:
    models, reasons = had("nul.gguf", "good-Q8_0.gguf", "aux.md")
    assert set(models) == {"Q8_0"}
    assert reasons == {"nul.gguf": Reason.CANNOT_BE_STORED}


def test_names_that_differ_in_their_case_only_are_one_file() -> None:
    files, _ = remote_files([small("README.md"), small("readme.MD", 99)])
    assert [file.path for file in files] == ["README.md"]


# -- GGUF ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Qwen3-0.6B-Q8_0.gguf", "Q8_0"),
        ("qwen2.5-7b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("llama-2-7b.Q5_K_S.gguf", "Q5_K_S"),
        ("a/Model-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("Model-IQ2_XXS.gguf", "IQ2_XXS"),
        ("Model-IQ4_NL.gguf", "IQ4_NL"),
        ("ggml-model-f16.gguf", "F16"),
        ("model.fp16.gguf", "F16"),
        ("Model-BF16-00001-of-00002.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("Q6_K/weights.gguf", "Q6_K"),
        ("Q6_K/weights-Q4_0.gguf", "Q4_0"),
        ("Model-Q4_0_4_4.gguf", "Q4_0_4_4"),
        ("F16-to-Q4_K_M.gguf", "Q4_K_M"),
        ("Model-TQ1_0.gguf", "TQ1_0"),
        ("model.gguf", None),
        ("Qwen3-Q.gguf", None),
        ("Model-XQ4_0.gguf", None),
        ("Model-Q4_KMAGIC.gguf", None),
    ],
)
def test_the_quantisation_is_in_the_name(path: str, name: str | None) -> None:
    assert quantisation(path) == name


def test_variants_are_sorted_by_size_and_named_by_what_tells_them_apart() -> None:
    files, _ = remote_files(
        [large("m-Q8_0.gguf", 800), large("m-Q4_K_M.gguf", 400), large("m.gguf", 1600)]
    )
    variants, left_out = gguf_variants(files)
    assert [(each.name, each.weight_bytes) for each in variants] == [
        ("Q4_K_M", 400),
        ("Q8_0", 800),
        ("m", 1600),
    ]
    assert {each.packaging for each in variants} == {Packaging.GGUF}
    assert left_out == ()


def test_two_models_of_one_quantisation_keep_their_own_names() -> None:
    models, _ = had("small-Q4_0.gguf", "large-Q4_0.gguf", "large-Q8_0.gguf")
    assert set(models) == {"small-Q4_0", "large-Q4_0", "Q8_0"}


def test_a_model_in_parts_and_a_whole_one_of_its_name_are_told_apart() -> None:
    models, _ = had("m.gguf", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    assert set(models) == {"m", "m'"}


def test_a_family_that_transformers_runs_can_be_had() -> None:
    other = {**LLAMA, "model_type": "stablelm", "architectures": ["StableLmForCausalLM"]}
    assert set(had(*FOLDER, config=other)[0]) == {"safetensors"}


def test_parts_belong_together_and_come_in_order() -> None:
    parts = [f"a/m-Q4_K_M-0000{n}-of-00003.gguf" for n in (2, 3, 1)]
    models, reasons = had(*parts)
    assert [file.path for file in models["Q4_K_M"].files] == sorted(parts)
    assert models["Q4_K_M"].weight_bytes == 3000
    assert reasons == {}


@pytest.mark.parametrize("numbers", [(1, 2), (2, 3), (1, 2, 4), (0, 1, 2)])
def test_a_model_with_missing_parts_is_none(numbers: tuple[int, ...]) -> None:
    models, reasons = had(*(f"m-Q4_0-0000{n}-of-00003.gguf" for n in numbers))
    assert models == {}
    assert set(reasons.values()) == {Reason.INCOMPLETE}


def test_what_lies_beside_models_in_gguf_is_left_out_with_a_reason() -> None:
    models, reasons = had(
        "Llama-3.2-Vision-Q4_K_M.gguf",
        "mmproj-model-f16.gguf",
        "imatrix_unsloth.gguf",
        "my-lora.gguf",
        "Floral-lora-merged-Q8_0.gguf",
        "ggml-vocab-llama.gguf",
        "mtp-Qwen3.6-27B-Q4_K_M.gguf",
    )
    assert set(models) == {"Q4_K_M", "Q8_0"}
    assert reasons == {
        "mmproj-model-f16.gguf": Reason.PICTURES,
        "imatrix_unsloth.gguf": Reason.STATISTICS,
        "my-lora.gguf": Reason.ADAPTER,
        "ggml-vocab-llama.gguf": Reason.NO_MODEL,
        "mtp-Qwen3.6-27B-Q4_K_M.gguf": Reason.HEAD,
    }


def test_an_mtp_head_comes_with_the_model_that_it_is_named_after() -> None:
    """That of the same quantisation, or else the smallest; it is none of the model's weights."""
    files, _ = remote_files(
        [
            large("Qwen3.6-27B-Q4_K_M.gguf", 400),
            large("Qwen3.6-27B-Q8_0.gguf", 800),
            large("Qwen3.6-2B-Q4_K_M.gguf", 40),
            large("parts/Qwen3.6-27B-BF16-00001-of-00002.gguf", 900),
            large("parts/Qwen3.6-27B-BF16-00002-of-00002.gguf", 700),
            large("mtp-Qwen3.6-27B-F16.gguf", 30),
            large("mtp/mtp-qwen3_6-27b.Q8_0.gguf", 20),
        ]
    )
    variants, left_out = gguf_variants(files)
    found = {each.files[0].path: each for each in variants}
    heads = {path: [file.path for file in each.files][1:] for path, each in found.items()}
    assert heads == {
        "Qwen3.6-2B-Q4_K_M.gguf": [],
        "Qwen3.6-27B-Q4_K_M.gguf": ["mtp/mtp-qwen3_6-27b.Q8_0.gguf"],
        "Qwen3.6-27B-Q8_0.gguf": ["mtp/mtp-qwen3_6-27b.Q8_0.gguf"],
        "parts/Qwen3.6-27B-BF16-00001-of-00002.gguf": [
            "parts/Qwen3.6-27B-BF16-00002-of-00002.gguf",
            "mtp/mtp-qwen3_6-27b.Q8_0.gguf",
        ],
    }
    model = found["Qwen3.6-27B-Q8_0.gguf"]
    assert (model.weight_bytes, model.nbytes) == (800, 820)
    assert [each.path for each in left_out] == ["mtp-Qwen3.6-27B-F16.gguf"]


def test_an_empty_file_is_no_model() -> None:
    files, _ = remote_files([large("m-Q4_0.gguf", 0)])
    variants, left_out = gguf_variants(files)
    assert (variants, left_out[0].reason) == ((), Reason.INCOMPLETE)


def test_a_family_that_cannot_run_is_said_by_its_name() -> None:
    files, _ = remote_files([large("m-Q4_0.gguf")])
    model = ServerObject({"gguf": {"architecture": "rwkv7"}})
    variants, left_out = variants_of(files, model, None, None)
    assert variants == ()
    assert "rwkv7" in in_words(left_out)[0]
    assert variants_of(files, ServerObject({"gguf": {"architecture": "qwen3"}}), None, None)[0]


# -- safetensors -----------------------------------------------------------------------------


def test_a_folder_is_fetched_with_all_that_reads_it_and_nothing_else() -> None:
    models, reasons = had(
        *FOLDER, "generation_config.json", "chat_template.jinja", "README.md", ".gitattributes",
        "special_tokens_map.json", "vocab.json", "merges.txt", "tokenizer.model", "duotail.json",
        model={"safetensors": {"parameters": {"F32": 10, "BF16": 1000}}},
    )  # fmt: skip
    (name,) = models
    variant = models[name]
    assert (name, variant.packaging, variant.weight_bytes) == ("BF16", Packaging.SAFETENSORS, 1000)
    assert [file.path for file in variant.files] == [
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "generation_config.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
    ]
    assert reasons == {}


def test_shards_are_those_of_the_index() -> None:
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    rest = ("model.safetensors.index.json", "config.json", "tokenizer.json")
    models, reasons = had(*shards, *rest, "model.safetensors", shards=frozenset(shards))
    files = [file.path for file in models["safetensors"].files]
    assert files[:3] == [*shards, "model.safetensors.index.json"]
    assert reasons == {"model.safetensors": Reason.ELSEWHERE}
    unread, _ = had(*shards, *rest)
    assert unread["safetensors"].files == models["safetensors"].files


def test_a_missing_shard_is_said() -> None:
    shards = frozenset(f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
    models, reasons = had(
        "model-00001-of-00002.safetensors", "model.safetensors.index.json", "config.json",
        "tokenizer.json", shards=shards,
    )  # fmt: skip
    assert models == {}
    assert set(reasons.values()) == {Reason.INCOMPLETE}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({**LLAMA, "torch_dtype": "bfloat16"}, "BF16"),
        ({**LLAMA, "dtype": "float16"}, "F16"),
        ({**LLAMA, "dtype": 7}, "safetensors"),
    ],
)
def test_without_counts_the_config_names_the_type(config: dict[str, Any], name: str) -> None:
    assert set(had(*FOLDER, config=config)[0]) == {name}


@pytest.mark.parametrize(
    "paths",
    [
        ("tokenizer.model",),
        ("vocab.json", "merges.txt"),
        ("qwen.tiktoken",),
        ("tokenizer.model.v3",),
    ],
)
def test_every_kind_of_tokenizer_is_fetched(paths: tuple[str, ...]) -> None:
    models, _ = had("model.safetensors", "config.json", *paths)
    assert set(paths) < {file.path for file in models["safetensors"].files}


def test_no_weights_without_what_reads_them() -> None:
    assert had("model.safetensors", "config.json")[1] == {"model.safetensors": Reason.NO_TOKENIZER}
    assert had("model.safetensors", "tokenizer.json", config=None)[1] == {
        "model.safetensors": Reason.NO_CONFIG
    }
    unread = had("model.safetensors", "config.json", config=None)
    assert unread[1] == {"model.safetensors": Reason.NO_TOKENIZER}
    assert had("adapter_model.safetensors", "adapter_config.json", config=None)[1] == {
        "adapter_model.safetensors": Reason.ADAPTER
    }
    assert had(*FOLDER, "sub/model.safetensors")[1] == {"sub/model.safetensors": Reason.ELSEWHERE}


def test_a_draft_head_needs_no_tokenizer() -> None:
    head = {**LLAMA, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    assert had("model.safetensors", "config.json", config=head)[0]


def test_programs_and_old_formats_are_never_fetched() -> None:
    other = ("pytorch_model.bin", "consolidated.00.pth", "modeling_x.py", "run.sh", "model.onnx")
    models, reasons = had(*FOLDER, *other)
    assert {file.path for file in models["safetensors"].files} == set(FOLDER)
    assert reasons == {
        "pytorch_model.bin": Reason.RUNS_CODE,
        "consolidated.00.pth": Reason.RUNS_CODE,
        "model.onnx": Reason.OTHER_FORMAT,
    }
    assert had("pytorch_model.bin", "config.json", "tokenizer.json")[0] == {}


def test_a_model_that_needs_a_program_of_its_own_is_told_as_that() -> None:
    remote = {"model_type": "strange", "architectures": ["StrangeLM"],
              "auto_map": {"AutoModelForCausalLM": "modeling_strange.StrangeLM"}}  # fmt: skip
    assert had(*FOLDER, "modeling_strange.py", config=remote)[1] == {
        "model.safetensors": Reason.REMOTE_CODE
    }
    ours = {**LLAMA, "auto_map": {"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"}}
    assert had(*FOLDER, config=ours)[0]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "strange", "architectures": ["StrangeLM"]},
        {**LLAMA, "quantization_config": {"quant_method": "gptq"}},
        {**LLAMA, "hidden_size": -5},
        {**LLAMA, "num_hidden_layers": "many"},
    ],
)
def test_a_config_that_the_engine_refuses_makes_no_variant(config: dict[str, Any]) -> None:
    models, reasons = had(*FOLDER, config=config)
    assert (models, reasons) == ({}, {"model.safetensors": Reason.UNKNOWN_MODEL})


def test_an_unread_config_leaves_the_judgement_for_later() -> None:
    assert had(*FOLDER, config=None)[0]


def test_a_repository_may_have_both_packagings() -> None:
    models, _ = had(*FOLDER, "m-Q4_0.gguf")
    assert {each.packaging for each in models.values()} == set(Packaging)


def test_reasons_are_gathered_into_a_line_each() -> None:
    files, dangerous = remote_files([sibling(f"pytorch_model-{n}.bin") for n in range(9)])
    assert files == ()
    (line,) = in_words(dangerous)
    assert line.startswith("pytorch_model-0.bin, pytorch_model-1.bin, pytorch_model-2.bin and 6 ")
    assert "hidden code" in line
    for reason in Reason:
        assert "{files}" in reason.value
        json.dumps(reason.value)
