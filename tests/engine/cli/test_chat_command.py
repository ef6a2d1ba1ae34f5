"""`duotail chat`: one object on stdout, exit codes, the same text whatever drafts."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import Duotail, start
from folder_models import FOLDER_TARGET
from head_folders import write_head
from tiny_models import write_chat_model

import engine.cli.chat
from engine.commands import Command, Stop
from engine.events import Event, TextDelta
from engine.model.families import open_config
from engine.service.engine import Engine

STORY = "Tell me a short story about a dog."
WELL_DRAFTED = ("chat", "--json", "--model", FOLDER_TARGET, "--prompt", STORY)
"""The draft of this model is known to be right more often than not."""
KEYS = [
    "text",
    "tokens",
    "finish_reason",
    "mode",
    "signature",
    "committed",
    "rounds",
    "plain_rounds",
    "fallback_reason",
    "acceptance_length",
    "accepted_by_depth",
    "ttft_s",
    "tokens_per_s",
    "draft_idle",
    "verify_idle",
    "draft_useful",
    "draft_wasted",
]
PATIENCE = 240.0
"""Seconds until a process counts as hanging."""


# -- answers -------------------------------------------------------------------------------


def test_the_object_has_the_promised_keys(duotail: Duotail) -> None:
    done = duotail(*WELL_DRAFTED, "--mode", "cpu")
    assert (done.code, done.err) == (0, "")
    answer = done.json
    assert list(answer) == KEYS
    assert answer["finish_reason"] == "stop"
    assert answer["mode"] == "cpu"
    assert answer["committed"] == len(answer["tokens"]) > 20
    assert 0 < answer["rounds"] < answer["committed"]
    assert answer["plain_rounds"] <= answer["rounds"]
    assert answer["acceptance_length"] > 1.5
    assert all(0 <= share <= 1 for share in answer["accepted_by_depth"])
    assert answer["accepted_by_depth"][0] > 0.5
    assert 0 < answer["ttft_s"] < 60
    assert answer["tokens_per_s"] > 1
    assert 0 <= answer["draft_idle"] < 1
    assert 0 <= answer["verify_idle"] < 1


@pytest.mark.release(keep=1, reason="every sampling")
@pytest.mark.parametrize("sampling", [(), ("--temperature", "0.8", "--seed", "1")])
def test_drafting_changes_no_token(duotail: Duotail, sampling: tuple[str, ...]) -> None:
    ask = (*WELL_DRAFTED, *sampling)
    plain = duotail(*ask, "--mode", "plain", "--draft", "none").json
    drafted = duotail(*ask, "--mode", "cpu", "--draft", "auto").json
    assert plain["tokens"] == drafted["tokens"]
    assert plain["text"] == drafted["text"]
    assert plain["signature"] == drafted["signature"]
    assert (plain["mode"], drafted["mode"]) == ("plain", "cpu")
    assert plain["acceptance_length"] is None
    assert plain["accepted_by_depth"] == []
    assert plain["rounds"] == plain["plain_rounds"]
    assert drafted["acceptance_length"] > 1.5


@pytest.mark.release(keep=1, reason="every sampling")
@pytest.mark.parametrize("sampling", [(), ("--temperature", "0.8", "--seed", "1")])
def test_a_simulated_accelerator_changes_no_token(
    duotail: Duotail, sampling: tuple[str, ...]
) -> None:
    ask = (*WELL_DRAFTED, "--max-tokens", "24", *sampling)
    plain = duotail(*ask, "--mode", "plain").json
    split = ("--mode", "dovetail", "--simulate-gpu", "1", "--layers-on-gpu", "all")
    drafted = duotail(*ask, *split)
    assert list(drafted.json) == KEYS
    assert drafted.json["tokens"] == plain["tokens"]
    assert drafted.json["mode"] == "dovetail"
    assert drafted.json["signature"].startswith("sim:")
    assert drafted.json["acceptance_length"] > 1.5


@pytest.mark.release(keep=1, reason="every head")
@pytest.mark.parametrize("layout", ["dgf", "eagle3"])
@pytest.mark.parametrize("mode", [("cpu",), ("dovetail", "--simulate-gpu", "1")])
def test_a_draft_head_changes_no_token(
    duotail: Duotail, tmp_path: Path, layout: str, mode: tuple[str, ...]
) -> None:
    """A random one, which seldom is right; greedily, and as hot as it takes to be so."""
    head = write_head(tmp_path / "head", layout, open_config(FOLDER_TARGET))
    for sampling in ((), ("--temperature", "3", "--seed", "5")):
        ask = (*WELL_DRAFTED, "--max-tokens", "24", *sampling)
        plain = duotail(*ask, "--mode", "plain").json
        drafted = duotail(*ask, "--draft", head, "--mode", *mode)
        assert list(drafted.json) == KEYS
        assert drafted.json["tokens"] == plain["tokens"]
        assert drafted.json["mode"] == mode[0]
        assert drafted.json["rounds"] > drafted.json["plain_rounds"]
    assert drafted.json["acceptance_length"] > 1


def test_a_draft_head_cannot_answer(duotail: Duotail, tmp_path: Path) -> None:
    head = write_head(tmp_path / "head", "dgf", open_config(FOLDER_TARGET))
    refused = duotail("chat", "--json", "--model", head, "--prompt", STORY)
    assert refused.code == 2
    assert "draft head for Some target" in refused.err


def test_the_seed_makes_the_answer(duotail: Duotail) -> None:
    ask = ("chat", "--json", "--prompt", STORY, "--temperature", "1", "--max-tokens", "16")
    texts = [duotail(*ask, "--seed", seed).json["text"] for seed in ("3", "3", "4")]
    assert texts[0] == texts[1] != texts[2]


def test_limit_stop_string_and_system_prompt(duotail: Duotail) -> None:
    whole = duotail("chat", "--json", "--prompt", STORY, "--max-tokens", "12").json
    assert (whole["finish_reason"], whole["committed"]) == ("length", 12)
    stop = whole["text"][10:14]
    cut = duotail("chat", "--json", "--prompt", STORY, "--stop", "no such", "--stop", stop).json
    assert cut["finish_reason"] == "stop"
    assert cut["text"] == whole["text"][: whole["text"].index(stop)]
    system = duotail(
        "chat", "--json", "--prompt", STORY, "--system", "Be brief.", "--max-tokens", "12"
    )
    assert system.json["committed"] == 12


def test_without_json_the_text_alone_is_written(duotail: Duotail) -> None:
    asked = ("chat", "--prompt", STORY, "--max-tokens", "12")
    answer = duotail(*asked, "--json").json
    assert duotail(*asked).out == answer["text"] + "\n"


def test_the_prompt_comes_from_standard_input(duotail: Duotail) -> None:
    given = duotail("chat", "--json", "--max-tokens", "12", "--prompt", STORY).json
    piped = duotail("chat", "--json", "--max-tokens", "12", stdin=STORY.encode() + b"\n").json
    assert piped["tokens"] == given["tokens"]


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--prompt", ""), 2, "The prompt is empty."),
        (("--prompt", "  \n "), 2, "The prompt is empty."),
        (("--prompt", os.fsdecode(b"caf\xe9")), 2, "not valid UTF-8 text (byte 3)"),
        (("--prompt", "Hi", "--model", "no-such-model"), 2, "no model “no-such-model”"),
        (("--prompt", "Hi", "--draft", "no-such-model"), 2, "no model “no-such-model”"),
        (("--prompt", "Hi", "--temperature", "-1"), 2, "temperature must be 0 or more"),
        (("--prompt", "Hi", "--temperature", "nan"), 2, "temperature must be 0 or more"),
        (("--prompt", "Hi", "--temperature", "inf"), 2, "temperature must be 0 or more"),
        (("--prompt", "Hi", "--presence-penalty", "nan"), 2, "presence_penalty must be a number"),
        (("--prompt", "Hi", "--seed", "-2"), 2, "seed must be"),
        (("--prompt", "Hi", "--top-p", "0"), 2, "top_p must be"),
        (("--prompt", "Hi " * 500, "--context", "64"), 2, "the context holds 64"),
        (("--prompt", "Hi", "--context", "5000"), 2, "up to 1024"),
        (("--prompt", "Hi", "--mode", "dovetail"), 3, "GPU"),
        (("--prompt", "Hi", "--layers-on-gpu", "4"), 3, "GPU"),
        (("--prompt", "Hi", "--layers-on-gpu", "9", "--simulate-gpu", "1"), 2, "has 8 layers"),
        (("--prompt", "Hi", "--mode", "duo"), 3, "GPU"),
        (
            ("--prompt", "Hi", "--mode", "cpu", "--layers-on-gpu", "2", "--simulate-gpu", "1"),
            2,
            "In mode “cpu”, no layers are on the GPU.",
        ),
        (
            ("--prompt", "Hi", "--mode", "duo", "--layers-on-gpu", "2", "--simulate-gpu", "1"),
            2,
            "In mode “duo”, all layers of the target are on the GPU.",
        ),
    ],
)
def test_what_cannot_be_done_is_said(
    duotail: Duotail, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = duotail("chat", "--json", *arguments)
    assert done.code == code
    assert words in done.err
    told = done.json
    assert told["finish_reason"] == "error"
    assert words in told["error"]
    assert told["remedy"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("chat", "--no-such-flag"),
        ("chat", "--mode", "fast"),
        ("chat", "--max-tokens", "0", "--prompt", "Hi"),
        ("chat", "--vram", "-1", "--prompt", "Hi"),
        ("chat", "--vram", "nan", "--prompt", "Hi"),
        ("chat", "--simulate-gpu", "inf", "--prompt", "Hi"),
        ("chat", "--simulate-gpu", "much", "--prompt", "Hi"),
        ("chat", "--layers-on-gpu", "-1", "--prompt", "Hi"),
        ("chat", "--layers-on-gpu", "some", "--prompt", "Hi"),
        ("chat", "--layers-on-gpu", "1.5", "--prompt", "Hi"),
        ("chat", "--max-tokens", "many", "--prompt", "Hi"),
        ("chat", "--temperature", "warm"),
        ("sing",),
        (),
    ],
)
def test_bad_usage(duotail: Duotail, arguments: tuple[str, ...]) -> None:
    done = duotail(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "usage: duotail" in done.err


@pytest.mark.parametrize("stdin", [b"", b"\n", None])
def test_nothing_on_standard_input(duotail: Duotail, stdin: bytes | None) -> None:
    done = duotail("chat", "--json", stdin=stdin)
    assert (done.code, done.json["error"]) == (2, "The prompt is empty.")


def test_standard_input_that_is_no_text(duotail: Duotail) -> None:
    done = duotail("chat", "--json", stdin=b"Hello \xff\xfe")
    assert done.code == 2
    assert done.json["error"] == "The prompt is not valid UTF-8 text (byte 6)."


def test_a_truncated_model(duotail: Duotail, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER_TARGET, tmp_path / "cut"))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    done = duotail("chat", "--json", "--prompt", "Hi", "--model", folder)
    assert done.code == 2
    assert "incomplete: 100000 of" in done.json["error"]


# -- Ctrl-C ----------------------------------------------------------------------------------


class Interrupted(Engine):
    """An engine during whose answer the user presses Ctrl-C, at the third piece of text.

    It goes on when it has been told: else it may be at the end before the press is noticed.
    """

    def __init__(self, emit: Any, **options: Any) -> None:
        pieces: list[TextDelta] = []
        self._told = threading.Event()

        def listen(event: Event) -> None:
            pressed = False
            if isinstance(event, TextDelta):
                pieces.append(event)
                pressed = len(pieces) == 3
            if pressed:
                signal.raise_signal(signal.SIGINT)
            emit(event)
            if pressed:
                assert self._told.wait(PATIENCE)

        super().__init__(listen, **options)

    def submit(self, command: Command) -> None:
        super().submit(command)
        if isinstance(command, Stop):
            self._told.set()


def test_ctrl_c_gives_the_answer_so_far(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ("chat", "--json", "--mode", "plain", "--prompt", STORY)
    whole = duotail(*ask).json
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(engine.cli.chat, "Engine", Interrupted)
    done = duotail(*ask)
    assert done.code == 130
    part = done.json
    assert list(part) == KEYS
    assert part["finish_reason"] == "stop"
    assert 3 <= part["committed"] < whole["committed"]
    assert part["tokens"] == whole["tokens"][: part["committed"]]
    assert whole["text"].startswith(part["text"])
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.release(reason="a process of its own")
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process there")
def test_ctrl_c_in_a_process(endless_model: Path) -> None:
    with start("chat", "--model", endless_model, "--prompt", "Hello") as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert len(first + rest) > 1
    assert rest.endswith(b"\n")
    assert errors == b""


@pytest.mark.release(reason="a process of its own")
@pytest.mark.skipif(sys.platform == "win32", reason="pipes close differently there")
def test_a_reader_that_has_enough(endless_model: Path) -> None:
    """`duotail chat ... | head -c 1` ends, and without a traceback."""
    with start("chat", "--model", endless_model, "--prompt", "Hello") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 141


@pytest.fixture(scope="module")
def endless_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with room for a million tokens."""
    folder = tmp_path_factory.mktemp("endless") / "Endless"
    return write_chat_model(folder, max_position_embeddings=1_000_000)


# -- the real thing --------------------------------------------------------------------------


def test_a_process_writes_one_object_and_nothing_else(duotail: Duotail) -> None:
    here = duotail("chat", "--json", "--max-tokens", "12", "--prompt", STORY).json
    with start("chat", "--json", "--max-tokens", "12", stdin=subprocess.PIPE) as process:
        out, err = process.communicate(STORY.encode(), timeout=PATIENCE)
    assert (process.returncode, err) == (0, b"")
    assert out.count(b"\n") == 1
    answer = json.load(io.BytesIO(out))
    assert answer["tokens"] == here["tokens"]
