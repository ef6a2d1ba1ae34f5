"""What programs of all kinds send and expect: waiting, names, paths, bodies, pages."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from dialect_bodies import CHAT, HELLO, MESSAGES, RESPONSES, told
from played_engine import NAME, TOKEN, PlayedEngine, ask, exchange, until

from engine.errors import UserFixable
from engine.events import Failed, FailureKind
from engine.server import exchange as exchanges
from engine.server.api_error import ApiError
from engine.server.queue import RequestQueue
from engine.server.settings import ServerSettings


def test_a_crowd_waits_and_no_client_has_all_places() -> None:
    async def crowd() -> ApiError:
        queue = RequestQueue(ServerSettings().max_waiting)
        with await queue.enter("first"):
            waiting = [
                asyncio.ensure_future(queue.enter(f"client {n % 24}")) for n in range(24 * 4)
            ]
            greedy = [asyncio.ensure_future(queue.enter("greedy")) for _ in range(64)]
            await asyncio.sleep(0)
            assert queue.waiting == 24 * 4 + 64
            with pytest.raises(ApiError) as refused:
                await queue.enter("greedy")
            polite = asyncio.ensure_future(queue.enter("polite"))
            await asyncio.sleep(0)
            assert not polite.done()
            for each in (*waiting, *greedy, polite):
                each.cancel()
        return refused.value

    refusal = asyncio.run(crowd())
    assert refusal.status == 429
    assert int(refusal.headers["retry-after"]) <= 31


def test_a_client_that_waits_hears_from_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "BEGIN_S", 0.0)
    monkeypatch.setattr(exchanges, "PING_S", 0.01)
    streamed = behind_another(CHAT, HELLO | {"stream": True})
    assert streamed.status == 200
    assert streamed.body.startswith(b": ping\n\n")
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert b"Good" in streamed.body


def test_what_fails_behind_a_ping_is_told_in_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "BEGIN_S", 0.0)
    monkeypatch.setattr(exchanges, "PING_S", 0.01)
    failure = Failed(0.0, None, "No.", "Never.")
    failed = behind_another(CHAT, HELLO | {"stream": True}, failure)
    assert failed.status == 200
    assert b'"message":"No. Never."' in failed.body


@pytest.mark.parametrize("name", ["gpt-4o", "my-alias", NAME])
def test_names_that_clients_have_built_in(name: str) -> None:
    engine = PlayedEngine()
    body = HELLO | {"model": name}
    free = engine.application(any_name=True)
    assert ask(free, CHAT, body).json["model"] == NAME  # the answer tells the true one
    strict = engine.application(aliases=frozenset({"my-alias"}))
    assert ask(strict, CHAT, body).status == (404 if name == "gpt-4o" else 200)


def test_overflow_is_told_in_the_words_that_clients_look_for() -> None:
    failure = Failed(
        0.0, None, "Too long.", "Shorten.", kind=FailureKind.CONTEXT_FULL, needed=9, available=8
    )
    answer = ask(PlayedEngine(failure=failure).application(), CHAT, HELLO)
    assert answer.status == 400
    assert "maximum context length is 8 tokens" in answer.json["error"]["message"]


def test_paths_and_methods() -> None:
    app = PlayedEngine().application()
    assert ask(app, "/v1/models/").json == ask(app, "/v1/models").json
    assert ask(app, "/v1/v1/messages", HELLO | {"max_tokens": 5}).json["type"] == "message"
    assert ask(app, "/health", method="HEAD").status == 200
    assert ask(app, CHAT, method="GET").status == 405


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(json.dumps(HELLO).encode()), {"content-encoding": "gzip"}),
        (b"\xef\xbb\xbf" + json.dumps(HELLO).encode(), {}),
        (
            json.dumps(HELLO).encode("utf-16"),
            {"content-type": "application/json; charset=utf-16"},
        ),
    ],
    ids=["gzip", "mark", "utf-16"],
)
def test_bodies_are_read_as_their_headers_say(body: bytes, headers: dict[str, str]) -> None:
    engine = PlayedEngine()
    assert ask(engine.application(), CHAT, body, headers=headers).status == 200
    assert engine.asked.request.messages[0].text == "Hello"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (gzip.compress(b"[" * (17 << 20)), {"content-encoding": "gzip"}, 413),
        (gzip.compress(b'{"a": 1}')[:-9], {"content-encoding": "gzip"}, 413),
        (b"nothing packed", {"content-encoding": "gzip"}, 400),
        (b"{}", {"content-encoding": "br"}, 415),
        (b"{}", {"content-type": "application/json; charset=ebcdic"}, 415),
    ],
    ids=["bomb", "cut", "none", "br", "ebcdic"],
)
def test_bodies_that_cannot_be_read_are_refused(
    body: bytes, headers: dict[str, str], status: int
) -> None:
    assert ask(PlayedEngine().application(), CHAT, body, headers=headers).status == status


@pytest.mark.parametrize("allowed", ["*", "https://chat.example/", "https://Chat.example"])
def test_origins_are_compared_as_people_write_them(allowed: str) -> None:
    app = PlayedEngine().application(origins=frozenset({allowed}))
    answer = ask(app, CHAT, HELLO, headers={"origin": "https://chat.example"})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert "retry-after" in answer.headers["access-control-expose-headers"]


def test_host_names_may_have_a_port() -> None:
    app = PlayedEngine().application(hosts=frozenset({"box:18103"}))
    assert ask(app, "/v1/models", headers={"host": "box:18103"}).status == 200


def test_a_key_without_its_certificate_is_refused(tmp_path: Any) -> None:
    key = tmp_path / "key.pem"
    key.write_text("")
    with pytest.raises(UserFixable, match="does not encrypt"):
        ServerSettings(key=key).check()


def test_answers_that_nobody_waited_for_are_counted() -> None:
    engine = PlayedEngine(holds=True)
    app = engine.application()

    async def run() -> None:
        leaves = asyncio.Event()
        asked = asyncio.ensure_future(exchange(app, CHAT, HELLO | {"stream": True}, gone=leaves))
        await until(lambda: engine.commands)
        leaves.set()
        await asked

    asyncio.run(run())
    told = ask(app, "/metrics").body.decode()
    assert "duotail_cancelled_total 1" in told
    assert 'duotail_queue_seconds_bucket{le="+Inf"} 1' in told


def test_errors_of_anthropics_clients_have_their_shape() -> None:
    answer = ask(PlayedEngine().application(), MESSAGES, HELLO, headers={"authorization": TOKEN})
    assert answer.json["type"] == "error"


def behind_another(path: str, body: Any, failure: Failed | None = None) -> Any:
    """The reply to a request that got three signs of life while another was answered."""
    engine = PlayedEngine(holds=True)
    app = engine.application()
    signs: list[int] = []

    async def run() -> Any:
        leaves = asyncio.Event()
        first = asyncio.ensure_future(exchange(app, CHAT, HELLO, gone=leaves))
        await until(lambda: engine.commands)
        second = asyncio.ensure_future(exchange(app, path, body, told=signs))
        await until(lambda: len(signs) > 2)
        engine.holds, engine.failure = False, failure
        leaves.set()
        await first
        return await second

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_in_one_piece_has_signs_of_life_too(
    monkeypatch: pytest.MonkeyPatch, path: str, fails: bool
) -> None:
    """Blanks before its JSON, which then may be an error: the status has been sent."""
    monkeypatch.setattr(exchanges, "PING_S", 0.01)
    failure = Failed(0.0, "", "It did not fit.", "Ask less.") if fails else None
    reply = behind_another(path, HELLO | {"stream": False}, failure)
    assert reply.status == 200
    assert reply.body.startswith(b"  ")
    assert b"did not fit" in reply.body if fails else "Good day!" in str(reply.json)
    assert isinstance(reply.json, dict)


def test_a_stream_of_ollamas_has_signs_of_life_that_its_clients_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchanges, "BEGIN_S", 0.0)
    monkeypatch.setattr(exchanges, "PING_S", 0.01)
    parts = behind_another("/api/chat", HELLO).events
    assert parts[0]["message"]["content"] == ""
    assert "".join(part["message"]["content"] for part in parts) == "Good day!"
    assert parts[-1]["done"]


def test_models_have_the_names_that_anthropics_clients_read() -> None:
    (card,) = ask(PlayedEngine().application(), "/v1/models").json["data"]
    assert (card["display_name"], card["type"]) == (NAME, "model")
    assert card["created_at"].endswith("+00:00")


def test_references_to_what_nobody_stored_are_passed_over() -> None:
    engine = PlayedEngine()
    turns = [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "Hello"}]
    told(RESPONSES, {"input": turns}, engine)
    assert [each.text for each in engine.asked.request.messages] == ["Hello"]
