"""A small model that others have trained: 260 thousand weights, 512 tokens, no chat template."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_session import Session
from folder_models import FOLDER_STORIES
from gguf_models import Kind, write_gguf
from tiny_models import reference

from engine.backend.cpu import CpuDevice
from engine.backend.decoder import Decoder
from engine.backend.torch_cpu.tiles import pin_to_one_thread
from engine.commands import DraftChoice, WeightFormat
from engine.loading.inspected_model import own_model
from engine.model.local_model import LocalModel
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.loops import plain
from engine.speculative.sampler import Sampler

OPENINGS = ("Once upon a time", "Lily and Tim went to the park. They", "One day, a big dog")
QUESTION = "Once upon a time there was a girl named Lily. She had a dog."
SAMPLINGS = {"greedy": SamplingParams(), "seeded": SamplingParams(temperature=0.9, seed=5)}


@pytest.fixture(scope="module")
def in_gguf(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stories")
    kinds = {"F32": Kind.F32, "Q8_0": Kind.Q8_0, "Q4_0": Kind.Q4_0}
    return {
        name: write_gguf(FOLDER_STORIES, folder / f"{name}.gguf", kinds[name]) for name in kinds
    }


@pytest.fixture(scope="module")
def written() -> dict[str, list[int]]:
    """What transformers writes, in fp32 and greedily."""
    model, tokenizer = reference(FOLDER_STORIES), LocalModel.inspect(FOLDER_STORIES).tokenizer()
    pin_to_one_thread()
    answers: dict[str, list[int]] = {}
    for opening in OPENINGS:
        prompt = tokenizer.encode_text(opening)
        ids = torch.tensor([[1, *prompt]])
        found = model.generate(ids, do_sample=False, max_new_tokens=64, eos_token_id=[2])
        answers[opening] = found[0, ids.shape[1] :].tolist()
    return answers


def write(path: Path, wish: WeightFormat, opening: str) -> list[int]:
    model = LocalModel.inspect(path)
    config, weights, fmt = own_model(model, wish)
    decoder = Decoder.build(config, weights, CpuDevice().backend(fmt, "target"))
    prompt = [1, *model.tokenizer().encode_text(opening)]
    sampler = Sampler(SamplingParams(), len(prompt))
    decoding = Decoding(
        decoder, decoder.new_state(512), prompt, sampler, stop_ids=[2], max_tokens=64
    )
    list(decoding.prefill())
    return [token for done in plain(decoding) for token in done.tokens]


@pytest.mark.release(keep=1, reason="every beginning")
@pytest.mark.parametrize("opening", OPENINGS)
def test_it_writes_what_transformers_writes(
    in_gguf: dict[str, Path], written: dict[str, list[int]], opening: str
) -> None:
    """From safetensors on torch, and from GGUF on torch and on the native backend."""
    assert len(written[opening]) > 30
    assert write(FOLDER_STORIES, WeightFormat.F32, opening) == written[opening]
    assert write(in_gguf["F32"], WeightFormat.F32, opening) == written[opening]
    assert write(in_gguf["F32"], WeightFormat.STORED, opening) == written[opening]


def test_both_files_speak_the_same_tokens(in_gguf: dict[str, Path]) -> None:
    ours, theirs = (LocalModel.inspect(p).tokenizer() for p in (FOLDER_STORIES, in_gguf["F32"]))
    text = "Hello! It's 3 o'clock – “très” 🦊\n\n  two blanks"
    assert ours.encode_text(text) == theirs.encode_text(text)
    assert ours.eos_ids == theirs.eos_ids == {2}
    assert (ours.bos_id, ours.adds_bos) == (theirs.bos_id, theirs.adds_bos) == (1, True)


@pytest.mark.release(keep=2, reason="every format")
@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_drafting_changes_no_token(
    session: Session, in_gguf: dict[str, Path], kind: str, sampling: str
) -> None:
    """Alone, by looking up, and drafted by itself; the template is the plain fallback."""
    answers = []
    model = in_gguf[kind]
    for draft in (DraftChoice.NONE, DraftChoice.LOOKUP, model):
        session.load(model, draft=draft)
        answers.append(session.ask(QUESTION, max_tokens=48, sampling=SAMPLINGS[sampling]))
    alone, looked_up, own = answers
    assert alone.text
    assert alone.token_ids == looked_up.token_ids == own.token_ids
    assert alone.signature == own.signature
    assert own.stats.accepted > 0.9 * (own.stats.committed - own.stats.rounds)


def test_safetensors_and_a_file_draft_for_each_other(
    session: Session, in_gguf: dict[str, Path]
) -> None:
    session.load(FOLDER_STORIES, draft=in_gguf["Q8_0"])
    assert session.ask(QUESTION, max_tokens=32).stats.accepted > 10
