"""Answers of servers: asked for, stopped, continued; the engine here is left alone meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import pytest
from elsewhere import PATIENCE, QUESTION, Elsewhere, Here
from played_server import DONE, Heard, PlayedServer, head, said

from engine.commands import Connect, Count, Load, Mode, ServerKind, Stop, Unload
from engine.errors import NotPossible
from engine.events import Connected, Finished, FinishReason, TextDelta, Unloaded
from engine.remote.payload import payload
from engine.request import ChatRequest, Message, Role, SamplingParams
from tests.stopwatch import least

Play = Callable[..., PlayedServer]
Views = Callable[..., Elsewhere]

BEGUN = (*QUESTION, Message(Role.ASSISTANT, "Rain is ", (1, 2, 3)))
FULL = SamplingParams(0.7, 40, 0.9, 0.05, 1.1, 0.2, 0.3, 42)


def body(kind: ServerKind, **asked: Any) -> dict[str, Any]:
    request = ChatRequest("a", asked.pop("messages", QUESTION), **asked)
    return payload(request, Connect("http://127.0.0.1:1/v1", "m", kind))


def slow(server: Callable[[], PlayedServer]) -> Callable[[Heard], Iterator[bytes]]:
    """A script that writes two words and then goes on sending comments."""

    def script(_: Heard) -> Iterator[bytes]:
        yield head() + said("Rain ") + said("is ")
        yield from server().until_hung_up()

    return script


def test_a_request_holds_messages_sampling_and_limits() -> None:
    sent = body(
        ServerKind.VLLM, sampling=FULL, max_tokens=99, stop=("\n\n",), thinking=False,
        messages=(Message(Role.SYSTEM, "Be brief."), *QUESTION),
    )  # fmt: skip
    assert sent == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is rain?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "seed": 42,
        "max_tokens": 99,
        "stop": ["\n\n"],
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_servers_that_may_refuse_it_are_asked_only_what_openai_knows() -> None:
    sent = body(ServerKind.OTHER, sampling=FULL, thinking=True)
    assert {*sent} == {
        "model", "messages", "stream", "stream_options", "temperature", "top_p", "seed",
        "presence_penalty", "frequency_penalty",
    }  # fmt: skip


def test_what_is_off_is_not_sent() -> None:
    assert {*body(ServerKind.VLLM)} == {
        "model", "messages", "stream", "stream_options", "temperature", "seed",
    }  # fmt: skip


def test_each_kind_in_its_own_words() -> None:
    assert body(ServerKind.LLAMA_SERVER, sampling=FULL)["repeat_penalty"] == 1.1
    assert body(ServerKind.LLAMA_SERVER)["timings_per_token"] is True
    assert body(ServerKind.OLLAMA, thinking=False)["reasoning_effort"] == "none"
    assert "reasoning_effort" not in body(ServerKind.OLLAMA, thinking=True)


def test_thoughts_of_earlier_answers_stay_here() -> None:
    thought = Message(Role.ASSISTANT, "<think>\nsecret\n</think>\n\nWater.")
    sent = body(ServerKind.OTHER, messages=(*QUESTION, thought, *QUESTION))
    assert sent["messages"][1] == {"role": "assistant", "content": "Water."}


@pytest.mark.parametrize(
    "kind", [ServerKind.VLLM, ServerKind.RAY, ServerKind.SGLANG, ServerKind.LLAMA_SERVER]
)
def test_vllm_and_its_like_continue_the_last_message(kind: ServerKind) -> None:
    sent = body(kind, messages=BEGUN)
    assert sent["messages"][-1] == {"role": "assistant", "content": "Rain is "}
    assert sent["continue_final_message"] is True
    assert sent["add_generation_prompt"] is False


def test_duotail_continues_it_by_itself() -> None:
    sent = body(ServerKind.DUOTAIL, messages=BEGUN)
    assert sent["messages"][-1] == {"role": "assistant", "content": "Rain is "}
    assert "continue_final_message" not in sent


def test_an_answer_goes_on_without_the_thoughts_before_it() -> None:
    begun = Message(Role.ASSISTANT, "<think>\nhm\n</think>\n\nRain is ")
    sent = body(ServerKind.VLLM, messages=(*QUESTION, begun))
    assert sent["messages"][-1]["content"] == "Rain is "


@pytest.mark.parametrize("kind", [ServerKind.OTHER, ServerKind.OLLAMA, ServerKind.LM_STUDIO])
def test_servers_that_cannot_continue(kind: ServerKind) -> None:
    with pytest.raises(NotPossible, match="cannot go on"):
        body(kind, messages=BEGUN)


def test_thoughts_cannot_be_continued() -> None:
    begun = Message(Role.ASSISTANT, "<think>\nhm, let me")
    with pytest.raises(NotPossible, match="still thinking"):
        body(ServerKind.VLLM, messages=(*QUESTION, begun))


def test_what_cannot_be_continued_is_said_and_nothing_is_sent(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), said("water", "stop"), DONE])
    view = elsewhere()
    view.connect(server.url, ServerKind.OLLAMA)
    assert view.answer(ChatRequest("a", BEGUN)).reason is FinishReason.ERROR
    assert "cannot go on" in view.failure.cause
    assert server.heard == []


def test_stop_ends_it_within_300_ms_and_hangs_up(play: Play, elsewhere: Views) -> None:
    def stopping() -> float:
        server = play(slow(lambda: server))
        view = elsewhere()
        view.connect(server.url)
        request = view.ask()
        view.wait(TextDelta, lambda event: event.text == "is ")
        began = perf_counter()
        view.board.submit(Stop(request.id))
        finished = view.wait(Finished)
        assert finished.reason is FinishReason.STOPPED
        assert finished.text == "Rain is " == view.text
        assert server.hung_up.wait(PATIENCE)
        return float(finished.at - began)

    assert least(stopping, 0.3) < 0.3


def test_stop_before_anything_has_come(play: Play, elsewhere: Views) -> None:
    def stopping() -> float:
        server = play(lambda _: PlayedServer.until_hung_up(b""))
        view = elsewhere()
        view.connect(server.url)
        began = perf_counter()
        view.ask()
        view.board.submit(Stop(None))  # perhaps before the request is on its way
        assert view.wait(Finished).reason is FinishReason.STOPPED
        return perf_counter() - began

    assert least(stopping, 5.0) < 5.0


def test_stop_of_another_answer_changes_nothing(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), said("Rain", "stop"), DONE])
    view = elsewhere()
    view.connect(server.url)
    view.board.submit(Stop("another"))
    assert view.answer().reason is FinishReason.STOP


@pytest.mark.parametrize("command", [Load, Unload, Connect])
def test_another_model_stops_what_is_being_written(
    play: Play, elsewhere: Views, command: type[Any], tmp_path: Any
) -> None:
    server = play(slow(lambda: server))
    view = elsewhere()
    view.connect(server.url)
    view.ask()
    view.wait(TextDelta, lambda event: event.text == "is ")
    make: dict[type[Any], Callable[[], Any]] = {
        Load: lambda: Load(tmp_path), Unload: Unload, Connect: lambda: Connect(server.url, "n"),
    }  # fmt: skip
    view.board.submit(make[command]())
    assert view.wait(Finished).reason is FinishReason.STOPPED
    assert server.hung_up.wait(PATIENCE)


def test_the_model_here_goes_before_the_one_elsewhere_comes(elsewhere: Views) -> None:
    view = elsewhere()
    view.connect("http://192.168.1.5:8000/v1", ServerKind.VLLM, "big")
    assert isinstance(view.events[0], Unloaded)
    connected = view.wait(Connected)
    assert connected.place.model == "big"
    assert (connected.plan.host, connected.plan.mode) == ("192.168.1.5:8000", Mode.PLAIN)


def test_a_model_here_is_in_use_again_after_a_load(elsewhere: Views, tmp_path: Any) -> None:
    here: list[Here] = []

    def make(emit: Callable[..., None]) -> Here:
        here.append(Here(emit))
        return here[0]

    view = elsewhere(here=make)
    view.connect("http://127.0.0.1:1/v1")
    view.board.submit(Load(tmp_path))
    view.ask()
    view.board.submit(Count(ChatRequest("", QUESTION)))
    kinds = [type(each).__name__ for each in here[0].commands]
    assert kinds == ["Unload", "Load", "Generate", "Count"]
    here[0].submit(Unload())
    assert sum(isinstance(each, Connected) for each in view.events) == 1


def test_what_is_told_late_of_the_model_here_does_not_end_the_connection(elsewhere: Views) -> None:
    here: list[Here] = []

    def make(emit: Callable[..., None]) -> Here:
        here.append(Here(emit))
        return here[0]

    view = elsewhere(here=make)
    view.connect("http://127.0.0.1:1/v1")
    here[0].submit(Unload())  # as a load that failed meanwhile
    assert isinstance(view.events[-1], Connected)
