"""`duotail train-draft` from the command line."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from training_runs import write_data

from engine.cli import main, train_draft
from engine.model.local_model import LocalModel
from engine.train.checkpoint import TrainingProgress
from engine.train.settings import TrainingSettings
from engine.train.training import Result

_SHORT = ["--tokens", "600", "--rate", "1e-3", "--batch", "128", "--max-length", "64"]
_SHORT += ["--device", "cpu", "--threads", "1", "--recorded", "4k", "--answer-length", "24"]


def _arguments(model: Path, data: Path, out: Path) -> list[str]:
    names = ["--model", str(model), "--data", str(data), "--out", str(out)]
    return ["train-draft", *names, *_SHORT]


def test_one_object_tells_the_result(
    chat_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_data(tmp_path / "data.jsonl")
    more = ["--blocks", "2", "--packed", "q4_1", "--json"]
    code = main([*_arguments(chat_model, data, tmp_path / "head"), *more])
    told = capsys.readouterr()
    assert code == 0, told.err
    answer = json.loads(told.out)
    assert answer["finished"]
    assert answer["tokens"] >= 600
    assert answer["blocks"] == 2
    assert (tmp_path / "head" / "config.json").exists()
    packed = LocalModel.inspect(tmp_path / "head-q4_1")
    assert packed.gguf is not None
    assert packed.config == LocalModel.inspect(tmp_path / "head").config
    assert "tokens/s" in told.err


def test_every_option_sets_a_setting(chat_model: Path, tmp_path: Path) -> None:
    """What is not given has the defaults of the settings."""
    commands = argparse.ArgumentParser().add_subparsers()
    train_draft.add_parser(commands)
    parser = commands.choices["train-draft"]
    basic = ["--model", str(chat_model), "--data", "a", "b", "--out", str(tmp_path)]
    usual = train_draft._settings(parser.parse_args(basic))
    assert usual == TrainingSettings(chat_model, (Path("a"), Path("b")), tmp_path)
    values = {
        "--kind": "eagle", "--from": str(chat_model), "--precision": "bf16", "--format": "bf16",
        "--device": "cpu", "--rate": "0.5", "--recording": "c", "--muon": "0", "--clip": "0.25",
        "--packed": "q4_1",
    }  # fmt: skip
    for action in parser._actions:
        name = action.option_strings[-1]
        if name in (*basic, "--help", "--json"):
            continue
        given = [name] if action.nargs == 0 else [name, values.get(name, "3")]
        assert train_draft._settings(parser.parse_args([*basic, *given])) != usual, name


def test_bad_input_is_told_in_words(
    chat_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*_arguments(chat_model, tmp_path / "none.jsonl", tmp_path / "head"), "--json"])
    told = capsys.readouterr()
    assert code == 2
    assert "none.jsonl" in json.loads(told.out)["error"]
    with pytest.raises(SystemExit):
        main([*_arguments(chat_model, tmp_path, tmp_path / "head"), "--rate", "0"])
    assert "'0' is not above 0" in capsys.readouterr().err
    assert not (tmp_path / "head").exists()


def test_lines_without_an_example_are_told_of(tmp_path: Path) -> None:
    result = Result(tmp_path, TrainingProgress(), 2.5, 10**6, skipped=7, covered=1.0)
    assert train_draft._words(result).endswith("7 lines held no example.")
    assert "no example" not in train_draft._words(replace(result, skipped=0))


def test_tokens_may_have_suffixes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    basic = ["train-draft", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit):
        main([*basic, "--tokens", "many"])
    assert "500k" in capsys.readouterr().err
    assert main([*basic, "--tokens", "2M"]) == 2
    assert "nothing to train on" in capsys.readouterr().err


@pytest.mark.release(reason="a training in a process of its own")
@pytest.mark.skipif(sys.platform == "win32", reason="no Ctrl-C for a single process there")
def test_ctrl_c_keeps_what_was_learned(chat_model: Path, tmp_path: Path) -> None:
    data, out = write_data(tmp_path / "data.jsonl"), tmp_path / "head"
    arguments = _arguments(chat_model, data, out)
    arguments[arguments.index("600")] = "900M"
    code = "import sys; from engine.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments, "--json"],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stderr:
            if "tokens/s" in line:
                break
        child.send_signal(signal.SIGINT)
        told, _ = child.communicate()
    assert child.returncode == 130
    answer = json.loads(told)
    assert answer["steps"] >= 1
    assert not answer["finished"]
    assert sorted(file.name for file in out.iterdir()) == ["recording", "training.safetensors"]
