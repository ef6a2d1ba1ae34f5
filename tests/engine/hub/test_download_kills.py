"""A download that is killed again and again: it goes on where it was, and nothing false counts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from download_desk import PATIENCE_S, Desk, desk
from local_hub import Act, Published

from engine.hub.messages import Answer, FetchedModel, FetchProgress

_FIFTY = pytest.param(42, 8, marks=pytest.mark.release(reason="every kill"))
_WEIGHTS = random.Random(3).randbytes(4 << 20)
_WHEN = ("at the first", "in between", "at the second")
"""Each equally often; only after the last of them something is written for certain."""


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with desk(tmp_path, monkeypatch) as at:
        yield at


@pytest.mark.parametrize(("on_the_way", "while_checking"), [(6, 3), _FIFTY])
def test_kills_at_random_moments(at: Desk, on_the_way: int, while_checking: int) -> None:
    """First between bytes: the hub stops twice on the way, and the process dies at the first stop,
    or in between, or at the second. Then while the whole file is read and named."""
    moments = random.Random(50)
    model = at.publish("ann/killed", _WEIGHTS)
    partial, here = at.weights(model), 0
    for when in moments.sample(_WHEN, on_the_way, counts=[on_the_way // len(_WHEN)] * len(_WHEN)):
        _kill_on_the_way(at, model, here, moments, when)
        assert not at.is_whole(at.job(model))
        written = partial.read_bytes() if partial.exists() else b""
        assert written == _WEIGHTS[: len(written)]
        assert len(written) >= here
        here = len(written)

    at.hub.forget_faults()
    for _ in range(while_checking):
        _kill_while_checking(at, model, moments)
        assert partial.exists() or at.is_whole(at.job(model)) or _is_named(at, model)

    answer = at.fetch(at.job(model))
    assert isinstance(answer, FetchedModel)
    assert at.is_whole(at.job(model))
    assert not partial.exists()
    assert here > 0
    assert at.served(model) < 2 * len(_WEIGHTS)


def _kill_on_the_way(
    at: Desk, model: Published, here: int, moments: random.Random, when: str
) -> None:
    first = here + moments.randrange(40_000)
    second = first + 1 + moments.randrange(20_000)
    stop = at.hub.trap("model.safetensors", first, Act.HOLD)
    last = at.hub.trap("model.safetensors", second, Act.HANG)
    started = at.start(at.job(model))
    assert stop.reached.wait(PATIENCE_S)
    if when != "at the first":
        stop.release()
    if when == "at the second":
        assert last.reached.wait(PATIENCE_S)
        _until_written(at.weights(model), here)
    started.close()  # kills it
    at.hub.forget_faults()


def _until_written(partial: Path, here: int) -> None:
    """What the hub has sent by now arrives and is written, however slow the machine is."""
    end = time.monotonic() + PATIENCE_S
    while not (partial.exists() and partial.stat().st_size > here):
        assert time.monotonic() < end, "nothing is written"
        time.sleep(0.01)


def _kill_while_checking(at: Desk, model: Published, moments: random.Random) -> None:
    """At a message that is one of the last."""
    after = moments.randrange(1, 4)
    started, heard = at.start(at.job(model)), list[Answer]()
    while len(heard) < after and (answer := started.receive()) is not None:
        if not isinstance(answer, FetchProgress) or answer.checking:
            heard.append(answer)
    started.close()


def _is_named(at: Desk, model: Published) -> bool:
    """Whether the weights have their name among the blobs: then they are right."""
    whole = at.place(at.job(model)).whole(model.listed("model.safetensors")[0])
    return whole is not None and whole.read_bytes() == _WEIGHTS
