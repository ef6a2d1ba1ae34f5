"""Streams of known programs become the events of an answer, and their lists of models are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from elsewhere import QUESTION, Elsewhere
from played_server import DONE, Heard, PlayedServer, event, head, said

from engine.commands import Connect, ServerKind
from engine.events import FinishReason, Received, TextDelta
from engine.model.text.thinking import parts
from engine.remote.catalogue import Catalogue, RemoteModel
from engine.request import ChatRequest

WIRE = Path(__file__).parents[2] / "data" / "wire"
MODELS = json.loads((WIRE / "models.json").read_text())
LISTS, RECORDED = MODELS["lists"], MODELS["recorded"]

Play = Callable[..., PlayedServer]
Views = Callable[..., Elsewhere]


def recorded(name: str) -> bytes:
    return (WIRE / f"{name}.sse").read_bytes()


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("name", "thought", "text", "prompt", "tokens"),
    [
        ("vllm", "The user asks about rain.", "Rain is water that falls from clouds. ☔", 14, 16),
        ("sglang", "The user asks.", "Rain is water from clouds.", 11, 11),
        ("ollama", "Okay, rain.", "Rain is water from clouds.", 16, 11),
        ("llama_server", "", "Rain is water from clouds.", 14, 7),
    ],
)
def test_known_streams(
    play: Play, elsewhere: Views, size: int, name: str, thought: str, text: str, prompt: int,
    tokens: int,
) -> None:  # fmt: skip
    stream = recorded(name)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    server = play(lambda _: [head(), *pieces])
    view = elsewhere()
    view.connect(server.url)
    finished = view.answer()
    assert finished.reason is FinishReason.STOP
    assert view.text == finished.text
    assert parts(finished.text) == (thought, text)
    assert finished.token_ids is None
    stats = finished.stats
    assert (stats.prompt_tokens, stats.committed) == (prompt, tokens)
    assert stats.host == f"127.0.0.1:{server.port}"
    assert stats.ttft_s is not None
    assert stats.ttft_s > 0
    assert stats.mode is None


@pytest.mark.parametrize(
    ("name", "text", "prompt"),
    [
        ("llama_cpp_python", "Rain is a fundamental phenomenon in the natural world. It's", 0),
        ("transformers", "Water from the sea and the land rises into the air", 8),
        (
            "llama_server_recorded",
            "Rain is a fundamental phenomenon in the natural world. It is",
            34,
        ),
    ],
)
def test_streams_that_were_recorded(
    play: Play, elsewhere: Views, name: str, text: str, prompt: int
) -> None:
    server = play(lambda _: [head(), recorded(name)])
    view = elsewhere()
    view.connect(server.url)
    finished = view.answer()
    assert (finished.reason, finished.text) == (FinishReason.LENGTH, text)
    assert (finished.stats.prompt_tokens, finished.stats.committed) == (prompt, 12)


def test_lists_that_were_recorded() -> None:
    found = {program: Catalogue.read(body) for program, body in RECORDED.items()}
    assert {program: (each.kind, each.models) for program, each in found.items()} == {
        "llama-cpp-python 0.3.36": (ServerKind.OTHER, (RemoteModel("/models/starter.gguf"),)),
        "llama-server 0c1e57098": (
            ServerKind.LLAMA_SERVER,
            (RemoteModel("/models/starter.gguf", 1024),),
        ),
        "transformers 5.23": (ServerKind.OTHER, (RemoteModel("me/duotail-7m"),)),
    }


@pytest.mark.parametrize("last", [said("", "stop")[:-2], DONE[:-2], DONE[:-1] + b"\r"])
def test_the_end_of_a_stream_ends_its_last_event(play: Play, elsewhere: Views, last: bytes) -> None:
    server = play(lambda _: [head(), said("Rain"), last])
    view = elsewhere()
    view.connect(server.url)
    finished = view.answer()
    assert (finished.reason, finished.text) == (FinishReason.STOP, "Rain")


def test_what_the_servers_tell_of_their_own_work(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), recorded("llama_server")])
    view = elsewhere()
    view.connect(server.url)
    stats = view.answer().stats
    assert (stats.drafted, stats.accepted, stats.reused_tokens) == (8, 5, 4)
    assert stats.host_tokens_per_s == 40.0
    assert stats.acceptance_length is None  # it does not tell in how many rounds


def test_what_a_real_llama_server_tells_of_its_own_work(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), recorded("llama_server_recorded")])
    view = elsewhere()
    view.connect(server.url)
    stats = view.answer().stats
    assert (stats.drafted, stats.accepted, stats.reused_tokens) == (8, 8, 0)
    assert stats.host_tokens_per_s == pytest.approx(2.95, abs=0.01)


def test_the_figures_of_a_duotail(play: Play, elsewhere: Views) -> None:
    own = {
        "mode": "cpu", "drafted": 30, "accepted": 20, "rounds": 12, "plain_rounds": 2,
        "acceptance_length": 2.9, "tokens_per_s": 55.5, "ttft_s": 0.2, "draft_s": 0.3,
        "verify_s": 0.6,
    }  # fmt: skip
    usage = {"prompt_tokens": 9, "completion_tokens": 33, "speculation": own}
    server = play(lambda _: [head(), said("Rain", "stop"), event(choices=[], usage=usage), DONE])
    view = elsewhere()
    view.connect(server.url, ServerKind.DUOTAIL)
    stats = view.answer().stats
    assert (stats.acceptance_length, stats.host_tokens_per_s) == (2.9, 55.5)
    assert (stats.rounds, stats.plain_rounds, stats.drafted, stats.accepted) == (12, 2, 30, 20)
    assert (stats.draft_seconds, stats.verify_seconds) == (0.3, 0.6)


def test_a_duotail_tells_its_acceptance_length_all_along(play: Play, elsewhere: Views) -> None:
    def counts(tokens: int, acceptance: float | None) -> bytes:
        own = {"rounds": 4, "plain_rounds": 0, "acceptance_length": acceptance}
        usage = {"prompt_tokens": 9, "completion_tokens": tokens, "speculation": own}
        return event(choices=[], usage=usage)

    def script(heard: Heard) -> Iterator[bytes]:
        assert heard.json["stream_options"]["continuous_usage_stats"] is True
        yield head() + counts(0, None) + said("Rain")
        for tokens, acceptance in ((3, 2.5), (9, 3.0)):
            view.wait(Received, lambda told, tokens=tokens: told.tokens < tokens)
            yield from islice(server.until_hung_up(), 15)
            yield counts(tokens, acceptance)
            view.wait(Received, lambda told, tokens=tokens: told.tokens == tokens)
        yield said("", "stop") + DONE

    server = play(script)
    view = elsewhere()
    view.connect(server.url, ServerKind.DUOTAIL)
    stats = view.answer().stats
    told = [each for each in view.events if isinstance(each, Received)]
    assert [(each.tokens, each.acceptance_length) for each in told] == [
        (0, None), (3, 2.5), (9, 3.0),
    ]  # fmt: skip
    assert (stats.committed, stats.acceptance_length) == (9, 3.0)


def test_the_speed_is_measured_here_and_only_over_counted_tokens(
    play: Play, elsewhere: Views
) -> None:
    def script(heard: Heard) -> list[bytes]:
        usage = {"prompt_tokens": 9, "completion_tokens": 40}
        counts = [event(choices=[], usage=usage)] if heard.json["model"] == "counts" else []
        return [head(), said("Rain"), said(" falls"), said("", "stop"), *counts, DONE]

    server = play(script)
    view = elsewhere()
    view.connect(server.url, model="counts")
    stats = view.answer(ChatRequest("a", QUESTION)).stats
    assert stats.committed == 40
    assert stats.tokens_per_s == pytest.approx(39 / stats.decode_seconds)
    view.connect(server.url, model="does not")
    silent = view.answer(ChatRequest("b", QUESTION)).stats
    assert (silent.committed, silent.tokens_per_s) == (2, None)


def test_how_much_has_come_is_told_while_it_comes(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), recorded("vllm")])
    view = elsewhere()
    view.connect(server.url)
    view.answer()
    told = [each.tokens for each in view.events if isinstance(each, Received)]
    assert told
    assert told == sorted(told)
    assert len(told) < sum(isinstance(each, TextDelta) for each in view.events)


@pytest.mark.parametrize(
    ("kind", "models"),
    [
        ("vllm", [RemoteModel("Qwen/Qwen3-4B", 40960)]),
        ("sglang", [RemoteModel("Qwen/Qwen3.5-4B", 16384)]),
        ("ray serve", [RemoteModel("qwen-0_5b", 8192)]),
        ("ollama", [RemoteModel("qwen3:8b"), RemoteModel("mine:latest")]),
        ("llama-server", [RemoteModel("qwen3-8b", 8192)]),
        ("lm studio", [RemoteModel("qwen/qwen3-4b")]),
        ("other", [RemoteModel("starter.gguf")]),
    ],
)
def test_known_lists_of_models(kind: str, models: list[RemoteModel]) -> None:
    catalogue = Catalogue.read(LISTS[kind])
    assert catalogue.kind is ServerKind(kind)
    assert list(catalogue.models) == models


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B"),
        ("/models/Qwen3-4B", "Qwen3-4B"),
        ("/home/me/starter.Q4_1.gguf", "starter.Q4_1.gguf"),
        ("C:\\models\\starter.gguf", "starter.gguf"),
        ("/", "/"),
    ],
)
def test_of_a_path_only_the_last_part_is_shown(name: str, label: str) -> None:
    assert Connect("http://localhost:1/v1", name).label == label


def test_every_kind_but_our_own_is_recorded() -> None:
    assert {*LISTS} == {*ServerKind} - {ServerKind.DUOTAIL}


@pytest.mark.parametrize("owner", ["vllm", "duotail", "library", "me"])
def test_a_publisher_named_like_a_program_is_none(owner: str) -> None:
    card = {"id": f"{owner}/small", "object": "model", "created": 1.5, "owned_by": owner}
    assert Catalogue.read({"data": [card]}).kind is ServerKind.OTHER


def test_an_ollama_without_models_is_an_empty_list() -> None:
    assert Catalogue.read({"object": "list", "data": None}).models == ()


@pytest.mark.parametrize("body", [None, [], {}, {"data": "x"}, {"object": "error"}])
def test_what_is_no_list_of_models(body: object) -> None:
    with pytest.raises(ValueError, match="no list of models"):
        Catalogue.read(body)


@pytest.mark.parametrize("name", [None, 3, "", "a\nb", "x" * 1000])
def test_models_without_a_usable_name_are_left_out(name: object) -> None:
    data = [{"id": name, "owned_by": "vllm"}, {"id": "m"}, "nothing"]
    assert Catalogue.read({"data": data}).models == (RemoteModel("m"),)


def test_the_key_goes_along_and_nothing_else(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), said("Rain", "stop"), DONE])
    for view, sent in ((elsewhere(key="k1"), "Bearer k1"), (elsewhere(), None)):
        view.connect(server.url)
        view.answer()
        assert server.heard[-1].headers.get("authorization") == sent
        assert server.heard[-1].path == "/v1/chat/completions"


def test_connecting_sends_nothing(play: Play, elsewhere: Views) -> None:
    server = play(lambda _: [head(), said("Rain", "stop"), DONE])
    view = elsewhere()
    view.connect(server.url)
    view.connect(server.url, model="another")
    view.answer()
    assert [heard.json["model"] for heard in server.heard] == ["another"]


_SAID = 'data: {"choices": [{"index": 0, "delta": {"content": "Rain"}, "finish_reason": null}]}\n\n'
_END = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(
    ("kind", "stream", "text"),
    [
        ("Text/Event-Stream; charset=UTF-8", _SAID + _END, "Rain"),
        ("text/plain", _SAID + _END, "Rain"),
        ("text/event-stream", "\ufeff" + _SAID + _END, "Rain"),
        ("text/event-stream", _SAID + 'data: {"object": "ping"}\n\n' + _END, "Rain"),
        (
            "text/event-stream",
            _SAID.replace('"Rain"', '[{"type": "text", "text": "Ra"}, {"text": "in"}]') + _END,
            "Rain",
        ),
        ("text/event-stream", _SAID.replace('"content"', '"refusal"') + _END, "Rain"),
        (
            "text/event-stream",
            _SAID.replace(
                '"content": "Rain"',
                '"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]',
            )
            + _END,
            '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
        ),
    ],
    ids=["case", "plain", "mark", "no choices", "parts", "refusal", "calls"],
)
def test_streams_as_some_servers_write_them(
    play: Play, elsewhere: Views, kind: str, stream: str, text: str
) -> None:
    heading = head().replace(b"text/event-stream", kind.encode())
    server = play(lambda _: [heading, stream.encode()])
    view = elsewhere()
    view.connect(server.url)
    finished = view.answer()
    assert (finished.reason, finished.text) == (FinishReason.STOP, text)


@pytest.mark.parametrize("data", ["out of memory", '{"message": "out of memory"}'])
def test_an_event_that_is_an_error_is_told(play: Play, elsewhere: Views, data: str) -> None:
    server = play(lambda _: [head(), f"{_SAID}event: error\ndata: {data}\n\n".encode()])
    view = elsewhere()
    view.connect(server.url)
    assert view.answer().reason is FinishReason.ERROR
    assert any("out of memory" in str(event) for event in view.events)
