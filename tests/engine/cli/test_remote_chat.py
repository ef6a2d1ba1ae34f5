"""`duotail chat --server` against a played server, in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "remote"))
from played_server import DONE, Heard, PlayedServer, event, head, page, said

MODELS = {"data": [{"id": "small", "owned_by": "vllm"}, {"id": "big", "owned_by": "vllm"}]}


def script(heard: Heard) -> list[bytes]:
    if heard.headers.get("authorization") != "Bearer right":
        return page(401, {})
    if heard.path.endswith("/models"):
        return page(200, MODELS)
    if b"fail" in heard.body:
        return [head(), said("Rain "), event(error={"message": "the GPU is gone"})]
    usage = event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 3})
    return [head(), said("Rain "), said("is wet."), said("", "stop"), usage, DONE]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedServer]:
    monkeypatch.setenv("DUOTAIL_SERVER_KEY", "right")
    played = PlayedServer(script)
    yield played
    played.close()


def test_a_prompt_is_answered_by_the_model_of_a_server(
    server: PlayedServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["chat", "--server", server.url, "--model", "big", "--prompt", "What is rain?"]
    assert main(asked, tmp_path) == 0
    assert capsys.readouterr().out == "Rain is wet.\n"
    assert server.heard[-1].json["model"] == "big"
    assert main([*asked, "--json"], tmp_path) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["finish_reason"], told["mode"]) == ("Rain is wet.", "stop", None)
    assert told["committed"] == 3


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_server_says_commands_no_terminal(
    server: PlayedServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    terminal: bool,
) -> None:
    """Escapes that set clipboard and title are shown as such; a pipe gets what was said."""
    hostile = "\x1b]52;c;cm0gLXJmIH4=\x07\x1b]0;root\x07\x9b2JRain\u200d\tis\nwet"
    monkeypatch.setattr(
        server,
        "script",
        lambda heard: (
            page(200, MODELS)
            if heard.path.endswith("/models")
            else [head(), said(hostile), event(error={"message": hostile})]
            if b"fail" in heard.body
            else [head(), said(hostile), said("", "stop"), DONE]
        ),
    )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    asked = ["chat", "--server", server.url, "--prompt"]
    assert main([*asked, "What is rain?"], tmp_path) == 0
    told = capsys.readouterr().out
    assert told.endswith("Rain\u200d\tis\nwet\n")
    assert (hostile in told) == (not terminal)
    assert ("\x1b" in told) == (not terminal)
    assert main([*asked, "fail"], tmp_path) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_an_answer_that_fails_is_told(
    server: PlayedServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["chat", "--server", server.url, "--prompt", "fail"], tmp_path) == 2
    assert "the GPU is gone" in capsys.readouterr().err


def test_a_model_that_the_server_does_not_have(
    server: PlayedServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["chat", "--server", server.url, "--model", "huge", "--prompt", "What is rain?"]
    assert main(asked, tmp_path) == 2
    told = capsys.readouterr().err
    assert "no model “huge”" in told
    assert "small, big" in told


def test_a_wrong_key(
    server: PlayedServer,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DUOTAIL_SERVER_KEY", "wrong")
    assert main(["chat", "--server", server.url, "--prompt", "What is rain?"], tmp_path) == 2
    assert "does not accept the key" in capsys.readouterr().err


def test_only_the_sampling_that_was_said_is_sent(
    server: PlayedServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["chat", "--server", server.url, "--model", "big", "--prompt", "Hi"]
    assert main(asked, tmp_path) == 0
    sampling = {"temperature", "seed", "top_p", "top_k", "min_p", "presence_penalty"}
    assert not sampling & set(server.heard[-1].json)
    assert main([*asked, "--temperature", "0", "--seed", "0", "--top-k", "5"], tmp_path) == 0
    sent = server.heard[-1].json
    assert {name: sent[name] for name in sampling & set(sent)} == {
        "temperature": 0, "seed": 0, "top_k": 5,
    }  # fmt: skip
    assert main([*asked, "--seed", "-1"], tmp_path) == 0
    assert server.heard[-1].json["seed"] >= 0
    capsys.readouterr()


@pytest.mark.parametrize("options", [["--draft", "none"], ["--vram", "2", "--kv", "q8"]])
def test_options_of_models_on_this_computer_are_refused(
    server: PlayedServer, capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str]
) -> None:
    assert main(["chat", "--server", server.url, "--prompt", "Hi", *options], tmp_path) == 2
    told = capsys.readouterr().err
    assert all(name in told for name in options if name.startswith("--"))
    assert main(["chat", "--server", "", "--prompt", "Hi"], tmp_path) == 2


def test_an_error_keeps_the_text_before_it(
    server: PlayedServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["chat", "--server", server.url, "--model", "big", "--prompt", "fail", "--json"]
    assert main(asked, tmp_path) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["finish_reason"]) == ("Rain ", "error")
