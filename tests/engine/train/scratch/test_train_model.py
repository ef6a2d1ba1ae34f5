"""A model from nothing: what a training leaves behind, and that it can be stopped anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.cli import main
from engine.cli.exit_code import ExitCode
from engine.errors import UserFixable
from engine.hub.local import LocalModel
from engine.model.weights.safetensors_folder import SINGLE_FILE
from engine.request import Message, Role
from engine.train.modules import Draft
from engine.train.scratch.corpus import encoded
from engine.train.scratch.packing import filled
from engine.train.scratch.recipe import Rates, read_recipe, recipe_names
from engine.train.scratch.training import Paused, Settings, State, model_config, train
from engine.train.scratch.vocabulary import ASSISTANT, BOS, SPECIAL
from tests.engine.train.scratch.colours import RECIPE, colours


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """So small, threads cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return colours(tmp_path / "data")


def settings_of(data: Path, out: Path, **wishes: bool) -> Settings:
    return Settings(read_recipe(str(data / "mini.toml")), data, out, rows=4, **wishes)


def never() -> bool:
    return False


def test_a_training_leaves_a_model_that_can_be_used(data: Path, tmp_path: Path) -> None:
    out, losses = tmp_path / "out", []
    state = train(settings_of(data, out), lambda _, state, __: losses.append(state.loss), never)
    assert state.tokens >= 6_000
    assert state.phase == 1
    assert losses[-1] < losses[1] - 0.5, "it learns"
    assert state.held_out is not None
    model = LocalModel.inspect(out)
    assert model.name == "Mini"
    tokenizer = model.tokenizer()
    talk = [Message(Role.USER, "Which colour is number 7?")]
    prompt = model.template().prompt(talk, tokenizer, continue_answer=False)
    assert prompt.ids[0] == SPECIAL.index(BOS)
    assert prompt.ids[-1] == SPECIAL.index(ASSISTANT)
    assert (out / SINGLE_FILE).stat().st_size < 200_000


def test_stopped_anywhere_it_comes_to_the_same(data: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    train(settings_of(data, whole), lambda *_: None, never)
    out, steps, resume = tmp_path / "parts", iter([3, 2, 4, 1]), False
    for count in steps:
        seen: list[State] = []
        with pytest.raises(Paused):
            train(
                settings_of(data, out, resume=resume),
                lambda _, state, __, seen=seen: seen.append(state) if state.steps else None,
                lambda seen=seen, count=count: len(seen) >= count,
            )
        resume = True
    train(settings_of(data, out, resume=True), lambda *_: None, never)
    one, other = (load_file(folder / SINGLE_FILE) for folder in (whole, out))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name])


def test_a_document_sees_only_itself(data: Path) -> None:
    recipe = read_recipe(str(data / "mini.toml"))
    torch.manual_seed(0)
    draft = Draft(model_config(recipe)).eval()
    rng = np.random.default_rng(1)
    parts = [rng.integers(5, 300, size).astype(np.uint16) for size in (9, 20, 14)]
    marks = [np.ones(len(part), np.bool_) for part in parts]
    row = filled([list(zip(parts, marks, strict=True))], 64, answers_only=False)
    document = torch.from_numpy(row.document)
    seen = (document[:, None, :, None] == document[:, None, None, :]) & torch.ones(
        64, 64, dtype=torch.bool
    ).tril()
    with torch.no_grad():
        together = draft.run_model(torch.from_numpy(row.tokens), seen)[0]
        start = 0
        for part in parts:
            alone = draft.run_model(torch.from_numpy(part.astype(np.int64))[None])[0]
            torch.testing.assert_close(
                together[start : start + len(part)], alone, rtol=1e-4, atol=1e-5
            )
            start += len(part)


def test_what_the_assistant_says_is_marked_with_its_end(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Paused):
        train(settings_of(data, out), lambda *_: None, lambda: True)
    tokenizer = LocalModel.inspect(out).tokenizer() if (out / "config.json").exists() else None
    assert tokenizer is None, "config.json comes last, with a finished model"
    from tokenizers import Tokenizer

    from engine.train.conversations import Example

    library = Tokenizer.from_file(str(out / "tokenizer.json"))
    talk = [Message(Role.USER, "Red?"), Message(Role.ASSISTANT, "It is red.")]
    documents = encoded([Example((*talk, *talk))], library, 64)
    tokens, answers = documents.one(0)
    told = library.decode(tokens[answers].tolist(), skip_special_tokens=False)
    assert told == "It is red.<|end|>It is red.<|end|>"
    cut = encoded([Example((*talk, *talk))], library, len(tokens) - 1).one(0)[0]
    assert len(cut) == (len(tokens) + 1) // 2, "whole answers only"


def test_a_checkpoint_of_another_recipe_is_refused(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Paused):
        train(settings_of(data, out), lambda *_: None, lambda: True)
    other = (data / "mini.toml").read_text("utf-8").replace("hidden = 32", "hidden = 48")
    (data / "mini.toml").write_text(other, "utf-8")
    with pytest.raises(UserFixable, match="of another recipe"):
        train(settings_of(data, out, resume=True), lambda *_: None, never)


def test_the_command_says_what_it_did(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--recipe", str(data / "mini.toml"), "--data", str(data), "--tokens", "1k"]
    code = main(["train-model", *words, "--out", str(tmp_path / "out"), "--rows", "4", "--json"])
    assert code == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["finished"]
    assert told["tokens"] >= 1000


@pytest.mark.parametrize("name", recipe_names())
def test_our_recipes_can_be_read(name: str) -> None:
    recipe = read_recipe(name)
    assert model_config(recipe).num_layers == recipe.shape.blocks
    assert recipe.batch % recipe.longest == 0
    ends = list(accumulate(phase.share for phase in recipe.phases))
    assert ends[-1] == pytest.approx(1.0)
    for number, end in enumerate(ends[:-1]):
        assert [recipe.phase_at(end + step) for step in (-0.01, 0.01)] == [number, number + 1]
    assert (recipe.phase_at(0.0), recipe.phase_at(1.0)) == (0, len(ends) - 1)


def test_rates_rise_stay_and_fall() -> None:
    rates = Rates(warm_up=0.1, decay=0.2)
    assert [round(rates.factor(done), 6) for done in (0, 0.05, 0.1, 0.5, 0.8, 0.9, 1)] == [
        0, 0.5, 1, 1, 1, 0.5, 0
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["share = 0.5|share = 0.4", "heads = 2|heads = 3", "name|nam"])
def test_a_recipe_that_cannot_be_is_refused(data: Path, change: str) -> None:
    before, after = change.split("|")
    file = data / "mini.toml"
    file.write_text(RECIPE.replace(before, after, 1), "utf-8")
    with pytest.raises(UserFixable, match="cannot be read"):
        read_recipe(str(file))
