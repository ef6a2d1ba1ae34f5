"""Sixteen programs that ask for one stream after the other."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest
from dialect_bodies import CHAT
from household import Household
from played_engine import exchange

PROGRAMS, STREAMS = 16, 25
GROWTH = 16 * 2**20
"""Bytes that the process may grow by while it answers: allocators keep some."""


def body(seed: int) -> dict[str, Any]:
    question = [{"role": "user", "content": "Tell me about the sea."}]
    drawn = {"seed": seed, "temperature": 1.0, "max_tokens": 24}
    return {"messages": question, "stream": True, **drawn}


async def text(household: Household, seed: int) -> str:
    reply = await exchange(household.application(), CHAT, body(seed))
    assert reply.status == 200, reply.body
    *said, last = reply.events
    assert last == "[DONE]"
    deltas = [event["choices"][0]["delta"] for event in said if event["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


@pytest.mark.release(reason="400 answers")
def test_sixteen_programs_get_their_own_answers(household: Household) -> None:
    async def program(seed: int, alone: str) -> int:
        return sum([await text(household, seed) == alone for _ in range(STREAMS)])

    async def all_programs() -> list[int]:
        alone = [await text(household, seed) for seed in range(PROGRAMS)]
        assert len(set(alone)) == PROGRAMS
        return await asyncio.gather(*map(program, range(PROGRAMS), alone))

    process = psutil.Process()
    asyncio.run(all_programs())
    before = process.memory_info().rss
    assert asyncio.run(all_programs()) == [STREAMS] * PROGRAMS
    assert process.memory_info().rss < before + GROWTH
