"""Turns: one request at a time, clients in rotation, a queue of limited length."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from played_engine import NAME, PlayedEngine, exchange, until

from engine.commands import Stop
from engine.events import Failed
from engine.server.api_error import ApiError
from engine.server.events import RequestState
from engine.server.queue import RequestQueue

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


async def turns_of(queue: RequestQueue, clients: str) -> str:
    """Everybody asks at once; who has had a turn, in order."""
    served = []

    async def take(client: str) -> None:
        with await queue.enter(client):
            served.append(client)
            await asyncio.sleep(0)

    await asyncio.gather(*map(take, clients))
    return "".join(served)


def test_a_client_with_many_requests_holds_up_no_other() -> None:
    assert asyncio.run(turns_of(RequestQueue(99), "aaaaabbc")) == "aabcabaa"


def test_too_many_are_refused_and_told_when_to_come_back() -> None:
    async def crowd() -> ApiError:
        queue = RequestQueue(2)
        with await queue.enter("a"):
            waiting = [asyncio.ensure_future(queue.enter(client)) for client in "bc"]
            await asyncio.sleep(0)
            assert (queue.running, queue.waiting) == (1, 2)
            with pytest.raises(ApiError) as refused:
                await queue.enter("d")
        for turn in waiting:
            (await turn).close()
        assert (queue.running, queue.waiting) == (0, 0)
        return refused.value

    refusal = asyncio.run(crowd())
    assert (refusal.status, refusal.headers["retry-after"]) == (429, "3")


@pytest.mark.parametrize("leaving", ["waiting", "as its turn comes"])
def test_who_leaves_the_queue_holds_up_nobody(leaving: str) -> None:
    async def run() -> None:
        queue = RequestQueue(9)
        first = await queue.enter("a")
        impatient, next_one = (asyncio.ensure_future(queue.enter(client)) for client in "bc")
        await asyncio.sleep(0)
        if leaving == "waiting":
            impatient.cancel()
            await asyncio.sleep(0)
        first.close()
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        (await next_one).close()
        assert (queue.running, queue.waiting) == (0, 0)
        (await queue.enter("d")).close()

    asyncio.run(run())


def test_a_turn_ends_once() -> None:
    async def run() -> int:
        queue = RequestQueue(9)
        with await queue.enter("a") as turn:
            other = asyncio.ensure_future(queue.enter("b"))
            await asyncio.sleep(0)
            turn.close()
            await other
        return queue.running

    assert asyncio.run(run()) == 1


def test_a_request_behind_a_full_queue_is_refused() -> None:
    engine = PlayedEngine(holds=True)
    app = engine.application(max_waiting=1)

    async def run() -> None:
        gone = asyncio.Event()
        first = asyncio.ensure_future(exchange(app, CHAT, HELLO, gone=gone))
        await until(lambda: engine.commands)
        second = asyncio.ensure_future(exchange(app, CHAT, HELLO, gone=gone))
        await until(lambda: len(engine.requests) == 2)
        reply = await exchange(app, CHAT, HELLO)
        assert (reply.status, reply.headers["retry-after"]) == (429, "2")
        assert reply.json["error"]["code"] == "queue_full"
        metrics = await exchange(app, "/metrics")
        assert b"duotail_requests_waiting 1\n" in metrics.body
        gone.set()
        await asyncio.gather(first, second)

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_stopped_when_its_client_is_gone(stream: bool) -> None:
    engine = PlayedEngine(holds=True)
    app = engine.application()

    async def run() -> None:
        gone = asyncio.Event()
        request = exchange(app, CHAT, HELLO | {"stream": stream}, gone=gone)
        asked = asyncio.ensure_future(request)
        await until(lambda: engine.commands)
        gone.set()
        await asked
        assert engine.commands[-1] == Stop(engine.asked.request.id)
        engine.holds = False
        assert (await exchange(app, CHAT, HELLO)).status == 200  # the turn was handed on

    asyncio.run(run())
    left, served = engine.requests
    assert left.state is RequestState.GONE
    assert served.state is RequestState.DONE


def test_a_client_that_is_gone_in_the_middle_of_its_request_is_told_nothing() -> None:
    engine = PlayedEngine()
    app = engine.application()

    async def half(scope: Any, receive: Any, send: Any) -> None:
        async def leaves() -> Any:
            message = await receive()
            return message if message["more_body"] else {"type": "http.disconnect"}

        await app(scope, leaves, send)

    assert asyncio.run(exchange(half, CHAT, HELLO, pieces=2)).status == 0
    assert engine.commands == []


def test_a_client_that_is_gone_while_it_waits_asks_the_engine_nothing() -> None:
    engine = PlayedEngine(holds=True)
    app = engine.application()

    async def run() -> None:
        stays, leaves = asyncio.Event(), asyncio.Event()
        first = asyncio.ensure_future(exchange(app, CHAT, HELLO, gone=stays))
        await until(lambda: engine.commands)
        second = asyncio.ensure_future(exchange(app, CHAT, HELLO, gone=leaves))
        await until(lambda: len(engine.requests) == 2)
        leaves.set()
        await second
        assert len(engine.commands) == 1
        stays.set()
        await first

    asyncio.run(run())


def test_a_slow_client_holds_up_no_other() -> None:
    """Its turn ends with the answer, not with its reading of it."""
    engine = PlayedEngine()
    app = engine.application()

    async def run() -> None:
        reads = asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            async def send_slowly(message: Any) -> None:
                await reads.wait()
                await send(message)

            await app(scope, receive, send_slowly)

        first = asyncio.ensure_future(exchange(slow, CHAT, HELLO | {"stream": True}))
        await until(lambda: engine.commands)
        second = asyncio.ensure_future(exchange(app, CHAT, HELLO))
        for _ in range(1000):  # far more steps than it takes
            await asyncio.sleep(0)
        assert second.done()
        assert not first.done()
        reads.set()
        assert (await second).status == 200
        assert (await first).events[-1] == "[DONE]"

    asyncio.run(run())


def test_requests_are_told_with_their_origin_and_without_their_content() -> None:
    engine = PlayedEngine()
    app = engine.application()
    agent = "OpenAI/Python 3.1\x07" + "x" * 200

    async def run() -> None:
        await exchange(app, CHAT, HELLO, headers={"user-agent": agent})

    asyncio.run(run())
    assert [status.state for status in engine.told] == ["waiting", "reading", "writing", "done"]
    (ended,) = engine.requests
    assert (ended.address, ended.path, ended.model) == ("127.0.0.1", CHAT, NAME)
    assert ended.user_agent.startswith("OpenAI/Python 3.1xxx")
    assert len(ended.user_agent) == 80
    assert (ended.code, ended.prompt_tokens, ended.tokens) == (200, 5, 3)
    assert ended.tokens_per_s == 20
    assert "Hello" not in repr(engine.told)


def test_refusals_are_told_too_once_each() -> None:
    engine = PlayedEngine()
    app = engine.application()

    async def run() -> None:
        await exchange(app, CHAT, HELLO, headers={"authorization": "Bearer guess"})
        await exchange(app, CHAT, {"messages": []})
        engine.failure = Failed(0.0, "", "It did not fit.", "Ask less.")
        await exchange(app, CHAT, HELLO)

    asyncio.run(run())
    ended = [status for status in engine.told if status.state.over]
    assert [status.code for status in ended] == [401, 400, 400]
    assert {status.state for status in ended} == {RequestState.REFUSED}


def test_metrics_count_what_was_written() -> None:
    engine = PlayedEngine()
    app = engine.application()

    async def run() -> str:
        for _ in range(2):
            await exchange(app, CHAT, HELLO)
        await exchange(app, CHAT, HELLO | {"n": 0})
        await exchange(app, "/secret-path", headers={"authorization": "Bearer no"})
        reply = await exchange(app, "/metrics")
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        return reply.body.decode()

    lines = asyncio.run(run()).splitlines()
    assert f'duotail_requests_total{{path="{CHAT}",status="200"}} 2' in lines
    assert f'duotail_requests_total{{path="{CHAT}",status="400"}} 1' in lines
    assert 'duotail_requests_total{path="other",status="401"} 1' in lines
    assert {
        "duotail_committed_tokens_total 6", "duotail_drafted_tokens_total 8",
        "duotail_accepted_tokens_total 6", "duotail_draft_seconds_total 0.2",
        "duotail_verify_seconds_total 0.4", "duotail_tokens_per_second 20",
        "duotail_acceptance_length 2.5", "duotail_requests_waiting 0",
    } <= set(lines)  # fmt: skip
    samples = [line for line in lines if not line.startswith("#")]
    assert all(len(sample.rsplit(" ", 1)) == 2 for sample in samples)
