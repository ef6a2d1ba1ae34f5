"""Badge and speed of models that are not here, against what loading them would plan."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hollow_gguf import write_hollow_gguf
from hollow_models import LLAMA_13B, write_hollow_model

from engine.backend.cpu import native_is_built
from engine.commands import DraftChoice, Load, WeightFormat
from engine.hub.advice import Badge
from engine.hub.curated import curated
from engine.hub.messages import FoundRepository, Packaging, RemoteFile, Repository, Variant
from engine.hub.predictions import Predictions
from engine.hub.sketch import in_format, of_listed, of_variant
from engine.loading.planned_load import plan_load
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.machine.speeds import Speeds
from engine.model.families import parse_config
from engine.plan.footprint import footprint

GIB = 2**30


def machine(free: float, total: float = 16.0, vram: float = 0.0) -> Machine:
    card = Accelerator("cuda:0", "Card", Vendor.NVIDIA, int(vram * GIB), int(0.9 * vram * GIB))
    host = Host(
        cores=8,
        memory_total=int(total * GIB),
        memory_available=int(free * GIB),
        instruction_sets=("avx2",),
    )
    return Machine(host, (card,) if vram else ())


def fitting(*args: float) -> Predictions:
    return Predictions(machine(*args), Speeds({}))


def repository(
    name: str = "Q4_K_M",
    weight_bytes: int = 5 * 10**9,
    *,
    packaging: Packaging = Packaging.GGUF,
    config: str = "",
    **found: object,
) -> tuple[Repository, Variant]:
    file = RemoteFile("model.gguf", weight_bytes)
    variant = Variant(name, packaging, (file,), weight_bytes)
    about = FoundRepository(**{"repo": "someone/Some-Model-GGUF", **found})  # type: ignore[arg-type]
    return Repository(about, "0" * 40, (variant,), config=config), variant


@pytest.mark.parametrize(
    ("key", "memory", "badge"),
    [
        ("qwen3-0.6b", (12.0,), Badge.CPU),
        ("qwen3-0.6b", (12.0, 16.0, 8.0), Badge.GPU),
        ("qwen3-14b", (26.0, 32.0, 8.0), Badge.SPLIT),
        ("qwen3-14b", (9.8, 16.0), Badge.TIGHT),
        ("qwen3-14b", (4.0, 16.0), Badge.TIGHT),
        ("llama3.3-70b", (12.0,), Badge.NO),
    ],
)
def test_a_listed_model_has_a_badge(key: str, memory: tuple[float, ...], badge: Badge) -> None:
    fit = fitting(*memory).listed(curated().model(key), "Q4_K_M").fit
    assert fit.badge is badge
    assert fit.reason
    runs = badge in (Badge.CPU, Badge.GPU, Badge.SPLIT)
    if runs:
        assert fit.slowest is not None
        assert fit.fastest is not None
        assert 0 < fit.slowest < fit.fastest
    if badge is Badge.NO:
        assert "GiB" in fit.reason


def test_what_closed_programs_would_help_says_so() -> None:
    fit = fitting(4.0, 16.0).listed(curated().model("qwen3-14b"), "Q4_K_M").fit
    assert fit.reason.endswith("It would fit if other programs were closed.")


def test_a_gguf_file_is_judged_by_the_listed_model_that_it_was_made_from() -> None:
    held, variant = repository(base="Qwen/Qwen3-8B", architecture="qwen3")
    sketch = of_variant(held, variant, curated())
    assert sketch.listed is curated().model("qwen3-8b")
    assert not sketch.guessed
    assert sketch.facts.max_positions == 40960
    assert sketch.facts.footprint.weight_bytes == pytest.approx(5 * 10**9, rel=0.001)
    fit = fitting(12.0).variant(held, variant)
    alone = Predictions(machine(12.0), Speeds({}), replace(curated(), pairs=()))
    assert fit.fastest is not None
    assert fit.fastest > (alone.variant(held, variant).fastest or 0), "its draft makes it faster"


def test_a_gguf_file_that_nobody_knows_is_judged_by_its_size() -> None:
    held, variant = repository(architecture="llama", parameters=8_000_000_000)
    sketch = of_variant(replace(held, context=9000), variant, curated())
    assert sketch.guessed
    assert sketch.facts.max_positions == 9000
    assert sketch.facts.footprint.weight_bytes == pytest.approx(5 * 10**9, rel=0.001)
    assert fitting(12.0).variant(held, variant).badge is Badge.CPU
    unnamed, other = repository(name="weights", parameters=None)
    assert of_variant(unnamed, other, curated()).guessed


def test_the_config_beside_gguf_files_is_used_and_a_strange_one_is_not() -> None:
    config = json.dumps(LLAMA_13B)
    sketch = of_variant(*repository(config=config, architecture="llama"), curated())
    assert not sketch.guessed
    assert len(sketch.facts.footprint.blocks) == 40
    for strange in ('{"model_type": "gemma3", "text_config": 1}', "[]", "{", "[" * 100_000):
        held, variant = repository(config=strange, base="google/gemma-3-4b-it")
        assert of_variant(held, variant, curated()).listed is curated().model("gemma3-4b")


def test_a_family_without_a_decoder_of_ours_is_refused_in_words() -> None:
    fit = fitting(12.0).variant(*repository(architecture="mamba"))
    assert fit.badge is Badge.NO
    assert "mamba" in fit.reason
    folder = {"packaging": Packaging.SAFETENSORS, "name": "BF16"}
    strange = fitting(12.0).variant(*repository(config='{"model_type": "x"}', **folder))  # type: ignore[arg-type]
    assert (strange.badge, bool(strange.reason)) == (Badge.NO, True)
    silent = fitting(12.0).variant(*repository(config="", **folder))  # type: ignore[arg-type]
    assert "config.json" in silent.reason


def test_a_family_that_transformers_runs_is_held_in_16_bits() -> None:
    config = {
        "model_type": "stablelm", "architectures": ["StableLmForCausalLM"], "vocab_size": 50304,
        "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32,
    }  # fmt: skip
    held, variant = repository(
        "BF16", 5_600_000_000, packaging=Packaging.SAFETENSORS, config=json.dumps(config)
    )
    sketch = of_variant(held, variant, curated())
    assert sketch.facts.other_family == "stablelm"
    assert sketch.facts.footprint.weight_bytes == 5_600_000_000
    assert fitting(12.0).variant(held, variant).badge is Badge.CPU


def test_a_folder_whose_config_nobody_could_read_is_judged_as_the_listed_model() -> None:
    held, variant = repository(
        "MXFP4", 13_700_000_000, packaging=Packaging.SAFETENSORS, repo="openai/gpt-oss-20b"
    )
    sketch = of_variant(held, variant, curated())
    assert sketch.listed is curated().model("gpt-oss-20b")
    assert sketch.facts.footprint.weight_bytes == pytest.approx(variant.weight_bytes, rel=0.02)
    assert sketch.facts.footprint.format is WeightFormat.STORED


@pytest.mark.skipif(not native_is_built(), reason="without it all weights are 32-bit floats")
def test_memory_is_what_loading_the_same_files_would_plan(tmp_path: Path) -> None:
    roomy, speeds = machine(40.0, 64.0), Speeds({})
    folder = write_hollow_model(tmp_path / "13b", LLAMA_13B)
    planned = plan_load(Load(folder, draft=DraftChoice.NONE), roomy, speeds)
    held, variant = repository(
        "BF16", 26 * 10**9, packaging=Packaging.SAFETENSORS, config=json.dumps(LLAMA_13B)
    )
    ours = of_variant(held, variant, curated()).facts.footprint
    assert ours.weight_bytes == planned.inspection.target.facts.footprint.weight_bytes
    assert ours.blocks == planned.inspection.target.facts.footprint.blocks

    file = write_hollow_gguf(tmp_path / "13b.gguf", LLAMA_13B)
    planned = plan_load(Load(file, draft=DraftChoice.NONE), roomy, speeds)
    there = planned.inspection.target.facts.footprint.weight_bytes
    held, variant = repository("F16", file.stat().st_size, config=json.dumps(LLAMA_13B))
    ours = of_variant(held, variant, curated()).facts.footprint
    assert ours.weight_bytes == pytest.approx(there, rel=0.01)
    fit = Predictions(roomy, speeds).variant(held, variant)
    assert fit.slowest is not None
    assert fit.fastest is not None
    assert fit.slowest < (planned.plan.tokens_per_s or 0) < fit.fastest


@pytest.mark.parametrize("key", ["qwen3-8b", "gemma3-1b", "qwen3-30b-a3b-2507", "gpt-oss-20b"])
def test_a_block_stands_for_all_that_are_like_it(key: str) -> None:
    config = curated().model(key).config
    ours, whole = in_format(config, WeightFormat.Q4), footprint(config, WeightFormat.Q4)
    for name in ("embedding", "blocks", "head", "tied", "kv_of_blocks"):
        assert getattr(ours, name) == getattr(whole, name), name


def test_types_that_no_kernel_reads_are_held_as_floats() -> None:
    model = curated().model("qwen3-8b")
    held = of_listed(model, "IQ2_XXS", 2 * 10**9).footprint
    assert held.weight_bytes == pytest.approx(4 * model.parameters, rel=0.01)


def test_a_badge_takes_few_calls() -> None:
    """Calls are the same however busy the machine is; so many are some four milliseconds."""
    judge, everything = fitting(26.0, 32.0, 8.0), curated().models
    calls: Counter[str] = Counter()

    def each() -> None:
        for model in everything:
            judge.listed(model, "Q4_K_M")

    each()
    before = sys.getprofile()
    sys.setprofile(lambda _frame, event, _of: calls.update((event,)))
    try:
        each()
    finally:
        sys.setprofile(before)
    assert calls["call"] + calls["c_call"] < 12_000 * len(everything)


def test_a_config_without_limits_is_no_trap() -> None:
    huge = {**LLAMA_13B, "num_hidden_layers": 10**9}
    held, variant = repository(
        "BF16", 10**9, packaging=Packaging.SAFETENSORS, config=json.dumps(huge)
    )
    assert fitting(12.0).variant(held, variant).badge is Badge.NO
    with pytest.raises(Exception, match="num_hidden_layers"):
        parse_config(huge)
