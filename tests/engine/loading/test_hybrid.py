"""Qwen3.5 from files to text: safetensors and GGUF, transformers' tokens, words for bad files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_session import Session, answer_of, generate, user
from gguf import GGMLQuantizationType
from hybrid_models import (
    EXPERTS,
    UNLIKE,
    apart,
    reference_logits,
    with_stacked_experts,
    write_hybrid,
    write_hybrid_gguf,
)
from native_models import native_decoder
from safetensors.torch import load_file, save_file
from tiny_models import reference, write_chat_model

from engine.backend.decoder import Decoder
from engine.backend.ledger import Account, Ledger
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.bench.recipes import tensor_kinds
from engine.bench.shapes import shape
from engine.commands import DraftChoice, Mode, Stop, WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.events import Finished, FinishReason, PrefillProgress, RoundFinished
from engine.loading.inspected_model import own_model
from engine.model.families import open_config
from engine.model.local_model import LocalModel
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.random_weights import RandomWeights
from engine.plan.footprint import footprint
from engine.request import SamplingParams
from engine.session.answer import read
from engine.speculative.decoding import OPENING

TOKENS = np.random.default_rng(2).integers(3, 320, 75).tolist()
QUESTION = "Tell me a story about a fox, a fox and a fox."
GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hybrid(tmp_path_factory.mktemp("hybrid"))


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that talks, its weights exact in 16 bits."""
    folder = tmp_path_factory.mktemp("chat")
    return write_chat_model(folder, "qwen3_5_text", **UNLIKE, dtype=torch.bfloat16)


def of_gguf(file: Path) -> Decoder:
    config, weights, _ = own_model(LocalModel.inspect(file), WeightFormat.AUTO)
    return Decoder.build(config, weights, NativeBackend(None))


def logits(model: Decoder) -> Any:
    return model.forward(model.new_state(640), TOKENS).logits


# ---- GGUF ----------------------------------------------------------------------------------------


def test_gguf_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf")
    assert apart(logits(of_gguf(file)), reference_logits(folder, TOKENS)) < 1e-4


@pytest.mark.parametrize("step", ["plus one", "rate", "tiled"])
def test_a_step_of_the_converter_matters(folder: Path, tmp_path: Path, step: str) -> None:
    """So the test above fails where reading misses one."""
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf", leave_out=[step])
    assert not apart(logits(of_gguf(file)), reference_logits(folder, TOKENS)) < 0.05


def test_value_heads_may_be_as_many_as_key_heads(tmp_path: Path) -> None:
    same = write_hybrid(tmp_path / "same", linear_num_key_heads=3, linear_num_value_heads=3)
    file = write_hybrid_gguf(same, tmp_path / "m.gguf")
    assert apart(logits(of_gguf(file)), reference_logits(same, TOKENS)) < 1e-4


def test_the_block_of_a_head_is_none_of_the_models(folder: Path, tmp_path: Path) -> None:
    more = {"block_count": 6, "nextn_predict_layers": 1}
    more["attention.recurrent_layers"] = [True, True, False, True, False, False]
    head = ["blk.5.nextn.enorm.weight", "blk.5.attn_norm.weight"]
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf", more=more, head=head)
    assert apart(logits(of_gguf(file)), reference_logits(folder, TOKENS)) < 1e-4


def test_experts_in_gguf_are_the_same_model(tmp_path: Path) -> None:
    mixture = write_hybrid(tmp_path / "mixture", **EXPERTS)
    file = write_hybrid_gguf(mixture, tmp_path / "m.gguf")
    assert apart(logits(of_gguf(file)), reference_logits(mixture, TOKENS)) < 1e-4


def test_experts_as_they_are_published_are_the_same_model(tmp_path: Path) -> None:
    mixture = write_hybrid(tmp_path / "mixture", **EXPERTS)
    stacked = with_stacked_experts(mixture, tmp_path / "stacked")
    one, other = (logits(native_decoder(each, Format.F32)) for each in (mixture, stacked))
    assert np.array_equal(one, other)


