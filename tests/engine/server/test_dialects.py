"""What each dialect writes, with an engine that plays the same answer every time."""

from __future__ import annotations

from typing import Any

import pytest
from dialect_bodies import BODIES, CHAT, MESSAGES, RESPONSES, TEXT, answered
from played_engine import NAME, PlayedEngine, ask

from engine.events import Failed, FailureKind, Finished, FinishReason, Unloaded

SAID = ("Good", " day", "!")
THOUGHT = ("<think>\n", "Hm", "m.\n", "</think>\n\n", "Good", " day\n")


def streamed(path: str, engine: PlayedEngine | None = None, **members: Any) -> list[Any]:
    body = BODIES[path] | {"stream": True} | members
    return ask((engine or PlayedEngine()).application(), path, body).events


def test_a_chat_completion() -> None:
    whole = answered(CHAT)
    assert whole["object"] == "chat.completion"
    assert whole["id"].startswith("chatcmpl-")
    assert (whole["model"], whole["system_fingerprint"], whole["seed"]) == (NAME, "cpu:q8", 7)
    (choice,) = whole["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Good day!", "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    usage = whole["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 3, 8)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 2}


@pytest.mark.parametrize("path", BODIES)
def test_usage_says_what_was_drafted_and_accepted(path: str) -> None:
    speculation = answered(path)["usage"]["speculation"]
    assert (speculation["drafted"], speculation["accepted"]) == (4, 3)
    assert (speculation["acceptance_length"], speculation["mode"]) == (2.5, "cpu")


def test_a_streamed_chat_completion() -> None:
    *chunks, done = streamed(CHAT)
    assert done == "[DONE]"
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "Good day!"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert "usage" not in chunks[-1]


def test_a_streamed_text_tells_usage_where_it_is_wanted() -> None:
    *chunks, last = streamed(TEXT, stream_options={"include_usage": True})[:-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert not any(chunk.get("usage") for chunk in chunks)
    assert not any("usage" in chunk for chunk in streamed(TEXT)[:-1])


def test_a_stream_tells_usage_where_it_is_wanted() -> None:
    *chunks, last, _ = streamed(CHAT, stream_options={"include_usage": True})
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)


@pytest.mark.parametrize(
    ("reason", "openai", "anthropic", "status"),
    [
        (FinishReason.STOP, "stop", "end_turn", "completed"),
        (FinishReason.LENGTH, "length", "max_tokens", "incomplete"),
        (FinishReason.CONTEXT, "length", "max_tokens", "incomplete"),
    ],
)
def test_reasons_of_the_end(reason: FinishReason, openai: str, anthropic: str, status: str) -> None:
    engine = PlayedEngine(reason=reason)
    assert answered(CHAT, engine)["choices"][0]["finish_reason"] == openai
    assert answered(TEXT, engine)["choices"][0]["finish_reason"] == openai
    assert answered(MESSAGES, engine)["stop_reason"] == anthropic
    assert answered(RESPONSES, engine)["status"] == status
    assert streamed(RESPONSES, engine)[-1]["type"] == f"response.{status}"


def test_thoughts_are_told_apart() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    message = answered(CHAT, engine)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hmm.", "Good day\n")
    assert answered(CHAT, engine)["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    blocks = answered(MESSAGES, engine)["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert (blocks[0]["thinking"], blocks[1]["text"]) == ("Hmm.", "Good day\n")
    items = answered(RESPONSES, engine)["output"]
    assert [item["type"] for item in items] == ["reasoning", "message"]
    assert [item["content"][0]["text"] for item in items] == ["Hmm.", "Good day\n"]


def test_thoughts_are_streamed_apart() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(CHAT, engine)[:-1]]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hmm."
    assert "".join(delta.get("content", "") for delta in deltas) == "Good day\n"
    events = streamed(MESSAGES, engine)
    started = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
    assert started == ["thinking", "text"]


def test_what_might_have_begun_a_thought_comes_at_the_end() -> None:
    engine = PlayedEngine(tokens=("Good", " <thi"))
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(CHAT, engine)[:-1]]
    assert "".join(delta.get("content", "") for delta in deltas) == "Good <thi"
    assert answered(CHAT, engine)["choices"][0]["message"]["content"] == "Good <thi"


def test_a_text_completion_shows_everything() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    assert answered(TEXT, engine)["choices"][0]["text"] == "".join(THOUGHT)
    chunks = streamed(TEXT, engine)[:-1]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "".join(THOUGHT)


