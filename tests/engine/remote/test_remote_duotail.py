"""Our client against our own server, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from elsewhere import QUESTION, Elsewhere
from server_process import place, process
from tiny_models import write_chat_model

from engine.commands import Stop
from engine.events import Connected, Failed, Finished, FinishReason, TextDelta
from engine.request import ChatRequest, Message, Role, SamplingParams
from tests.folder_models import FOLDER_TARGET
from tests.stopwatch import least

Views = Callable[..., Elsewhere]
_LONG = ChatRequest("long", QUESTION, max_tokens=500_000)


@pytest.fixture
def duotail() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """`duotail serve` with the small model: process, address, key."""
    with served(FOLDER_TARGET) as child:
        yield child


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The same with a random model, which no test is too slow to catch while it writes."""
    with served(write_chat_model(tmp_path / "Endless", max_position_embeddings=1_000_000)) as child:
        yield child


@contextmanager
def served(model: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    with process(sys.executable, "-m", "app", "serve", "--model", str(model), "--json") as child:
        assert child.stdout is not None
        told = json.loads(child.stdout.readline())
        yield child, told["url"], told["token"]


def test_a_duotail_answers_another(
    duotail: tuple[subprocess.Popen[str], str, str], elsewhere: Views
) -> None:
    _, url, key = duotail
    view = elsewhere(key=key)
    view.board.submit(place(url, key))
    view.wait(Connected)
    asked = SamplingParams(temperature=0.8, seed=5)
    whole = view.answer(ChatRequest("whole", QUESTION, asked, max_tokens=60))
    assert not any(isinstance(each, Failed) for each in view.events), view.events
    assert whole.text == view.text
    stats = whole.stats
    assert 8 < stats.committed <= 60
    assert stats.prompt_tokens > 0
    assert stats.host_tokens_per_s is not None
    assert stats.tokens_per_s is not None
    assert stats.rounds > 0
    assert (stats.acceptance_length is not None) == (stats.drafted > 0)

    # An answer that was stopped and goes on is the answer that was not stopped.
    half = view.answer(ChatRequest("half", QUESTION, asked, max_tokens=8))
    begun = (*QUESTION, Message(Role.ASSISTANT, half.text))
    rest = view.answer(ChatRequest("rest", begun, asked, max_tokens=52))
    assert whole.text.startswith(half.text)
    assert half.reason is FinishReason.LENGTH
    assert half.text + rest.text == whole.text


def test_stop_reaches_the_engine_of_the_server(
    endless: tuple[subprocess.Popen[str], str, str], elsewhere: Views
) -> None:
    _, url, key = endless
    view = elsewhere(key=key)
    view.board.submit(place(url, key))
    view.wait(Connected)
    names = map(str, count())

    def stopping() -> float:
        name = next(names)
        view.ask(replace(_LONG, id=name))
        view.wait(TextDelta, lambda told: told.request_id == name)
        began = time.perf_counter()
        view.board.submit(Stop(name))
        stopped = view.wait(Finished, lambda told: told.request_id == name)
        assert stopped.reason is FinishReason.STOPPED
        return float(stopped.at - began)

    assert least(stopping, 0.3) < 0.3
    again = view.answer(ChatRequest("again", QUESTION, max_tokens=3))  # it has its turn at once
    assert again.reason is FinishReason.LENGTH


def test_a_server_that_is_killed_in_the_middle_leaves_what_came(
    endless: tuple[subprocess.Popen[str], str, str], elsewhere: Views
) -> None:
    child, url, key = endless
    view = elsewhere(key=key)
    view.board.submit(place(url, key))
    view.wait(Connected)
    view.ask(_LONG)
    view.wait(TextDelta)
    child.send_signal(signal.SIGKILL)
    finished = view.wait(Finished)
    assert finished.reason is FinishReason.ERROR
    assert finished.text == view.text != ""
    assert "broke before the answer was complete" in view.failure.cause


def test_a_wrong_key_is_told(
    duotail: tuple[subprocess.Popen[str], str, str], elsewhere: Views
) -> None:
    _, url, key = duotail
    view = elsewhere(key="wrong")
    view.board.submit(place(url, key))
    view.wait(Connected)
    assert view.answer().reason is FinishReason.ERROR
    assert "does not accept the key" in view.failure.cause
