"""From data to what ships: answers of the model's own, drafts that learned them, GGUF files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.bench.forward import decoder_for
from engine.bench.prompts import read_prompts
from engine.commands import Load, WeightFormat
from engine.errors import UserFixable
from engine.hub.local import LocalModel
from engine.loading.checking import check
from engine.loading.load import load
from engine.loading.machinery import Machinery
from engine.request import Message, Role
from engine.train.modules import Draft
from engine.train.scratch.beginning import Beginning
from engine.train.scratch.making import ANSWERS, HELD_OUT, MODEL, PACKED, Stage, make
from engine.train.scratch.recipe import read_recipe
from engine.train.scratch.training import LOG, Paused, Settings, model_config
from engine.train.scratch.writing import Writer
from tests.engine.train.scratch.colours import colours


@dataclass
class Made:
    """A recipe that was carried out."""

    out: Path
    settings: Settings
    stages: list[Stage] = field(default_factory=list)

    def make(self, stopped: Callable[[], bool] = lambda: False) -> None:
        make(self.settings, lambda *_: None, self.stages.append, stopped)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """So small, threads cost more than they bring; and sums come out alike."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("making")
    data = colours(root / "data")
    out = root / "out"
    made = Made(out, Settings(read_recipe(str(data / "mini.toml")), data, out, rows=4))
    made.make()
    return made


def test_the_answers_are_the_models_own_and_end(made: Made) -> None:
    lines = [json.loads(line) for line in (made.out / ANSWERS).read_text("utf-8").splitlines()]
    assert len(lines) > 20
    model = LocalModel.inspect(made.out / MODEL)
    tokenizer, template = model.tokenizer(), model.template()
    config = model.config
    decoder = decoder_for(config, model.own_weights(config), WeightFormat.F32)
    same = 0
    for line in lines[:40]:
        asked, answered = line["messages"]
        assert (asked["role"], answered["role"]) == ("user", "assistant")
        talk = [Message(Role.USER, asked["content"])]
        ids = list(template.prompt(talk, tokenizer, continue_answer=False).ids)
        state = decoder.new_state(128)
        said: list[int] = []
        while not said or (said[-1] not in config.eos_token_ids and len(said) < 40):
            logits = decoder.forward(state, ids).logits[-1]
            state.commit(range(len(ids)))
            ids = [int(np.argmax(logits))]
            said += ids
        same += tokenizer.decode(said[:-1]) == answered["content"]
    assert same >= 10, "half of them are drawn, the others are the likeliest"


def test_what_is_packed_says_the_same_and_knows_its_draft(made: Made) -> None:
    packed = LocalModel.inspect(made.out / PACKED / "mini")
    assert packed.name == "Mini"
    assert packed.kind == "Q8_0"
    assert packed.draft is not None
    whole = LocalModel.inspect(made.out / MODEL)
    talk = [Message(Role.USER, "Which colour is number 8?")]
    prompts = [
        list(each.template().prompt(talk, each.tokenizer(), continue_answer=False).ids)
        for each in (whole, packed)
    ]
    assert prompts[0] == prompts[1]
    rows = []
    for each in (whole, packed):
        decoder = decoder_for(each.config, each.own_weights(each.config), WeightFormat.F32)
        rows.append(decoder.forward(decoder.new_state(64), prompts[0]).logits)
    assert np.abs(rows[0] - rows[1]).max() < 0.1 * np.abs(rows[0]).max()
    assert (made.out / PACKED / "mini" / "mini.gguf").stat().st_size < 60_000


@pytest.mark.parametrize("part", [MODEL, f"{PACKED}/mini/mini.gguf"])
def test_a_model_that_was_made_can_be_gone_on_from(made: Made, tmp_path: Path, part: str) -> None:
    other = replace(made.settings.recipe, shape=replace(made.settings.recipe.shape, vocab=300))
    settings = replace(
        made.settings, recipe=other, out=tmp_path, tokens=512, begin=Beginning.read(made.out / part)
    )
    state = make(settings, lambda *_: None, lambda _: None, lambda: False)
    last = json.loads((made.out / MODEL / LOG).read_text("utf-8").splitlines()[-1])
    assert state.steps <= 2
    assert state.held_out is not None
    assert state.held_out < 1.5 * last["held_out"], "from nothing it would be about six"
    texts = [
        (folder / MODEL / "tokenizer.json").read_text("utf-8") for folder in (made.out, tmp_path)
    ]
    words = [json.loads(text)["model"]["vocab"] for text in texts]
    assert words[0] == words[1]


def test_a_stranger_cannot_be_gone_on_from(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.out / MODEL, tmp_path / "stranger")
    file = tmp_path / "stranger" / "tokenizer.json"
    file.write_text(file.read_text("utf-8").replace("<|user|>", "<|human|>"), "utf-8")
    with pytest.raises(UserFixable, match="was not made by this command"):
        Beginning.read(tmp_path / "stranger")


