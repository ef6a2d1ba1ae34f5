"""Every dense family on a WebGPU adapter: the native backend's numbers, from the same weights.

With weights in floats only the order of sums differs: 2e-4 of the logits' norm are declared.
Products of quantised weights round activations to the same 8 bits and are exact in integers, so
most rows are within 1e-6; where the last bit of a sum turns a rounding, that row and those that see
its keys move by up to 3e-2, which is declared for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from comparing import apart
from native_models import native_decoder
from on_adapter import on_adapter, shared_device
from stored_models import Stored, stored_config
from test_native_families import TOKENS
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.webgpu.served import MOST_EXPERTS
from engine.commands import WeightFormat
from engine.errors import NotPossible

FLOATS, TURNED, SAME = 2e-4, 3e-2, 1e-5
"""Declared, of the logits' norm: with floats, where a rounding turned, where none did."""

CASES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"hidden_size": 72, "intermediate_size": 90, "vocab_size": 323}),
    ("qwen2", {"tie_word_embeddings": True}),
    ("qwen3", {}),
    ("gemma2", {}),
    ("gemma3_text", {"tie_word_embeddings": True}),
    ("mistral", {}),
    ("phi3", {"partial_rotary_factor": 0.5}),
    ("smollm3", {"num_hidden_layers": 4}),
    ("gemma2", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "head_dim": 256}),
]
FORMATS = {
    WeightFormat.F32: Format.F32,
    WeightFormat.BF16: Format.BF16,
    WeightFormat.Q8: Format.Q8,
    WeightFormat.Q4: Format.Q4,
}


def compare(ours: Decoder, theirs: Decoder, tolerance: float) -> None:
    expected = theirs.forward(theirs.new_state(640), TOKENS, taps=(0,))
    got = ours.forward(ours.new_state(640), TOKENS, taps=(0,))
    for one, other in (
        (got.logits, expected.logits),
        (got.hidden, expected.hidden),
        (got.taps[0], expected.taps[0]),
    ):
        assert apart(one, other) < tolerance


@pytest.mark.release(keep=4, reason="every family")
@pytest.mark.parametrize(("family", "shape"), CASES, ids=[f"{f} {s}" for f, s in CASES])
def test_a_family_is_what_the_cpu_computes(
    tmp_path: Path, family: str, shape: dict[str, Any]
) -> None:
    folder = write_model(tmp_path, family, **shape)
    compare(on_adapter(folder, WeightFormat.F32), native_decoder(folder, Format.F32), FLOATS)
    compare(on_adapter(folder, WeightFormat.Q8), native_decoder(folder, Format.Q8), TURNED)


@pytest.mark.release(keep=2, reason="every format")
@pytest.mark.parametrize("fmt", FORMATS)
def test_a_format_is_what_the_cpu_computes(tmp_path: Path, fmt: WeightFormat) -> None:
    folder = write_model(tmp_path)
    ours = on_adapter(folder, fmt)
    compare(ours, native_decoder(folder, FORMATS[fmt]), TURNED)
    assert ours.signature == f"webgpu:{FORMATS[fmt].name.lower()}/kv-f16"


@pytest.mark.release(keep=1, reason="compiles a shader for each format")
@pytest.mark.parametrize("some", [0, 1], ids=["8 formats", "the others"])
def test_matrices_of_stored_formats(some: int) -> None:
    """Each matrix in another of ggml's formats, at the file's own size."""
    config, weights = stored_config(), Stored(stored_config(), some)
    backend = shared_device().backend(WeightFormat.STORED, "target")
    ours = Decoder.build(config, weights, backend)
    theirs = Decoder.build(config, weights, NativeBackend(None))
    compare(ours, theirs, TURNED)
    assert ours.weight_bytes <= 1.05 * theirs.weight_bytes


@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_a_mixture_is_what_the_cpu_computes(tmp_path: Path, family: str) -> None:
    folder = write_model(tmp_path, family)
    compare(on_adapter(folder, WeightFormat.F32), native_decoder(folder, Format.F32), FLOATS)


def test_more_experts_than_the_shaders_take_are_refused_in_words(tmp_path: Path) -> None:
    folder = write_model(tmp_path, "qwen3_moe", num_experts=MOST_EXPERTS + 1)
    with pytest.raises(NotPossible, match="not made for its sizes"):
        on_adapter(folder, WeightFormat.Q8)
