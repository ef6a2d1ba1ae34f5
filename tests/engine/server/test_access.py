"""Who may ask: attacks by name, each refused before anything of the request is read."""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import Any

import pytest
from played_engine import TOKEN, PlayedEngine, ask, exchange

from engine.server import access
from engine.server.settings import ServerSettings

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello, this is private."}]}


@pytest.fixture
def engine() -> PlayedEngine:
    return PlayedEngine()


def refused(engine: PlayedEngine, status: int, **wishes: Any) -> Any:
    """A request that is refused, without a word to the engine; the error."""
    app = engine.application(**wishes.pop("settings", {}))
    reply = ask(app, wishes.pop("path", CHAT), wishes.pop("body", HELLO), **wishes)
    assert reply.status == status, reply.body
    assert engine.commands == []
    assert set(reply.json["error"]) == {"message", "type", "param", "code"}
    return reply.json["error"]


def test_with_its_token_a_program_is_let_in(engine: PlayedEngine) -> None:
    assert ask(engine.application(), CHAT, HELLO).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "rebound.attacker.example",
        "rebound.attacker.example:8000",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example:8000",
        "attacker.example@127.0.0.1",
        "[attacker.example]:8000",
        "",
        None,
    ],
)
def test_dns_rebinding_is_refused(engine: PlayedEngine, host: str | None) -> None:
    """A page's own name that points to this computer, even with the right token."""
    error = refused(engine, 403, headers={"host": host})
    assert error["code"] == "host_not_allowed"


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]:8000", "[::1]"]
)
def test_names_of_this_computer_are_taken(engine: PlayedEngine, host: str) -> None:
    assert ask(engine.application(), CHAT, HELLO, headers={"host": host}).status == 200


def test_a_foreign_host_is_taken_where_it_is_allowed(engine: PlayedEngine) -> None:
    app = engine.application(hosts=frozenset({"Model.Example"}))
    assert ask(app, CHAT, HELLO, headers={"host": "model.example:80"}).status == 200
    assert ask(app, CHAT, HELLO, headers={"host": "other.example"}).status == 403


@pytest.mark.parametrize(
    "host",
    ["host.docker.internal:8484", "mypc.local", "nas.lan", "pc.home.arpa", "x.tailnet.ts.net:1"],
)
def test_names_that_networks_give_themselves_are_taken_with_the_token(host: str) -> None:
    engine = PlayedEngine()
    app = engine.application(token="secret")
    headers = {"host": host, "authorization": "Bearer secret"}
    assert ask(app, CHAT, HELLO, headers=headers).status == 200
    wrong = ask(app, CHAT, HELLO, headers=headers | {"authorization": "Bearer x"})
    assert wrong.status == 401
    assert ask(engine.application(token=None), CHAT, HELLO, headers={"host": host}).status == 403


def test_a_refused_name_is_told_where_to_allow_it(engine: PlayedEngine) -> None:
    error = refused(engine, 403, headers={"host": "mypc.fritz.box"})
    assert "--allow-host" in error["message"]
    assert "settings" in error["message"]


def test_the_foreign_host_is_refused_before_the_token_is_looked_at(
    engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hmac, "compare_digest", pytest.fail)
    refused(engine, 403, headers={"host": "attacker.example", "authorization": "Bearer guess"})


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics", CHAT])
def test_a_foreign_host_reaches_no_path(engine: PlayedEngine, path: str) -> None:
    body = HELLO if path == CHAT else None
    refused(engine, 403, path=path, body=body, headers={"host": "attacker.example"})


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "text/plain; charset=application/json", "application/x-www-form-urlencoded",
     "multipart/form-data; boundary=json", "", "application/jsonp", None],
)  # fmt: skip
def test_csrf_by_text_plain_is_refused(engine: PlayedEngine, kind: str | None) -> None:
    """A form or a fetch without preflight can send JSON as text; a server without a token asks."""
    refused(
        engine,
        415,
        headers={"content-type": kind, "authorization": None},
        settings={"token": None},
    )


@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://localhost:3000"])
def test_a_web_page_may_not_ask(engine: PlayedEngine, origin: str) -> None:
    error = refused(engine, 403, headers={"origin": origin})
    assert error["code"] == "origin_not_allowed"


