"""The official client against our server, with the starter model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from household import Household

from engine.events import Finished, FinishReason
from engine.server.server import Server

openai = pytest.importorskip("openai")

TOKEN = "a-token-of-the-tests"
QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]
FIXED: dict[str, Any] = {"seed": 5, "temperature": 0.7, "max_tokens": 6}


@pytest.fixture(scope="module")
def starting(starter: Path) -> Iterator[Household]:
    household = Household()
    household.load(starter)
    yield household
    household.engine.close()


@pytest.fixture
def server(starting: Household) -> Iterator[Server]:
    starting.forget()
    with closing(starting.server(token=TOKEN)) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with openai.OpenAI(base_url=server.url, api_key=TOKEN, max_retries=0) as client:
        yield client


@pytest.fixture
def model(client: Any) -> str:
    (model,) = client.models.list()
    assert client.models.retrieve(model.id) == model
    return str(model.id)


def test_chat(client: Any, model: str) -> None:
    whole = client.chat.completions.create(model=model, messages=QUESTION, logprobs=True, **FIXED)
    (choice,) = whole.choices
    assert choice.finish_reason == "length"
    assert len(choice.logprobs.content) == whole.usage.completion_tokens == 6
    assert whole.usage.speculation["drafted"] >= whole.usage.speculation["accepted"] >= 0
    with client.chat.completions.create(
        model=model, messages=QUESTION, stream=True, stream_options={"include_usage": True}, **FIXED
    ) as stream:
        chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == choice.message.content
    assert chunks[-1].usage.completion_tokens == 6


def test_the_streaming_helper(client: Any, model: str) -> None:
    # The helper takes a cut answer for an error.
    asked = {"model": model, "messages": QUESTION, "seed": 5, "stop": [" "]}
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    whole = client.chat.completions.create(**asked)
    assert final.choices[0].message.content == whole.choices[0].message.content


def test_completions(client: Any, model: str) -> None:
    asked = {"model": model, "prompt": "Paris is the capital of", **FIXED}
    whole = client.completions.create(**asked, logprobs=2)
    assert len(whole.choices[0].logprobs.tokens) == 6
    streamed = client.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text


def test_responses(client: Any, model: str) -> None:
    asked: dict[str, Any] = {
        "model": model, "input": "What is the capital of France?", "temperature": 0,
        "max_output_tokens": 16, "instructions": "Be brief.",
    }  # fmt: skip
    whole = client.responses.create(**asked)
    assert whole.output_text
    with client.responses.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert final.output_text == whole.output_text
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_refusals_are_the_clients_own_exceptions(client: Any, server: Server, model: str) -> None:
    create = client.chat.completions.create
    with pytest.raises(openai.NotFoundError, match="loaded model"):
        create(model="gpt-4o", messages=QUESTION)
    with pytest.raises(openai.BadRequestError, match="temperature") as bad:
        create(model=model, messages=QUESTION, temperature=-1)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as full:
        create(model=model, messages=[{"role": "user", "content": "sea " * 50_000}], stream=True)
    assert full.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0).models.list()


def test_asynchronously_and_cancelled(starting: Household, server: Server, model: str) -> None:
    async def run() -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key=TOKEN, max_retries=0) as client:
            create = client.chat.completions.create
            answers = await asyncio.gather(
                *(create(model=model, messages=QUESTION, **FIXED) for _ in range(3))
            )
            texts = {answer.choices[0].message.content for answer in answers}
            (text,) = texts
            stream = await create(model=model, messages=QUESTION, stream=True, **FIXED)
            pieces = [c.choices[0].delta.content or "" async for c in stream if c.choices]
            starting.forget()
            endless = await create(
                model=model, messages=QUESTION, stream=True, temperature=100, seed=1
            )
            await anext(aiter(endless))
            await endless.close()
            return text, "".join(pieces)

    text, streamed = asyncio.run(run())
    assert streamed == text
    assert starting.wait(Finished).reason is FinishReason.STOPPED
