"""Families without a decoder of our own: the text of transformers itself, whatever is reused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import PrefixCache
from engine.backend.sequence import SequenceState
from engine.backend.transformers_cpu import TransformersSegment, filled_model
from engine.errors import Cancelled, UserFixable
from engine.model.json_object import JsonObject
from engine.model.other_family import OtherConfig, read_other
from engine.model.weights.safetensors_folder import SafetensorsFolder
from engine.request import SamplingParams
from engine.speculative import loops
from engine.speculative.decoding import Decoding
from engine.speculative.sampler import Sampler

USUAL = {
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "stablelm": USUAL,
    "olmo2": USUAL,
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "cohere2": {**USUAL, "num_hidden_layers": 4, "sliding_window": 12},
    "mamba": {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8},
    "jamba": {**USUAL, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
    "openai-gpt": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256},
}
"""The usual block, absolute positions, windows, a recurrence, a hybrid, and no cache."""
GOES_BACK = {"stablelm", "olmo2", "gpt2", "openai-gpt"}
PROMPT = [(7 * i) % 311 + 3 for i in range(24)]


def write_other(folder: Path, family: str) -> Path:
    """A random model of the family, saved by transformers itself."""
    torch.manual_seed(3)
    ends = {"vocab_size": 320, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.AutoConfig.for_model(family, **{**FAMILIES[family], **ends})
    model: Any = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.08)
    model.save_pretrained(folder)
    return folder


def opened(folder: Path) -> Decoder:
    config = read_other(JsonObject.read(folder / "config.json"))
    weights = SafetensorsFolder.open(folder)
    segment = TransformersSegment(folder, config, weights, weights.names(), torch.float32)
    return Decoder(config, [segment])


@pytest.fixture(scope="module", params=list(FAMILIES))
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_other(tmp_path_factory.mktemp("other") / request.param, request.param)


def expected(folder: Path) -> Callable[[Sequence[int], int], list[int]]:
    """What generate() writes behind a prompt."""
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()

    def write(prompt: Sequence[int], count: int) -> list[int]:
        written = model.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=count, eos_token_id=319
        )
        ids: list[int] = written[0, len(prompt) :].tolist()
        return ids

    return write


def write(decoder: Decoder, state: SequenceState, prompt: list[int], count: int) -> list[int]:
    sampler = Sampler(SamplingParams(), len(prompt))
    decoding = Decoding(decoder, state, prompt, sampler, stop_ids=[319], max_tokens=count)
    list(decoding.prefill())
    return [token for done in loops.plain(decoding) for token in done.tokens]


def test_it_writes_what_transformers_writes_through_every_reuse(other: Path) -> None:
    """First answer, the next turn, an edit, the first question anew, the next turn again."""
    wanted, decoder = expected(other), opened(other)
    pool = PrefixCache(decoder, 200, 1 << 30)
    first = write(decoder, pool.take(PROMPT), PROMPT, 10)
    assert first == wanted(PROMPT, 10)
    longer = [*PROMPT, *first, 5, 6, 7]
    edited = [*PROMPT[:20], 99, 98, 97]
    for prompt in (longer, edited, PROMPT, longer):
        assert write(decoder, pool.take(prompt), prompt, 5) == wanted(prompt, 5)


def test_what_has_gone_by_is_kept_where_the_family_allows_it(other: Path) -> None:
    decoder = opened(other)
    state = decoder.new_state(200)
    write(decoder, state, PROMPT, 4)
    assert state.reusable(len(state)) == len(state)
    goes_back = other.name in GOES_BACK
    assert state.reusable(12) == (12 if goes_back else 0)
    with nullcontext() if goes_back else pytest.raises(ValueError, match="cannot go back"):
        decoder.new_state(200).copy_prefix(state, 12)


def test_the_kept_state_reaches_the_next_turn_untouched(other: Path) -> None:
    decoder = opened(other)
    state = decoder.new_state(200)
    longer = [*PROMPT, *write(decoder, state, PROMPT, 4), 4, 5, 6]
    assert Decoding(decoder, state, longer, Sampler(SamplingParams(), 0)).reused == 27


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_other(tmp_path_factory.mktemp("plain") / "stablelm", "stablelm")


def config_of(folder: Path) -> OtherConfig:
    return read_other(JsonObject.read(folder / "config.json"))


class _Stopped(SafetensorsFolder):
    """Weights of which the third tensor is one too many."""

    reads = 0

    def stretches(self, name: str) -> Any:
        _Stopped.reads += 1
        if _Stopped.reads > 2:
            raise Cancelled
        return super().stretches(name)


def test_loading_stops_when_told_to(plain: Path) -> None:
    weights = _Stopped.open(plain)
    with pytest.raises(Cancelled):
        filled_model(plain, config_of(plain), weights, weights.names(), torch.float32)
    assert _Stopped.reads == 3


def test_a_missing_tensor_is_told_in_words(plain: Path) -> None:
    weights = SafetensorsFolder.open(plain)
    with pytest.raises(UserFixable, match="cannot load this “stablelm” model") as refused:
        filled_model(plain, config_of(plain), weights, weights.names()[1:], torch.float32)
    assert "missing_keys" in refused.value.details


def test_weights_that_are_no_numbers_are_told_in_words(plain: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(plain, tmp_path / "model"))
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name][3, 5] = torch.nan
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    weights = SafetensorsFolder.open(folder)
    with pytest.raises(UserFixable) as refused:
        filled_model(folder, config_of(folder), weights, weights.names(), torch.float32)
    assert name in refused.value.details


def test_16_bit_weights_are_kept_as_such_when_asked(plain: Path) -> None:
    weights = SafetensorsFolder.open(plain)
    whole = TransformersSegment(plain, config_of(plain), weights, weights.names(), torch.float32)
    half = TransformersSegment(plain, config_of(plain), weights, weights.names(), torch.bfloat16)
    assert half.weight_bytes < 0.55 * whole.weight_bytes
    assert half.signature.endswith("/stablelm/bfloat16")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "no-such-family"}, "no-such-family"),
        ({"architectures": ["StableLmForSequenceClassification"]}, "SequenceClassification"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantised format"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"vocab_size": -3}, "vocab_size"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_imported(
    plain: Path, change: dict[str, object], words: str
) -> None:
    data = json.loads((plain / "config.json").read_text())
    with pytest.raises(UserFixable, match=words):
        read_other(JsonObject({**data, **change}, "config.json"))