def test_an_allowed_web_page_may_ask(engine: PlayedEngine) -> None:
    page = "https://chat.example"
    app = engine.application(origins=frozenset({page}))
    before = ask(app, CHAT, None, method="OPTIONS", headers={"origin": page, "authorization": None})
    assert before.status == 204
    assert "authorization" in before.headers["access-control-allow-headers"]
    assert before.headers["access-control-allow-private-network"] == "true"
    wanted = {"origin": page, "access-control-request-headers": "x-stainless-lang"}
    before = ask(app, CHAT, None, method="OPTIONS", headers=wanted)
    assert before.headers["access-control-allow-headers"] == "x-stainless-lang"
    reply = ask(app, CHAT, HELLO, headers={"origin": page})
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == page
    wrong = ask(app, CHAT, HELLO, headers={"origin": page, "authorization": "Bearer no"})
    assert (wrong.status, wrong.headers["access-control-allow-origin"]) == (401, page)
    other = ask(app, CHAT, HELLO, headers={"origin": "https://chat.example.attacker.example"})
    assert other.status == 403
    assert "access-control-allow-origin" not in other.headers


def test_a_preflight_of_a_page_that_is_not_allowed_is_refused(engine: PlayedEngine) -> None:
    refused(engine, 403, body=None, method="OPTIONS", headers={"origin": "https://evil.example"})


GUESSES = [
    None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x",
    f"Bearer {TOKEN.upper()}", f"Bearer x{TOKEN}", f"{TOKEN}", "Bearer \xff\xfe", "Bearer null",
]  # fmt: skip


@pytest.mark.parametrize("guess", GUESSES)
def test_token_guessing_is_refused(engine: PlayedEngine, guess: str | None) -> None:
    error = refused(engine, 401, headers={"authorization": guess})
    assert error["code"] == "invalid_api_key"


def test_token_guessing_learns_nothing_from_the_time(
    engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digests of one length are compared, in the library's constant time."""
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for guess in ("Bearer a", f"Bearer {TOKEN[:10]}", f"Bearer {'x' * 5000}", f"Bearer {TOKEN}"):
        ask(engine.application(), CHAT, HELLO, headers={"authorization": guess})
    assert {len(part) for pair in compared for part in pair} == {32}
    assert [one == other for one, other in compared] == [False, False, False, True]


def test_token_guessing_becomes_slow_and_holds_nobody_else_up(
    engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(access.asyncio, "sleep", sleep)
    app = engine.application()

    async def guess() -> None:
        for number in range(30):
            header = {"authorization": f"Bearer guess {number}"}
            assert (await exchange(app, "/v1/models", headers=header)).status == 401
        assert (await exchange(app, "/v1/models")).status == 200

    asyncio.run(guess())
    assert waited == [1.0] * 20


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/models/x", "/nothing", CHAT])
def test_without_the_token_only_health_is_told(engine: PlayedEngine, path: str) -> None:
    app = engine.application()
    bare = {"authorization": None}
    assert ask(app, path, HELLO if path == CHAT else None, headers=bare).status == 401
    assert ask(app, "/health", headers=bare).json == {"status": "ok"}


def test_anthropics_clients_send_the_token_their_way(engine: PlayedEngine) -> None:
    headers = {"authorization": None, "x-api-key": TOKEN}
    assert ask(engine.application(), CHAT, HELLO, headers=headers).status == 200


def test_a_body_that_is_announced_too_long_is_refused_unread(engine: PlayedEngine) -> None:
    most = ServerSettings().max_body_bytes
    error = refused(engine, 413, body=b"{}", headers={"content-length": str(most + 1)})
    assert error["code"] == "request_too_large"


@pytest.mark.parametrize("length", ["-1", "ten", "1e3", "9" * 5000])
def test_a_length_that_is_none_is_refused(engine: PlayedEngine, length: str) -> None:
    refused(engine, 413, body=b"{}", headers={"content-length": length})


def test_a_body_that_turns_out_too_long_is_refused(engine: PlayedEngine) -> None:
    refused(
        engine, 413, body=b" " * 101, headers={"content-length": None}, pieces=10,
        settings={"max_body_bytes": 100},
    )  # fmt: skip


def test_a_body_that_never_arrives_is_given_up(engine: PlayedEngine) -> None:
    app = engine.application(body_timeout=0.01)

    async def stalled() -> int:
        status = 0

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        headers = {
            "host": "localhost",
            "authorization": f"Bearer {TOKEN}",
            "content-type": "application/json",
        }
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": raw, "client": None}
        await app(scope, receive, send)
        return status

    assert asyncio.run(stalled()) == 408


def test_nothing_of_a_request_is_logged(
    engine: PlayedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = engine.application()
    assert ask(app, CHAT, HELLO).status == 200
    assert ask(app, CHAT, b'{"messages": [{"content": "Hello, this is private."').status == 400

    def broken(_command: object) -> None:
        raise ZeroDivisionError("Hello, this is private.")

    engine.dispatcher.open(broken)
    reply = ask(app, CHAT, HELLO)
    assert reply.status == 500
    assert b"private" not in reply.body
    assert "ZeroDivisionError" in caplog.text
    assert "private" not in caplog.text
    assert "Good day" not in caplog.text
