"""Everything that can go wrong with a server: plain words, and what came is kept."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from elsewhere import PATIENCE, QUESTION, Elsewhere
from played_server import DONE, HangUp, Heard, PlayedServer, Script, event, head, page, said

from engine.errors import UserFixable
from engine.events import Finished, FinishReason, TextDelta
from engine.remote import client
from engine.remote.address import ServerAddress
from engine.remote.client import Patience, ServerClient
from engine.request import ChatRequest

Play = Callable[..., PlayedServer]
Views = Callable[..., Elsewhere]


PATIENCES = 0.2, 1.0, 5.0, 25.0
"""Seconds to wait for a silent server: more where a busy machine has not even asked it in these."""


def failed(view: Elsewhere, url: str) -> Finished:
    view.connect(url)
    finished = view.answer()
    assert finished.reason is FinishReason.ERROR
    assert not view.failure.bug
    assert view.failure.remedy
    return finished


def given_up(play: Play, elsewhere: Views, script: Script) -> tuple[Elsewhere, PlayedServer]:
    """A view that has asked a server and waited in vain, and that server."""
    for seconds in PATIENCES:
        server, view = play(script), elsewhere(patience=Patience(connect=seconds, first=seconds))
        failed(view, server.url)
        if server.heard:
            return view, server
    raise AssertionError("it was never asked")


@pytest.mark.parametrize(
    ("status", "body", "headers", "cause", "remedy"),
    [
        (401, {"error": {"message": "bad key"}}, {}, "does not accept the key", "Check its key"),
        (403, {"detail": "no"}, {}, "does not accept the key", "Check its key"),
        (404, {"error": {"message": "no model m"}}, {}, "no model m", "Test the server again"),
        (408, {}, {}, "took too long", "still be loading"),
        (413, {}, {}, "too long for", "attach less"),
        (429, {}, {"retry_after": "7"}, "takes no more requests", "Try again in 7 seconds."),
        (429, {}, {"retry_after": "soon"}, "takes no more requests", "in a moment"),
        (429, {}, {"retry_after": "9" * 5000}, "takes no more requests", "in a moment"),
        (400, {"error": {"message": "top_k?"}}, {}, "top_k?", "sampling settings"),
        (500, {"object": "error", "message": "CUDA"}, {}, "CUDA", "log of the server"),
        (503, "starting", {}, "error 503", "log of the server"),
        (504, {}, {}, "took too long", "still be loading"),
    ],
)
def test_each_status_has_its_words(
    play: Play, elsewhere: Views, status: int, body: object, headers: dict[str, str],
    cause: str, remedy: str,
) -> None:  # fmt: skip
    server = play(lambda _: page(status, body, **headers))
    view = elsewhere()
    assert failed(view, server.url).text == ""
    assert cause in view.failure.cause
    assert remedy in view.failure.remedy
    assert str(status) in view.failure.details


def test_a_redirect_is_told_and_not_followed(play: Play, elsewhere: Views) -> None:
    other = play(lambda _: [head(), said("stolen"), DONE])
    server = play(lambda _: page(307, {}, location=f"{other.url}/chat/completions"))
    view = elsewhere(key="secret")
    failed(view, server.url)
    assert str(other.port) in view.failure.cause
    assert "Nothing was sent there" in view.failure.remedy
    assert other.heard == []


@pytest.mark.parametrize("key", ["schl\u00fcssel", "two\nlines"])
def test_a_key_that_cannot_be_sent(play: Play, elsewhere: Views, key: str) -> None:
    server = play(lambda _: [head(), said("Rain", "stop"), DONE])
    view = elsewhere(key=key)
    failed(view, server.url)
    assert "characters that no key has" in view.failure.cause
    assert server.heard == []


def test_nobody_listens(elsewhere: Views) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen, nor does anybody else meanwhile
        view = elsewhere()
        failed(view, f"http://127.0.0.1:{deaf.getsockname()[1]}/v1")
    assert "cannot be reached" in view.failure.cause


def test_a_server_that_never_begins(play: Play, elsewhere: Views) -> None:
    view, _ = given_up(play, elsewhere, lambda _: PlayedServer.until_hung_up(b""))
    assert "has not begun to answer" in view.failure.cause


def test_a_server_that_sends_its_head_and_nothing_more(play: Play, elsewhere: Views) -> None:
    def script(_: Heard) -> Iterator[bytes]:
        yield head()
        yield from PlayedServer.until_hung_up()  # comments are no answer

    view, server = given_up(play, elsewhere, script)
    assert "has not begun to answer" in view.failure.cause
    assert server.hung_up.wait(PATIENCE)


def test_a_server_that_ends_without_a_word(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), b": ping\n\n"])  # llama-cpp-python, with a long conversation
    view = elsewhere()
    failed(view, server.url)
    assert "sent no answer" in view.failure.cause
    assert "too long" in view.failure.remedy


def test_who_speaks_may_be_told_long_before_the_first_word(play: Play, elsewhere: Views) -> None:
    def script(_: Heard) -> Iterator[bytes]:
        yield head() + said("")
        yield from islice(PlayedServer.until_hung_up(), round(200 * between))  # twice as long
        yield said("Rain", "stop") + DONE

    for between in PATIENCES:
        view = elsewhere(patience=Patience(between=between))
        view.connect(play(script).url)
        finished = view.answer()
        if finished.reason is FinishReason.STOP:  # the connection may be slow to end
            break
    assert (finished.reason, finished.text) == (FinishReason.STOP, "Rain")


def test_a_server_that_tells_who_speaks_and_never_begins(play: Play, elsewhere: Views) -> None:
    def script(_: Heard) -> Iterator[bytes]:
        yield head() + said("")
        yield from PlayedServer.until_hung_up()

    view, _ = given_up(play, elsewhere, script)
    assert "has not begun to answer" in view.failure.cause


def test_a_server_that_falls_silent_keeps_what_came(play: Play, elsewhere: Views) -> None:
    def script(_: Heard) -> Iterator[bytes]:
        yield head() + said("Rain is ") + said("water")
        yield from server.until_hung_up()

    server = play(script)
    view = elsewhere(patience=Patience(between=0.3))
    assert failed(view, server.url).text == "Rain is water" == view.text
    assert "stopped sending" in view.failure.cause
    assert "Continue" in view.failure.remedy


@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_broken_connection_keeps_what_came(play: Play, elsewhere: Views, how: str) -> None:
    def script(_: Heard) -> Iterator[bytes]:
        yield head() + said("Rain is ") + said("wa")
        if how == "reset":
            view.wait(TextDelta, lambda told: told.text == "wa")
            raise HangUp

    server = play(script)
    view = elsewhere()
    assert failed(view, server.url).text == "Rain is wa" == view.text
    assert "broke before the answer was complete" in view.failure.cause
    assert "Continue" in view.failure.remedy


@pytest.mark.parametrize(
    "sent",
    [b"data: {not json\n\n", b"data: [1, 2]\n\n", b'data: {"choices": 3}\n\n', b"data: null\n\n"],
)
def test_a_malformed_stream_keeps_what_came(play: Play, elsewhere: Views, sent: bytes) -> None:
    server = play(lambda _: [head(), said("Rain"), sent, said(" more"), DONE])
    view = elsewhere()
    assert failed(view, server.url).text == "Rain"
    assert "no answer of a model" in view.failure.cause


@pytest.mark.parametrize("body", [b"<html>Welcome to my router</html>", b"", b"[]", b'{"a": 1}'])
def test_a_page_that_is_no_answer(play: Play, elsewhere: Views, body: bytes) -> None:
    server = play(lambda _: [head(kind="text/html"), body])
    view = elsewhere()
    failed(view, server.url)
    assert "no answer of a model" in view.failure.cause
    assert "/v1" in view.failure.remedy


def test_a_server_that_does_not_stream_is_understood(play: Play, elsewhere: Views) -> None:
    message = {"role": "assistant", "content": "Rain is water."}
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    server = play(lambda _: page(200, body))
    view = elsewhere()
    view.connect(server.url)
    finished = view.answer()
    assert (finished.text, finished.reason) == ("Rain is water.", FinishReason.STOP)


def test_an_error_in_the_middle_of_a_stream(play: Play, elsewhere: Views) -> None:
    trouble = event(error={"message": "the\nGPU fell off\x07", "code": 500})
    server = play(lambda _: [head(), said("Rain"), trouble, DONE])
    view = elsewhere()
    assert failed(view, server.url).text == "Rain"
    assert "the GPU fell off" in view.failure.cause


def test_an_event_without_an_end(play: Play, elsewhere: Views) -> None:
    def script(_: Heard) -> Iterator[bytes]:
        yield head() + said("Rain") + b"data: "
        yield from server.until_hung_up(b"x" * 100_000)

    server = play(script)
    view = elsewhere()
    assert failed(view, server.url).text == "Rain"
    assert server.hung_up.wait(PATIENCE)


def test_a_server_that_sends_for_ever_is_hung_up_on(
    play: Play, elsewhere: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", 100_000)

    def script(_: Heard) -> Iterator[bytes]:
        yield head()
        yield from server.until_hung_up(said("rain " * 100))

    server = play(script)
    view = elsewhere()
    finished = failed(view, server.url)
    assert "far more than an answer" in view.failure.cause
    assert 50_000 < len(finished.text) <= 100_000
    assert server.hung_up.wait(PATIENCE)


def test_a_server_that_ignores_the_longest_answer(play: Play, elsewhere: Views) -> None:
    def script(_: Heard) -> Iterator[bytes]:
        yield head()
        yield from server.until_hung_up(said("drop "))

    server = play(script)
    view = elsewhere()
    view.connect(server.url)
    finished = view.answer(ChatRequest("a", QUESTION, max_tokens=5))
    assert finished.reason is FinishReason.LENGTH
    assert finished.text == "drop " * 6  # it may have counted otherwise by one
    assert server.hung_up.wait(PATIENCE)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_that_nobody_knows(play: Play, elsewhere: Views, tmp_path: Path) -> None:
    certificate = tmp_path / "own.pem"
    make = ("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
            f"-keyout {certificate} -out {tmp_path / 'cert.pem'}")  # fmt: skip
    subprocess.run(make.split(), check=True, capture_output=True)
    certificate.write_text(certificate.read_text() + (tmp_path / "cert.pem").read_text())
    server = play(lambda _: [head(), said("Rain", "stop"), DONE], certificate=certificate)
    view = elsewhere()
    failed(view, server.url)
    assert "encrypted connection" in view.failure.cause
    assert "SSL_CERT_FILE" in view.failure.remedy


def test_http_is_asked_over_https(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), said("Rain", "stop"), DONE])
    view = elsewhere()
    failed(view, server.url.replace("http:", "https:"))
    assert "expects http" in view.failure.remedy


def test_a_mistake_of_ours_is_told_as_one(
    play: Play, elsewhere: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = play(lambda _: [head(), said("Rain", "stop"), DONE])
    monkeypatch.setattr(client, "read_chunk", lambda _: 1 / 0)
    view = elsewhere()
    view.connect(server.url)
    assert view.answer().reason is FinishReason.ERROR
    assert view.failure.bug


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        ([head(kind="application/json"), b"{"], "sent something that is no answer of a model"),
        (page(200, {"data": []}), "has no model that can chat"),
        (page(200, {"data": ["x" * 100] * 50_000}), "sent something that is no answer of a model"),
        ([head(), b""], "sent something that is no answer of a model"),
    ],
)
def test_a_list_of_models_that_is_none(play: Play, sent: list[bytes], cause: str) -> None:
    server = play(lambda _: sent)
    with pytest.raises(UserFixable) as error:
        asyncio.run(ServerClient(ServerAddress.typed(server.url), None).catalogue())
    assert cause in error.value.cause


def test_a_list_of_models_that_does_not_come(play: Play) -> None:
    for seconds in PATIENCES:
        server = play(lambda _: PlayedServer.until_hung_up(head(kind="application/json")))
        patience = Patience(connect=seconds, page=seconds)
        asked = ServerClient(ServerAddress.typed(server.url), None, patience)
        with pytest.raises(UserFixable) as error:
            asyncio.run(asked.catalogue())
        if server.heard:
            break
    assert "has not begun to answer" in error.value.cause
    assert server.hung_up.wait(PATIENCE)


def test_an_error_in_place_of_a_whole_answer(play: Play, elsewhere: Views) -> None:
    view = elsewhere()
    failed(view, play(lambda _: page(200, {"error": {"message": "the GPU is gone"}})).url)
    assert "the GPU is gone" in view.failure.cause