def test_logprobs_of_a_chat() -> None:
    told = answered(CHAT, logprobs=True)["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in told] == list(SAID)
    assert [entry["logprob"] for entry in told] == pytest.approx([-0.693147] * 3)
    assert told[0]["bytes"] == list(b"Good")
    chunks = streamed(CHAT, logprobs=True)[:-1]
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert [each["token"] for part in parts if part for each in part["content"]] == list(SAID)


def test_logprobs_of_a_chat_are_those_of_what_is_said() -> None:
    engine = PlayedEngine(tokens=THOUGHT)
    told = answered(CHAT, engine, logprobs=True)["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in told] == ["Good", " day\n"]


def test_logprobs_of_a_text() -> None:
    told = answered(TEXT, logprobs=0)["choices"][0]["logprobs"]
    assert (told["tokens"], told["text_offset"]) == (list(SAID), [0, 4, 8])
    chunks = streamed(TEXT, logprobs=1)[:-1]
    offsets = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert [part["text_offset"] for part in offsets if part] == [[0], [4], [8]]


def test_a_message() -> None:
    whole = answered(MESSAGES)
    assert (whole["type"], whole["role"], whole["model"]) == ("message", "assistant", NAME)
    assert whole["content"] == [{"type": "text", "text": "Good day!"}]
    assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (3, 3)


def test_a_message_says_which_text_stopped_it() -> None:
    whole = answered(MESSAGES, PlayedEngine(stop="END"), stop_sequences=["END"])
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", "END")
    # A stop of the template's own is the end of the turn.
    whole = answered(MESSAGES, PlayedEngine(stop="User:"), stop_sequences=["END"])
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("end_turn", None)


def test_a_streamed_message() -> None:
    events = streamed(MESSAGES)
    assert [event["type"] for event in events] == [
        "message_start", "content_block_start", *["content_block_delta"] * 3,
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert events[0]["message"]["usage"]["input_tokens"] == 5
    assert "".join(e["delta"]["text"] for e in events[2:5]) == "Good day!"
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_a_message_without_a_word_has_an_empty_block() -> None:
    engine = PlayedEngine(tokens=())
    assert answered(MESSAGES, engine)["content"] == [{"type": "text", "text": ""}]
    kinds = [event["type"] for event in streamed(MESSAGES, engine)]
    assert kinds[1:3] == ["content_block_start", "content_block_stop"]


def test_a_response() -> None:
    whole = answered(RESPONSES)
    assert (whole["object"], whole["status"], whole["store"]) == ("response", "completed", False)
    (item,) = whole["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"][0]["text"] == "Good day!"
    assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (5, 3)


def test_a_streamed_response() -> None:
    events = streamed(RESPONSES)
    assert [event["type"] for event in events] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", *["response.output_text.delta"] * 3,
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.completed",
    ]  # fmt: skip
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = {event["type"]: event for event in events}
    assert done["response.output_text.done"]["text"] == "Good day!"
    assert done["response.completed"]["response"]["output"][0]["content"][0]["text"] == "Good day!"
    assert len({event["item_id"] for event in events if "item_id" in event}) == 1


# -- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ({"kind": FailureKind.CONTEXT_FULL}, 400),
        ({"kind": FailureKind.OUT_OF_MEMORY}, 503),
        ({"bug": True}, 500),
        ({}, 400),
    ],
    ids=str,
)
def test_failures_have_words_and_no_details(
    path: str, stream: bool, failure: Any, status: int
) -> None:
    """Before the first word, a stream is refused like any request."""
    engine = PlayedEngine()
    told = Failed(0.0, "server-x", "It did not fit.", "Ask less.", "Traceback: secret", **failure)
    engine.failure = told
    reply = ask(engine.application(), path, BODIES[path] | {"stream": stream})
    assert reply.status == status
    assert "It did not fit." in reply.json["error"]["message"]
    assert b"Traceback" not in reply.body
    if path != MESSAGES and failure.get("kind") is FailureKind.CONTEXT_FULL:
        assert reply.json["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("path", BODIES)
def test_an_answer_that_is_stopped_at_the_server_says_so(path: str) -> None:
    engine = PlayedEngine(reason=FinishReason.STOPPED)
    reply = ask(engine.application(), path, BODIES[path])
    assert reply.status == 503
    last = streamed(path, engine)[-1]
    error = last["response"]["error"] if path == RESPONSES else last["error"]
    assert "stopped" in error["message"]


class Broken(PlayedEngine):
    """Ends in an error behind its last token; with a `stop`, the model is gone by then."""

    def _finished(self, name: str, *_: Any) -> Finished:
        if self.stop:
            self.dispatcher.take(Unloaded(0.0))
        return super()._finished(name, FinishReason.ERROR, self.tokens)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("stop", "status", "words"), [("", 500, "The answer failed."), ("gone", 503, "model")]
)
def test_an_answer_that_ends_in_an_error_of_no_words(
    path: str, stop: str, status: int, words: str
) -> None:
    reply = ask(Broken(stop=stop).application(), path, BODIES[path])
    assert reply.status == status
    assert words in reply.json["error"]["message"]


@pytest.mark.parametrize("path", BODIES)
def test_a_failure_in_the_middle_of_a_stream_is_told_in_it(path: str) -> None:
    class Failing(PlayedEngine):
        def _finished(self, name: str, *_: Any) -> Finished:
            self._tell(Failed(0.0, name, "The GPU is gone.", "Load the model again."))
            return super()._finished(name, FinishReason.ERROR, self.tokens)

    last = streamed(path, Failing())[-1]
    error = last["response"]["error"] if path == RESPONSES else last["error"]
    assert "The GPU is gone." in error["message"]


@pytest.mark.parametrize("path", BODIES)
def test_without_a_model_there_is_no_answer(path: str) -> None:
    engine = PlayedEngine()
    engine.dispatcher.take(Unloaded(0.0))
    app = engine.application()
    reply = ask(app, path, BODIES[path])
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert ask(app, "/health").status == 503
    assert ask(app, "/v1/models").json["data"] == []


def test_models_are_told_by_name_and_never_by_path() -> None:
    app = PlayedEngine().application()
    listed = ask(app, "/v1/models")
    (model,) = listed.json["data"]
    assert (model["id"], model["object"], model["context_length"]) == (NAME, "model", 512)
    assert b"/" not in listed.body
    assert ask(app, f"/v1/models/{NAME}").json == model
    assert ask(app, "/v1/models/other").status == 404


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/v1", "GET", 404), ("/docs", "GET", 404), (CHAT, "GET", 405),
     ("/v1/models", "DELETE", 405), ("/v1/embeddings", "GET", 405), ("/v1/audio", "GET", 404),
     (CHAT, "PUT", 405)],
)  # fmt: skip
def test_other_paths_and_methods(path: str, method: str, status: int) -> None:
    assert ask(PlayedEngine().application(), path, method=method).status == status