def test_a_shared_expert_of_another_size_is_told(tmp_path: Path) -> None:
    mixture = write_hybrid(tmp_path, **EXPERTS | {"shared_expert_intermediate_size": 48})
    with pytest.raises(UserFixable, match="shared expert"):
        open_config(mixture)


def test_every_fourth_block_attends_where_the_file_says_no_more(tmp_path: Path) -> None:
    usual = write_hybrid(tmp_path / "usual", num_hidden_layers=5, layer_types=None)
    more = {"attention.recurrent_layers": None, "full_attention_interval": 4}
    file = write_hybrid_gguf(usual, tmp_path / "m.gguf", more=more)
    assert apart(logits(of_gguf(file)), reference_logits(usual, TOKENS)) < 1e-4


def test_quantised_files_are_held_as_they_are(folder: Path, tmp_path: Path) -> None:
    kind = GGMLQuantizationType.Q8_0
    model = of_gguf(write_hybrid_gguf(folder, tmp_path / "m.gguf", kind=kind))
    assert "q8" in model.signature
    expected = reference_logits(folder, TOKENS)
    rows = [apart(got[None], row[None]) for got, row in zip(logits(model), expected, strict=True)]
    assert 0.01 < np.median(rows) < 0.2


# ---- safetensors ---------------------------------------------------------------------------------


def test_the_text_of_a_model_that_sees_pictures_is_the_same(folder: Path, tmp_path: Path) -> None:
    """As published: a text part in `text_config`, names with a prefix, pictures and head beside."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    whole = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": {**config, "architectures": None},
        "vision_config": {"model_type": "qwen3_5_vision"},
        "tie_word_embeddings": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    tensors = {
        name.replace("model.", "model.language_model.", 1): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    tensors["model.visual.patch_embed.proj.weight"] = torch.zeros(4)
    save_file(tensors, tmp_path / "model.safetensors")
    one, other = (logits(native_decoder(each, Format.F32)) for each in (folder, tmp_path))
    assert np.array_equal(one, other)


def changed(folder: Path, to: Path, **members: Any) -> Path:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    to.mkdir(exist_ok=True)
    (to / "config.json").write_text(json.dumps(config | members), encoding="utf-8")
    return to


def without_states(folder: Path, to: Path) -> Path:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.linear_attn.A_log"]
    save_file(tensors, changed(folder, to) / "model.safetensors")
    return to


Spoil = Callable[[Path, Path], Path]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f, t: changed(f, t, linear_num_value_heads=5), "multiple of linear_num_key_heads"),
        (lambda f, t: changed(f, t, linear_key_head_dim=4096), "linear_key_head_dim"),
        (lambda f, t: changed(f, t, linear_conv_kernel_dim=64), "linear_conv_kernel_dim"),
        (lambda f, t: changed(f, t, layer_types=["mamba"] * 5), "blocks of the kind “mamba”"),
        (lambda f, t: changed(f, t, layer_types=["linear_attention"]), "each of the 5 blocks"),
        (without_states, "model.layers.1.linear_attn.A_log is missing"),
    ],
    ids=["heads", "head dim", "convolution", "kind", "count", "tensor"],
)
def test_what_cannot_be_right_is_said(
    folder: Path, tmp_path: Path, spoil: Spoil, words: str
) -> None:
    spoilt = spoil(folder, tmp_path / "spoilt")
    with pytest.raises(UserFixable) as caught:
        ModelWeights.of_folder(open_config(spoilt), spoilt)
    assert words in caught.value.cause


def test_the_portable_floats_do_not_serve_it(chat: Path) -> None:
    with pytest.raises(NotPossible, match="recurrent states"):
        own_model(LocalModel.inspect(chat), WeightFormat.F32)


@pytest.mark.parametrize("name", ["qwen3.5-0.8b", "qwen3.5-4b"])
def test_memory_is_what_was_planned(name: str) -> None:
    """Of two of the published shapes' blocks of each kind."""
    whole = shape(name)
    config = replace(whole, blocks=whole.blocks[2:4] * 2, vocab_size=4096)
    ledger = Ledger("cpu", "Memory")
    weights = RandomWeights(config, tensor_kinds(config, "q4_0"))
    backend = NativeBackend(Format.Q4, account=Account(ledger, "target"))
    model = Decoder.build(config, weights, backend)
    state = model.new_state(2000)
    planned = footprint(config, WeightFormat.Q4)
    assert state.nbytes == planned.kv_bytes(2000, range(4))
    assert model.weight_bytes == pytest.approx(planned.weight_bytes, rel=0.01)