def test_what_is_damaged_of_a_vocabulary_is_passed_over(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.out / MODEL, tmp_path / "model")
    whole = Beginning.read(tmp_path / "model").tokenizer
    file = tmp_path / "model" / "tokenizer.json"
    described = json.loads(file.read_text("utf-8"))
    merges = [" ".join(pair) for pair in described["model"]["merges"]]
    (tmp_path / "model" / "vocab.json").write_text(json.dumps(described["model"]["vocab"]), "utf-8")
    (tmp_path / "model" / "merges.txt").write_text("\n".join(merges), "utf-8")
    file.write_text(file.read_text("utf-8")[:-100], "utf-8")
    again = Beginning.read(tmp_path / "model").tokenizer
    assert again.get_vocab() == whole.get_vocab()


@pytest.mark.parametrize("draft", ["mini-draft", "mini-head"])
def test_every_draft_can_be_loaded_beside_it(made: Made, draft: str) -> None:
    packed, machinery = made.out / PACKED, Machinery()
    machine = machinery.look(None)
    command = Load(packed / "mini", draft=packed / draft)
    pair = load(check(command, machine, machinery.speeds(machine)), machinery.open)
    assert pair.drafter is not None
    assert pair.drafter.name == f"Mini {draft.removeprefix('mini-')}"


def test_the_log_tells_losses_and_samples(made: Made) -> None:
    lines = [json.loads(line) for line in (made.out / MODEL / LOG).read_text("utf-8").splitlines()]
    assert lines[-1]["tokens"] >= 6_000
    assert lines[-1]["held_out"] > 0
    assert lines[-1]["tokens_per_s"] > 0
    assert "It is" in lines[-1]["samples"]["Which colour is number 3?"]


def test_what_is_held_out_was_not_learned(made: Made) -> None:
    prompts = read_prompts(made.out / HELD_OUT)
    assert prompts
    assert {prompt.category for prompt in prompts} == {"colours"}
    asked = {prompt.text for prompt in prompts}
    answered = [json.loads(line) for line in (made.out / ANSWERS).read_text("utf-8").splitlines()]
    assert asked.isdisjoint(line["messages"][0]["content"] for line in answered)


def test_going_on_passes_over_what_is_there(made: Made) -> None:
    before = {file: file.stat().st_mtime_ns for file in made.out.rglob("model.safetensors")}
    again = Made(made.out, replace(made.settings, resume=True))
    again.make()
    assert {stage.words for stage in again.stages} == {"Packing"}
    drafts = [file for file in before if "draft" in str(file) or "head" in str(file)]
    assert drafts
    assert all(
        file.stat().st_mtime_ns == before[file] for file in drafts if PACKED not in str(file)
    )


def test_what_is_there_is_not_lost(made: Made) -> None:
    with pytest.raises(UserFixable, match="holds a training already"):
        made.make()


def test_stopped_behind_the_model_it_goes_on_there(made: Made, tmp_path: Path) -> None:
    settings = replace(made.settings, out=tmp_path / "out", resume=True)
    parts, stopped_in = Made(settings.out, settings), set[str]()

    def first_word_of_a_stage() -> bool:
        words = {stage.words for stage in parts.stages}
        return bool(words - stopped_in)

    while True:
        try:
            parts.make(first_word_of_a_stage)
        except Paused:
            stopped_in |= {stage.words for stage in parts.stages}
            continue
        break
    assert stopped_in == {"Writing answers", "Mini draft", "Mini head"}
    name = f"{PACKED}/mini/mini.gguf"
    assert (settings.out / name).read_bytes() == (made.out / name).read_bytes()


def test_many_answers_at_a_time_are_what_each_would_be(tmp_path: Path) -> None:
    recipe = read_recipe(str(colours(tmp_path) / "mini.toml"))
    torch.manual_seed(3)
    model = Draft(model_config(recipe)).eval()
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(30)  # answers differ, and some end early
    prompts = np.random.default_rng(2).integers(5, 300, (12, 7)).tolist()
    end = 17
    together = Writer(model, end, 40).write(prompts, 20)
    for prompt, answer in zip(prompts, together, strict=True):
        assert answer == Writer(model, end, 40).write([prompt], 20)[0]
        with torch.no_grad():
            tokens = torch.tensor([[*prompt, *answer]])
            output = model.output
            assert output is not None
            logits = model.run_model(tokens)[0] @ output.T
        chosen = logits[len(prompt) - 1 : -1].argmax(1).tolist()
        agreed = sum(one == other for one, other in zip(chosen, answer, strict=True))
        assert agreed >= 0.8 * len(answer), "in fp32 it would write the same, but for close calls"
    assert len({tuple(answer) for answer in together}) > 6
