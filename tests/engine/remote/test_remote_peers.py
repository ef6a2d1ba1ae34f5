"""Our client against the real servers of other programs, as far as they are installed."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter

import pytest
from elsewhere import QUESTION, Elsewhere
from server_process import process, ready

from engine.bench.peer.process import find_interpreter
from engine.commands import Connect, ServerKind, Stop
from engine.errors import Absent
from engine.events import Connected, Failed, Finished, FinishReason, TextDelta
from engine.request import ChatRequest, Message, Role, SamplingParams
from tests.folder_models import FOLDER_TARGET
from tests.stopwatch import least

pytestmark = pytest.mark.release(reason="programs of others, which take seconds to start")

Views = Callable[..., Elsewhere]
_REVISION = "0" * 40


@dataclass(frozen=True)
class Peer:
    """A server that runs, and what is expected of it."""

    child: subprocess.Popen[str]
    place: Connect
    kind: ServerKind
    counts: bool
    """Whether it tells how many tokens there were."""


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


@pytest.fixture
def llama_cpp_python(starter: Path) -> Iterator[Peer]:
    try:
        python = find_interpreter()
    except Absent as absent:
        pytest.skip(str(absent))
    if subprocess.run([python, "-c", "import llama_cpp.server.app"], check=False).returncode:
        pytest.skip("llama-cpp-python is installed without its server")
    port = _free_port()
    started = process(
        str(python), "-m", "llama_cpp.server", "--model", str(starter), "--port", port,
        "--n_ctx", "1024", *("--n_threads", "1", "--n_threads_batch", "1"), PYTHONPATH="",
    )  # fmt: skip
    with started as child:
        yield Peer(child, ready(f"http://127.0.0.1:{port}", child), ServerKind.OTHER, counts=False)


@pytest.fixture
def llama_server(starter: Path) -> Iterator[Peer]:
    program = shutil.which("llama-server")
    if program is None:
        pytest.skip("llama-server is not installed")
    port = _free_port()
    # Threads of llama.cpp spin for one another: on busy cores, two take seconds for a token.
    with process(program, "-m", str(starter), "--port", port, "-c", "1024", "-t", "1") as child:
        place = ready(f"http://127.0.0.1:{port}", child)
        yield Peer(child, place, ServerKind.LLAMA_SERVER, counts=True)


@pytest.fixture
def transformers(tmp_path: Path) -> Iterator[Peer]:
    if not all(map(importlib.util.find_spec, ("fastapi", "accelerate"))):
        pytest.skip("transformers[serving] is not installed")
    folder = tmp_path / "hub" / "models--tests--small"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(_REVISION)
    shutil.copytree(FOLDER_TARGET, folder / "snapshots" / _REVISION)
    port = _free_port()
    started = process(
        sys.executable, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1",
        "--port", port, "--device", "cpu", HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1",
    )  # fmt: skip
    with started as child:
        yield Peer(child, ready(f"http://127.0.0.1:{port}", child), ServerKind.OTHER, counts=True)


@pytest.fixture(params=["llama_cpp_python", "llama_server", "transformers"])
def peer(request: pytest.FixtureRequest) -> Peer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Peer)
    return found


@pytest.fixture
def view(peer: Peer, elsewhere: Views) -> Elsewhere:
    view = elsewhere()
    view.board.submit(peer.place)
    view.wait(Connected)
    return view


def asked(id: str, tokens: int, begun: str = "") -> ChatRequest:  # noqa: A002
    messages = (*QUESTION, Message(Role.ASSISTANT, begun)) if begun else QUESTION
    return ChatRequest(id, messages, SamplingParams(seed=7), max_tokens=tokens)


def failures(view: Elsewhere) -> list[str]:
    return [each.cause for each in view.events if isinstance(each, Failed)]


def test_it_is_known_and_answers_again_and_again(peer: Peer, view: Elsewhere) -> None:
    assert peer.place.kind is peer.kind
    whole = view.answer(asked("whole", 24))
    assert failures(view) == []
    assert whole.reason is FinishReason.LENGTH
    assert whole.text == view.text != ""
    again = view.answer(asked("again", 24))  # llama.cpp rounds otherwise, where its cache helped
    assert again.reason is FinishReason.LENGTH
    assert view.text == whole.text + again.text
    stats = whole.stats
    assert stats.ttft_s is not None
    assert stats.committed == 24
    assert (stats.tokens_per_s is not None, stats.prompt_tokens > 0) == (peer.counts, peer.counts)
    own_speed = stats.host_tokens_per_s
    assert (own_speed is not None) == (peer.kind is ServerKind.LLAMA_SERVER)


def test_it_goes_on_with_an_answer_or_says_that_it_cannot(peer: Peer, view: Elsewhere) -> None:
    whole, half = view.answer(asked("whole", 24)), view.answer(asked("half", 8))
    rest = view.answer(asked("rest", 16, half.text))
    if peer.kind is ServerKind.LLAMA_SERVER:
        assert failures(view) == []
        assert half.text + rest.text == whole.text
    else:
        assert rest.reason is FinishReason.ERROR
        assert "cannot go on with an answer" in view.failure.cause


def test_it_is_stopped_in_the_middle_and_is_free_at_once(view: Elsewhere) -> None:
    names = (f"long-{number}" for number in count())

    def stopping() -> float:
        name, before = next(names), view.text
        view.ask(asked(name, 900))
        view.wait(TextDelta, lambda told: told.request_id == name)
        began = perf_counter()
        view.board.submit(Stop(name))
        stopped = view.wait(Finished, lambda told: told.request_id == name)
        assert stopped.reason is FinishReason.STOPPED
        assert before + stopped.text == view.text != before
        return float(stopped.at - began)

    assert least(stopping, 0.3) < 0.3
    assert view.answer(asked("again", 3)).reason is FinishReason.LENGTH
    assert failures(view) == []


def test_it_is_killed_in_the_middle_and_the_words_are_kept(peer: Peer, view: Elsewhere) -> None:
    view.ask(asked("long", 900))
    view.wait(TextDelta)
    peer.child.kill()
    finished = view.wait(Finished)
    assert finished.reason is FinishReason.ERROR
    assert finished.text == view.text != ""
    assert "broke before the answer was complete" in view.failure.cause
    peer.child.wait()
    assert view.answer(asked("again", 3)).reason is FinishReason.ERROR
    assert "cannot be reached" in failures(view)[-1]


@pytest.mark.parametrize("peer", ["llama_cpp_python", "llama_server"], indirect=True)
def test_a_conversation_that_is_too_long_is_told(peer: Peer, view: Elsewhere) -> None:
    turn = Message(Role.USER, "sea " * 3000)
    finished = view.answer(ChatRequest("long", (turn,), max_tokens=8))
    assert finished.reason is FinishReason.ERROR
    assert peer.place.url.removeprefix("http://").removesuffix("/v1") in view.failure.cause
    if peer.kind is ServerKind.LLAMA_SERVER:
        assert "The server says" in view.failure.cause
    else:
        assert "sent no answer" in view.failure.cause
