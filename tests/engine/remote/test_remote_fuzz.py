"""Streams of nonsense: never a crash, never an answer without an end; what came is kept."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from elsewhere import QUESTION, Elsewhere
from played_server import DONE, Heard, PlayedServer, head, said

from engine.events import Failed, TextDelta
from engine.remote.catalogue import Catalogue
from engine.remote.stream import BadStream, EventStream, ServerSaid, read_chunk
from engine.request import ChatRequest, SamplingParams

WIRE = Path(__file__).parents[2] / "data" / "wire"
RECORDED = b"".join(path.read_bytes() for path in sorted(WIRE.glob("*.sse")))
VALUES = [
    None, True, -1, 0, 2**70, 1.5, float("nan"), "", "x", "\ud800", [], {}, [[]], [None],
    {"choices": []}, {"content": {}}, {"message": None}, "a" * 1000,
]  # fmt: skip
MEMBERS = (
    "choices", "delta", "content", "reasoning", "reasoning_content", "usage", "timings", "error",
    "message", "finish_reason", "prompt_tokens", "completion_tokens", "speculation", "detail",
    "object", "data", "id", "owned_by", "meta", "metadata", "max_model_len", "index",
)  # fmt: skip


def garbled(chance: random.Random, stream: bytes) -> bytes:
    """A stream with bytes changed, stretches lost, doubled or moved."""
    found = bytearray(stream)
    for _ in range(chance.randint(1, 8)):
        at, length = chance.randrange(len(found)), chance.randint(1, 60)
        match chance.randrange(5):
            case 0:
                found[at] = chance.randrange(256)
            case 1:
                del found[at : at + length]
            case 2:
                found[at:at] = found[at : at + length]
            case 3:
                found[at:at] = chance.randbytes(length)
            case 4:
                found[at:at] = chance.choice(
                    (b"\r", b"\n\n", b"\r\n", b"data: ", b":", b"\xe2\x98")
                )
        if len(found) < 100:
            break
    return bytes(found)


def nonsense(chance: random.Random, depth: int = 4) -> object:
    """A value in the place of a chunk, with members of the right names."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(VALUES)
    if chance.random() < 0.3:
        return [nonsense(chance, depth - 1) for _ in range(chance.randrange(3))]
    names = chance.sample(MEMBERS, chance.randrange(6))
    return {name: nonsense(chance, depth - 1) for name in names}


@pytest.mark.parametrize("seed", range(4))
def test_garbled_streams_are_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    read = refused = 0
    for _ in range(250):
        stream, sent = EventStream(), garbled(chance, RECORDED)
        size = chance.choice((7, 4096))
        try:
            for at in range(0, len(sent), size):
                for data in stream.feed(sent[at : at + size]):
                    read += data == "[DONE]" or bool(read_chunk(data))
            for data in stream.finish():
                read += data == "[DONE]" or bool(read_chunk(data))
        except (BadStream, ServerSaid):
            refused += 1
    assert read > 500
    assert refused > 50


@pytest.mark.parametrize("seed", range(4))
def test_nonsense_with_the_right_names(seed: int) -> None:
    chance = random.Random(seed)
    read = refused = 0
    for _ in range(5_000):
        value = nonsense(chance)
        try:
            chunk = read_chunk(json.dumps(value))
            read += isinstance(chunk.said, str) and isinstance(chunk.thought, str)
        except (BadStream, ServerSaid):
            refused += 1
        try:
            Catalogue.read(value)
        except ValueError:
            refused += 1
    assert read > 100
    assert refused > 1_000


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(BadStream):
        read_chunk("[" * 100_000)


def test_the_same_events_in_whatever_pieces() -> None:
    whole = list(EventStream().feed(RECORDED.replace(b"\n", b"\r\n")))
    chance = random.Random(1)
    for _ in range(50):
        stream, found, at = EventStream(), [], 0
        sent = RECORDED.replace(b"\n", chance.choice((b"\n", b"\r\n", b"\r")))
        while at < len(sent):
            size = chance.choice((1, 2, 3, 50, 1000))
            found += stream.feed(sent[at : at + size])
            at += size
        found += stream.finish()
        assert found == whole


def test_garbled_answers_end_and_keep_what_came(
    play: Callable[..., PlayedServer], elsewhere: Callable[..., Elsewhere]
) -> None:
    def script(heard: Heard) -> list[bytes]:
        chance = random.Random(heard.json["seed"])
        return [head(), said("Begun. "), garbled(chance, RECORDED), DONE]

    server, view = play(script), elsewhere()
    view.connect(server.url)
    for number in range(60):
        view.events.clear()
        request = ChatRequest(str(number), QUESTION)
        request = ChatRequest(request.id, QUESTION, sampling=_seeded(number))
        finished = view.answer(request)
        told = [each for each in view.events if isinstance(each, TextDelta)]
        assert finished.text == "".join(each.text for each in told)
        assert finished.text.startswith("Begun. ")
        assert not any(isinstance(each, Failed) and each.bug for each in view.events)


def _seeded(number: int) -> SamplingParams:

    return SamplingParams(seed=number)
