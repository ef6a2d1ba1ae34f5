"""Which model answers: the loaded one, one that a request may load, or none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from household import Household
from played_engine import NAME, PlayedEngine, ask, exchange

from engine.commands import Command, Generate, Load
from engine.events import Failed, FailureKind, Unloaded
from engine.hub.shelf.shelf import ModelShelf
from engine.server.application import ServerApplication
from engine.server.catalogue import shelf_catalogue
from engine.server.events import RequestState
from engine.server.settings import ServerSettings

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def engine() -> PlayedEngine:
    return PlayedEngine()


@pytest.mark.parametrize("name", ["", None, "default", NAME])
def test_the_loaded_model_answers_by_its_name_and_by_none(
    engine: PlayedEngine, name: str | None
) -> None:
    reply = ask(engine.application("Other"), CHAT, HELLO | {"model": name})
    assert reply.json["model"] == NAME
    assert not any(isinstance(command, Load) for command in engine.commands)


def test_another_model_is_refused_with_the_loaded_ones_name(engine: PlayedEngine) -> None:
    reply = ask(engine.application(), CHAT, HELLO | {"model": "gpt-3.5-turbo"})
    error = reply.json["error"]
    assert (reply.status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert NAME in error["message"]
    assert engine.commands == []


def test_a_request_loads_a_model_where_it_may(engine: PlayedEngine) -> None:
    app = engine.application("Other")
    assert ask(app, CHAT, HELLO | {"model": "Other"}).json["model"] == "Other"
    load, generate = engine.commands
    assert load == Load(Path("/models/Other"), after_answer=True)  # the window's answer ends first
    assert isinstance(generate, Generate)
    (request,) = engine.requests
    assert (request.model, request.state) == ("Other", RequestState.DONE)
    listed = ask(app, "/v1/models").json["data"]
    assert [model["id"] for model in listed] == ["Other"]


def test_a_model_that_does_not_come_is_told(engine: PlayedEngine) -> None:
    def submit(command: Command) -> None:
        if isinstance(command, Load):  # the window has taken it out of memory meanwhile
            engine.dispatcher.take(Unloaded(0.0))

    engine.dispatcher.open(submit)
    reply = ask(engine.application("Other"), CHAT, HELLO | {"model": "Other"})
    assert (reply.status, reply.json["error"]["code"]) == (503, "no_model")


def test_models_that_requests_may_load_are_listed(engine: PlayedEngine) -> None:
    app = engine.application(NAME, "Other")
    assert [model["id"] for model in ask(app, "/v1/models").json["data"]] == [NAME, "Other"]
    assert ask(app, "/v1/models/Other").json["id"] == "Other"
    engine.dispatcher.take(Unloaded(0.0))
    assert [model["id"] for model in ask(app, "/v1/models").json["data"]] == [NAME, "Other"]


def test_a_request_loads_where_no_model_is_loaded(engine: PlayedEngine) -> None:
    engine.dispatcher.take(Unloaded(0.0))
    app = engine.application("Other")
    assert ask(app, CHAT, HELLO).status == 503  # it names none
    assert ask(app, CHAT, HELLO | {"model": "nowhere"}).status == 503
    assert ask(app, CHAT, HELLO | {"model": "Other"}).json["model"] == "Other"


def test_a_request_that_is_wrong_loads_nothing(engine: PlayedEngine) -> None:
    reply = ask(engine.application("Other"), CHAT, HELLO | {"model": "Other", "temperature": -1})
    assert (reply.status, reply.json["error"]["param"]) == (400, "temperature")
    assert engine.commands == []


def test_a_model_that_does_not_fit_is_told_in_words(engine: PlayedEngine) -> None:
    engine.failure = Failed(
        0.0, None, "It needs 9 GiB.", "Free some.", kind=FailureKind.OUT_OF_MEMORY
    )
    reply = ask(engine.application("Other"), CHAT, HELLO | {"model": "Other"})
    assert (reply.status, reply.json["error"]["message"]) == (503, "It needs 9 GiB. Free some.")
    engine.failure = None
    assert ask(engine.application("Other"), CHAT, HELLO).json["model"] == NAME


def test_models_are_loaded_one_request_after_the_other(
    household: Household, tmp_path: Path
) -> None:
    """Requests for two models at once: each is answered by its own."""
    catalogue = shelf_catalogue(ModelShelf(tmp_path), Load, lambda: (FOLDER_TARGET, FOLDER_DRAFT))
    names = [
        name for name, load in catalogue().items() if load.model in (FOLDER_TARGET, FOLDER_DRAFT)
    ]
    assert len(names) == 2
    app = ServerApplication(household.dispatcher, ServerSettings(), catalogue=catalogue).asgi
    body = HELLO | {"max_tokens": 4, "temperature": 0}

    async def run() -> list[Any]:
        order = [*names, *names]
        return await asyncio.gather(*(exchange(app, CHAT, body | {"model": n}) for n in order))

    replies = asyncio.run(run())
    assert [reply.json["model"] for reply in replies] == [*names, *names]
    texts = [reply.json["choices"][0]["message"]["content"] for reply in replies]
    assert texts[:2] == texts[2:]
    household.load()