# ---- text ----------------------------------------------------------------------------------------


def test_answers_are_those_of_transformers(session: Session, chat: Path) -> None:
    """Plain, with lookup drafts and with the model itself as draft, whose tokens are accepted."""
    answers = []
    for mode, draft in (
        (Mode.PLAIN, DraftChoice.NONE),
        (Mode.CPU, DraftChoice.LOOKUP),
        (Mode.CPU, chat),
    ):
        session.load(chat, mode=mode, draft=draft, weights=WeightFormat.BF16)
        answers.append(session.ask(QUESTION, sampling=GREEDY, max_tokens=40).token_ids)
    accepted = [round_.accepted for round_ in session.of(RoundFinished)]
    assert sum(accepted) > 10
    pair = session.engine._slot.pair
    assert pair is not None
    prompt = list(read(generate(QUESTION).request, pair.template, pair.tokenizer).ids)
    model: Any = reference(chat)
    with torch.no_grad():
        found = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False)
    expected = found[0, len(prompt) :].tolist()
    assert [list(answer) for answer in answers] == [expected] * 3


def read_anew(finished: Finished) -> int:
    """Tokens of the prompt that were not known any more."""
    return finished.stats.prompt_tokens - finished.stats.reused_tokens


def test_a_turn_reads_what_is_new(session: Session, chat: Path) -> None:
    """The next turn, the same again, another question in its place; and the text of a new start."""
    session.load(chat, mode=Mode.PLAIN, draft=DraftChoice.NONE)
    long = QUESTION * 12
    wishes: Any = {"sampling": GREEDY, "max_tokens": 30}
    first = session.ask(long, **wishes)
    assert read_anew(first) == first.stats.prompt_tokens > 150
    again = session.ask(long, id="b", **wishes)
    assert again.token_ids == first.token_ids
    assert read_anew(again) < 64 + OPENING
    turn = (user(long), answer_of(first))
    second = session.ask(*turn, "And then?", id="c", **wishes)
    assert read_anew(second) < 40
    edited = session.ask(*turn, "But why?", id="d", **wishes)
    assert read_anew(edited) < 64 + 40
    session.load(chat, mode=Mode.PLAIN, draft=DraftChoice.NONE, context=600)
    assert session.ask(*turn, "But why?", id="e", **wishes).token_ids == edited.token_ids
    assert session.ask(*turn, "And then?", id="f", **wishes).token_ids == second.token_ids


def test_a_prompt_that_was_stopped_half_way_goes_on_from_there(
    session: Session, chat: Path
) -> None:
    session.load(chat, mode=Mode.CPU, draft=DraftChoice.LOOKUP)
    long = QUESTION * 38
    with session.holding(PrefillProgress, lambda event: event.done >= 200) as hold:
        session.submit(generate(long, id="stopped"))
        hold.reached()
        session.submit(Stop("stopped"))
    stopped = session.wait(Finished)
    assert stopped.reason is FinishReason.STOPPED
    wishes: Any = {"sampling": GREEDY, "max_tokens": 20}
    again = session.ask(long, id="again", **wishes)
    assert 200 <= again.stats.reused_tokens < again.stats.prompt_tokens - 100
    session.load(chat, mode=Mode.PLAIN, draft=DraftChoice.NONE, context=600)
    assert session.ask(long, id="anew", **wishes).token_ids == again.token_ids
