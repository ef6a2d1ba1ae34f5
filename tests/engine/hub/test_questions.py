"""Questions answered by a process of its own: newest first, crashes survived, ended when idle."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from local_hub import LocalHub

from engine import language
from engine.hub.messages import Access, Describe, DescribedModel, Refused, Results, Search
from engine.hub.questions import HubQuestions
from engine.hub.remote.connection import make_sure_of
from engine.hub.remote.faults import Fault, HubError

ROOT = Path(__file__).parents[3]
REPO = "someone/some-gguf"
WAIT_S = 240.0
"""Where a busy machine would need longer, something is broken."""


class Asker:
    """Questions, and the answers as they come."""

    def __init__(self, hub: LocalHub, idle_s: float = WAIT_S) -> None:
        self.access = Access(endpoint=hub.url)
        self._told = queue.Queue[Results | DescribedModel | Refused]()
        self.questions = HubQuestions(self._told.put, idle_s)

    def search(self, words: str) -> Search:
        question = Search(self.access, words)
        self.questions.ask(question)
        return question

    def describe(self, repo: str = REPO, revision: str | None = None) -> Describe:
        question = Describe(self.access, repo, revision)
        self.questions.ask(question)
        return question

    def next(self) -> Results | DescribedModel | Refused:
        return self._told.get(timeout=WAIT_S)

    def all_told(self) -> bool:
        return self._told.empty()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.delenv("HF_HUB_OFFLINE")  # for the process that is started
    with LocalHub() as running:
        running.publish(REPO, {"m-Q8_0.gguf": b"weights"}, facts={"tags": ["gguf"]})
        yield running


@pytest.fixture
def asker(hub: LocalHub) -> Iterator[Asker]:
    asker = Asker(hub)
    yield asker
    asker.questions.close(WAIT_S)


def wait_for_the_end_of(process: psutil.Process) -> None:
    """Nobody may be there who takes note of its end."""
    deadline = time.monotonic() + WAIT_S
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "it goes on"
        threading.Event().wait(0.01)


def process(asker: Asker) -> psutil.Process:
    number = asker.questions.process_id
    assert number is not None
    return psutil.Process(number)


def test_searches_and_descriptions_are_answered(asker: Asker) -> None:
    question = asker.search("some")
    told = asker.next()
    assert isinstance(told, Results)
    assert told.asked == question
    assert [each.repo for each in told.found] == [REPO]
    asker.describe()
    described = asker.next()
    assert isinstance(described, DescribedModel)
    assert [each.name for each in described.repository.variants] == ["Q8_0"]


def test_the_newest_search_wins_and_descriptions_are_answered_beside_it(
    hub: LocalHub, asker: Asker
) -> None:
    old = hub.answer("/api/models", 200, body=b"[]", held=True)
    asker.search("first")
    assert old.reached.wait(WAIT_S)
    asker.describe()
    assert isinstance(asker.next(), DescribedModel)
    newest = asker.search("some")
    told = asker.next()
    assert isinstance(told, Results)
    assert told.asked == newest
    old.release()
    asker.describe(revision="no-such-state")
    assert isinstance(asker.next(), Refused), "the old search is never told"
    assert asker.all_told()


def test_a_refusal_is_told_in_words_and_in_the_language_in_use(hub: LocalHub) -> None:
    language.use(language.PSEUDO)
    try:
        asker = Asker(hub)
        hub.answer(f"/api/models/{REPO}", 403, headers={"X-Error-Code": "GatedRepo"})
        question = asker.describe()
        told = asker.next()
        asker.questions.close(WAIT_S)
    finally:
        language.use(language.ENGLISH)
    assert isinstance(told, Refused)
    assert (told.asked, told.kind) == (question, Fault.GATED)
    assert REPO in told.cause
    assert told.cause.startswith("[")
    assert f"{hub.url}/{REPO}" in told.remedy


def test_a_crash_is_survived_once(hub: LocalHub, asker: Asker) -> None:
    for crash in (True, False):
        held = hub.answer("/api/models", 200, body=b"[]", held=True)
        question = asker.search(f"words {crash}")
        assert held.reached.wait(WAIT_S)
        if crash:
            process(asker).kill()
            told = asker.next()
            assert isinstance(told, Results)
            assert told.asked == question
            continue
        again = hub.answer("/api/models", 200, body=b"[]", held=True)
        process(asker).kill()
        assert again.reached.wait(WAIT_S)
        process(asker).kill()
        refused = asker.next()
        assert isinstance(refused, Refused)
        assert (refused.asked, refused.kind) == (question, Fault.CRASHED)
    asker.search("some")
    assert isinstance(asker.next(), Results)


def test_the_process_ends_when_idle_and_starts_again(hub: LocalHub) -> None:
    asker = Asker(hub, idle_s=0.01)
    for _ in range(2):
        asker.search("some")
        assert isinstance(asker.next(), Results)
        number = asker.questions.process_id
        if number is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                wait_for_the_end_of(psutil.Process(number))
    asker.questions.close(WAIT_S)
    assert asker.questions.process_id is None


def test_another_proxy_is_another_process(hub: LocalHub, asker: Asker) -> None:
    asker.search("some")
    assert isinstance(asker.next(), Results)
    first = asker.questions.process_id
    access = Access(endpoint="http://hub.invalid", proxy=hub.url)
    asker.questions.ask(Search(access, "some"))
    told = asker.next()
    assert isinstance(told, Results)
    assert [each.repo for each in told.found] == [REPO]
    assert hub.asked[-1].path.startswith("http://hub.invalid/")
    assert asker.questions.process_id != first


def test_what_is_asked_of_another_proxy_stays_asked(hub: LocalHub, asker: Asker) -> None:
    held = hub.answer(f"/api/models/{REPO}", 200, body=b"{}", held=True)
    described = asker.describe()
    assert held.reached.wait(WAIT_S)
    asker.questions.ask(Search(Access(endpoint="http://hub.invalid", proxy=hub.url), "some"))
    told = {type(each): each for each in (asker.next(), asker.next())}
    assert told.keys() == {Results, DescribedModel}
    assert told[DescribedModel].asked == described


def test_a_process_that_does_not_start_is_told(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("too many processes")

    monkeypatch.setattr("engine.hub.questions._Worker.start", fails)
    question = asker.search("some")
    told = asker.next()
    assert isinstance(told, Refused)
    assert (told.asked, told.kind) == (question, Fault.CRASHED)
    assert "too many processes" in told.details


def test_close_ends_all_and_later_questions_do_nothing(hub: LocalHub, asker: Asker) -> None:
    held = hub.answer("/api/models", 200, body=b"[]", held=True)
    asker.search("first")
    assert held.reached.wait(WAIT_S)
    worker = process(asker)
    asker.questions.close(WAIT_S)
    assert not worker.is_running()
    asker.search("second")
    asker.questions.close(WAIT_S)
    assert asker.all_told()
    HubQuestions(lambda _told: None).close()


def test_a_listener_that_fails_does_not_end_the_questions(hub: LocalHub) -> None:
    heard = queue.Queue[object]()

    def listen(told: object) -> None:
        heard.put(told)
        raise ValueError("a listener's mistake")

    questions = HubQuestions(listen)
    for _ in range(2):
        questions.ask(Search(Access(endpoint=hub.url), "some"))
        assert isinstance(heard.get(timeout=WAIT_S), Results)
    questions.close(WAIT_S)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_process_ends_with_the_window(hub: LocalHub, tmp_path: Path) -> None:
    """Which is killed, so that it cannot tell anybody; and nothing of the hub was imported."""
    file = tmp_path / "window.py"
    file.write_text(
        textwrap.dedent(
            """
            import queue, sys, time
            from engine.hub.questions import HubQuestions
            from engine.hub.messages import Search
            from engine.hub.messages import Access

            if __name__ == "__main__":
                told = queue.Queue()
                questions = HubQuestions(told.put)
                questions.ask(Search(Access(endpoint=sys.argv[1]), "some"))
                assert told.get().found
                hub = {"huggingface_hub", "httpx", "httpx2", "requests", "torch"}
                assert not hub & set(sys.modules), hub & set(sys.modules)
                print(questions.process_id, flush=True)
                while True:
                    time.sleep(60)
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(file), hub.url], stdout=subprocess.PIPE, env=environment
    ) as window:
        assert window.stdout is not None
        worker = psutil.Process(int(window.stdout.readline()))
        window.send_signal(signal.SIGKILL)
        window.wait(WAIT_S)
    with contextlib.suppress(psutil.NoSuchProcess):
        wait_for_the_end_of(worker)


def test_a_name_server_that_is_silent_counts_as_no_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answers.wait(WAIT_S))
    with pytest.raises(HubError) as error:
        make_sure_of("https://silent.example", within_s=0.01)
    answers.set()
    assert error.value.trouble.fault is Fault.OFFLINE
    assert "silent.example" in error.value.trouble.details


def test_a_name_that_nobody_knows_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(HubError) as error:
        make_sure_of("https://unknown.example", within_s=WAIT_S)
    assert "not known" in error.value.trouble.details
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    make_sure_of("https://unknown.example", within_s=WAIT_S)  # the proxy knows it, or nobody
