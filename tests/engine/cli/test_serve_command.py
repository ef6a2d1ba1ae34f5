"""`duotail serve` as a process: one line when it is ready, until a signal comes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Duotail, start
from folder_models import FOLDER_DRAFT, FOLDER_TARGET

from engine.cli import serve
from engine.commands import DraftChoice, Load
from engine.server import settings

NOT_WINDOWS = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
BODY = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3})


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOTAIL_DATA_DIR", str(tmp_path))


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A process that serves, and the line it has printed."""
    process = start("serve", "--model", FOLDER_TARGET, "--json", *request.param)
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def ask(told: Any, token: str | None) -> tuple[int, Any]:
    """Status and body of a response."""
    address = told["url"].removeprefix("http://").removesuffix("/v1")
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with closing(http.client.HTTPConnection(address, timeout=240)) as connection:
        connection.request("POST", "/v1/chat/completions", BODY, headers)
        response = connection.getresponse()
        return response.status, json.load(response)


@NOT_WINDOWS
@pytest.mark.release(reason="every signal, in a process of its own", keep=1)
@pytest.mark.parametrize(
    ("served", "signal_sent"),
    [([], signal.SIGTERM), (["--token", "my-own-token"], signal.SIGINT)],
    indirect=["served"],
)
def test_it_serves_until_a_signal_comes(
    served: tuple[subprocess.Popen[bytes], Any], signal_sent: signal.Signals
) -> None:
    process, told = served
    assert set(told) == {"url", "token"}
    assert ask(told, None)[0] == 401
    status, answer = ask(told, told["token"])
    assert (status, answer["usage"]["completion_tokens"]) == (200, 3)
    process.send_signal(signal_sent)
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out, err) == (0, b"", b"")


@NOT_WINDOWS
@pytest.mark.release(reason="a process more")
@pytest.mark.parametrize("served", [["--no-token"]], indirect=True)
def test_without_a_token(served: tuple[subprocess.Popen[bytes], Any]) -> None:
    process, told = served
    assert told["token"] is None
    assert ask(told, None)[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(240) == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--host", "0.0.0.0", "--no-token"],  # noqa: S104 - refused
        ["--host", "0.0.0.0", "--token", "short"],  # noqa: S104 - refused
        ["--no-token", "--token", "mine"],
        ["--token-file", "/nowhere/token"],
        ["--tls-key", "/nowhere/key.pem", "--token", "mine"],
        ["--token", "with blanks"],
        ["--port", "65536"],
        ["--port", "-1"],
        ["--tls-certificate", "/nowhere/certificate.pem", "--token", "mine"],
        ["--model", "/nowhere/model.gguf", "--token", "mine"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_served_is_bad_usage(duotail: Duotail, options: list[str]) -> None:
    outcome = duotail("serve", "--json", *options)
    assert outcome.code == 2
    assert outcome.err


@pytest.mark.usefixtures("own_data")
def test_requests_may_load_what_is_here_each_with_a_draft_of_its_own() -> None:
    first = Load(FOLDER_TARGET, draft=FOLDER_DRAFT, context=256)
    loads = list(serve._catalogue(first)().values())
    assert replace(first, after_answer=True) in loads
    others = [load for load in loads if load.model != FOLDER_TARGET]
    assert all(load.draft is DraftChoice.AUTO and load.context == 256 for load in others)


def test_a_model_that_does_not_load_ends_it(duotail: Duotail, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(20))
    outcome = duotail("serve", "--model", broken, "--token", "mine", "--json")
    assert outcome.code == 2
    assert outcome.json["error"]


def test_for_people_it_says_what_is_open(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready, it is ended by a signal that comes with its last line."""
    shown: list[str] = []

    def write(text: str) -> None:
        shown.append(text)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("engine.cli.serve._write", write)
    monkeypatch.setattr(settings, "keep_secret", lambda *_: False)
    monkeypatch.setattr(settings, "_in_file", lambda *_: False)
    assert duotail("serve", "--host", "0.0.0.0").code == 0  # noqa: S104 - with a token
    (text,) = shown
    assert "http://127.0.0.1:" in text
    assert "Not encrypted" in text
    assert "cannot use a keyring" in text
    assert duotail("serve", "--no-token").code == 0
    assert "No access token: every program on this computer can use it." in shown[1]
