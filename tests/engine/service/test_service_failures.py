"""The engine outlives whatever goes wrong in it, says so in words, and ends when it is told to."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import psutil
import pytest
from engine_session import PATIENCE, Session, generate
from folder_models import FOLDER_TARGET
from machines import machine_with
from safetensors.numpy import load_file, save_file
from tiny_models import write_chat_model

import engine.backend.native.memory
import engine.loading.devices
import engine.service.model_slot
from engine.backend.cpu import native_is_built
from engine.backend.decoder import Decoder
from engine.commands import Load, Unload
from engine.devices.memory import give_memory_back
from engine.errors import InvalidLogits
from engine.errors import failed as failed_event
from engine.events import (
    DeviceSample,
    Event,
    Failed,
    FailureKind,
    Finished,
    FinishReason,
    LoadProgress,
    MemoryHeld,
    PlanReady,
    TextDelta,
    Unloaded,
)
from engine.loading.load import LoadedPair
from engine.machine.facts import CPU
from engine.model.local_model import LocalModel
from engine.service.engine import Engine
from engine.speculative.decoding import Decoding


@pytest.fixture
def ready(session: Session, chat_model: Path) -> Session:
    session.load(chat_model)
    return session


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of a trained model (without its draft) to be damaged."""
    return Path(shutil.copytree(FOLDER_TARGET, tmp_path / "copy"))


class Panic(BaseException):
    """What native extensions raise when they panic: no Exception."""


# -- mistakes inside -------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("secret detail"), Panic("secret detail")])
def test_a_mistake_in_an_answer_is_told_and_lived_through(
    ready: Session, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    verify, calls = Decoding.verify, []

    def fails_third(self: Decoding, *arguments: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise error
        return verify(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoding, "verify", fails_third)
    finished = ready.ask("Hello", max_tokens=10)
    failed = ready.wait(Failed)
    assert (failed.request_id, failed.bug) == ("a", True)
    assert "secret detail" in failed.details
    assert "secret detail" not in failed.cause + failed.remedy
    assert (finished.reason, finished.stats.committed) == (FinishReason.ERROR, 2)
    assert finished.text == "".join(delta.text for delta in ready.of(TextDelta))
    assert len(finished.token_ids or ()) == 2

    again = ready.ask("Hello", id="b", max_tokens=10)
    assert again.reason is FinishReason.LENGTH
    assert (again.token_ids or ())[:2] == finished.token_ids
    assert again.stats.reused_tokens == 0  # a state that an error went through is not trusted


def test_a_mistake_in_a_load_is_told_and_lived_through(
    session: Session, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.service.model_slot, "load", lambda *_: 1 / 0)
        session.submit(Load(chat_model))
        session.wait(Unloaded)
    failed = session.wait(Failed)
    assert (failed.request_id, failed.bug) == (None, True)
    assert session.load(chat_model).model == chat_model


def test_a_mistake_elsewhere_is_told_and_lived_through(
    session: Session, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.service.model_slot.ModelSlot, "drop", lambda _: 1 / 0)
        session.submit(Unload())
        failed = session.wait(Failed)
    assert (failed.request_id, failed.bug) == (None, True)
    assert session.load(chat_model).model == chat_model


def test_numbers_that_are_none_are_the_models_fault() -> None:
    told = failed_event(InvalidLogits("nan"), "a")
    assert (told.kind, told.bug) == (FailureKind.MODEL_UNUSABLE, False)
    assert "damaged" in told.cause
    assert "Download the model again" in told.remedy


def test_out_of_memory_is_said_plainly(ready: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_arguments: object, **_more: object) -> object:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")

    monkeypatch.setattr(Decoding, "verify", no_memory)
    ready.ask("Hello")
    failed = ready.wait(Failed)
    assert (failed.bug, failed.kind) == (False, FailureKind.OUT_OF_MEMORY)
    assert "memory" in failed.cause
    assert "smaller model" in failed.remedy


def test_a_listener_that_fails_ends_nothing(
    chat_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Event] = []
    done = threading.Event()

    def careless(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Finished):
            done.set()
        raise ValueError("a listener's mistake")

    running = Engine(careless, sample_devices=False)
    running.submit(Load(chat_model))
    running.submit(generate("Hello", max_tokens=3))
    assert done.wait(PATIENCE)
    running.close()
    (finished,) = (event for event in heard if isinstance(event, Finished))
    assert finished.reason is FinishReason.LENGTH
    assert "a listener's mistake" in caplog.text


# -- models that cannot be used --------------------------------------------------------------


def truncate(folder: Path) -> str:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    return "incomplete"


def lose_config(folder: Path) -> str:
    (folder / "config.json").unlink()
    return "config.json"


def break_tokenizer(folder: Path) -> str:
    (folder / "tokenizer.json").write_text('{"model": 7}')
    return "vocabulary"


def poison(folder: Path) -> str:
    """Not a number, in the last tensor to be read: noticed only while the model loads."""
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = np.full_like(tensors["model.norm.weight"], np.nan)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return "not numbers"


@pytest.mark.release(keep=2, reason="every damage")
@pytest.mark.parametrize("damage", [truncate, lose_config, break_tokenizer])
def test_a_bad_model_leaves_the_present_one(ready: Session, copy: Path, damage: object) -> None:
    check_refused(ready, copy, damage(copy))  # type: ignore[operator]


def test_weights_that_are_no_numbers_leave_the_present_model(
    ready: Session, tmp_path: Path
) -> None:
    folder = write_chat_model(tmp_path / "poisoned")
    check_refused(ready, folder, poison(folder))


def test_a_folder_that_is_not_there_leaves_the_present_model(
    ready: Session, tmp_path: Path
) -> None:
    check_refused(ready, tmp_path / "nowhere", "There is no")


def check_refused(ready: Session, folder: Path, words: str) -> None:
    after = len(ready.events)
    ready.submit(Load(folder))
    assert ready.wait(PlanReady, after=after).model_name == "Babbler"
    failed = ready.wait(Failed, after=after)
    assert words in failed.cause
    assert (failed.request_id, failed.bug) == (None, False)
    assert failed.kind is FailureKind.MODEL_UNUSABLE
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH


def test_a_bad_model_in_an_empty_engine_leaves_it_empty(session: Session, copy: Path) -> None:
    truncate(copy)
    session.submit(Load(copy))
    session.wait(Unloaded)
    assert "incomplete" in session.wait(Failed).cause


def test_an_answer_waiting_for_a_bad_model_fails_in_words(session: Session, copy: Path) -> None:
    truncate(copy)
    session.submit(Load(copy), generate("Hello"))
    assert session.wait(Finished).reason is FinishReason.ERROR
    assert [failed.request_id for failed in session.of(Failed)] == [None, "a"]


def test_a_folder_one_may_not_look_into_leaves_the_present_model(
    ready: Session, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path) -> LocalModel:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(LocalModel, "inspect", forbidden)  # to root, nothing is forbidden
    check_refused(ready, copy, "cannot be read")


@pytest.mark.skipif(not hasattr(os, "geteuid") or not os.geteuid(), reason="root may read all")
def test_a_locked_folder_leaves_the_present_model(ready: Session, copy: Path) -> None:
    copy.chmod(0)
    try:
        check_refused(ready, copy, "cannot be read")
    finally:
        copy.chmod(0o700)


def lose_weights(folder: Path) -> str:
    (folder / "model.safetensors").unlink()
    return "cannot be read"


def shorten(folder: Path) -> str:
    truncate(folder)
    return "shorter"


@pytest.mark.parametrize("damage", [lose_weights, shorten])
def test_files_that_change_between_check_and_load_leave_the_present_model(
    ready: Session, copy: Path, damage: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: list[str] = []
    honest = engine.service.model_slot.load

    def too_late(*arguments: object) -> object:
        words.append(damage(copy))  # type: ignore[operator]
        return honest(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine.service.model_slot, "load", too_late)
    after = len(ready.events)
    ready.submit(Load(copy))
    assert ready.wait(PlanReady, after=after).model_name == "Babbler"
    failed = ready.wait(Failed, after=after)
    assert words[0] in failed.cause
    assert (failed.bug, failed.kind) == (False, FailureKind.MODEL_UNUSABLE)
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH


@pytest.mark.release(keep=1, reason="every damage")
@pytest.mark.parametrize("damage", [lose_weights, shorten])
def test_a_model_in_memory_needs_its_files_no_more(
    session: Session, copy: Path, damage: object
) -> None:
    session.load(copy)
    before = session.ask("Hello", max_tokens=8)
    damage(copy)  # type: ignore[operator]
    session.ask("Something else", max_tokens=8)
    assert session.ask("Hello", max_tokens=8).text == before.text
    after = len(session.events)
    session.submit(Load(copy))
    assert session.wait(PlanReady, after=after).model == copy  # what is in memory stays
    assert session.wait(Failed, after=after).kind is FailureKind.MODEL_UNUSABLE
    assert session.ask("Hello", max_tokens=8).text == before.text


# -- memory ----------------------------------------------------------------------------------


@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
def test_no_memory_for_the_weights_leaves_the_present_model(
    ready: Session, other_chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(count: int) -> object:
        raise MemoryError(f"no memory for {count} bytes of weights")

    with monkeypatch.context() as patch:
        patch.setattr(engine.backend.native.memory, "_new_region", refused)
        after = len(ready.events)
        ready.submit(Load(other_chat_model))
        assert ready.wait(PlanReady, after=after).model_name == "Babbler"
    failed = ready.wait(Failed, after=after)
    assert (failed.request_id, failed.bug) == (None, False)
    assert failed.kind is FailureKind.OUT_OF_MEMORY
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH
    assert ready.load(other_chat_model).model_name == "Mumbler"


def test_a_model_too_large_for_the_memory_is_not_begun(
    ready: Session, other_chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.loading.devices, "probe_machine", lambda: machine_with(1000))
    monkeypatch.setattr(LoadedPair, "held_on", lambda *_: 1000)
    after = len(ready.events)
    ready.submit(Load(other_chat_model))
    assert ready.wait(PlanReady, after=after).model_name == "Babbler"
    assert ready.wait(Failed, after=after).kind is FailureKind.OUT_OF_MEMORY
    assert ready.ask("Hello", max_tokens=3).reason is FinishReason.LENGTH


def test_no_memory_for_one_more_conversation_ends_only_that_answer(
    ready: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ready.ask("Hello", max_tokens=5)

    def refused(*_arguments: object) -> object:
        raise MemoryError("no memory for the KV cache")

    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "new_state", refused)
        failing = ready.ask("Something else, and long enough to want its own state", id="b")
    assert (failing.reason, failing.text) == (FinishReason.ERROR, "")
    failed = ready.wait(Failed)
    assert (failed.request_id, failed.kind) == ("b", FailureKind.OUT_OF_MEMORY)
    assert ready.ask("Hello", id="c", max_tokens=5).text == first.text
    assert ready.ask("Something else", id="d", max_tokens=5).reason is FinishReason.LENGTH


@pytest.fixture(scope="module")
def big_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MB of weights, nearly all of them in two tensors."""
    folder = write_chat_model(
        tmp_path_factory.mktemp("big") / "Big", num_hidden_layers=1, tie_word_embeddings=True
    )
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    wide, hidden = 300_000, config["hidden_size"]
    for name in ("gate_proj", "up_proj", "down_proj"):
        shape = (hidden, wide) if name == "down_proj" else (wide, hidden)
        tensors[f"model.layers.0.mlp.{name}.weight"] = np.ones(shape, np.float32)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": wide}))
    return folder


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_unload_gives_the_memory_back(session: Session, big_model: Path) -> None:
    """Counted the third time: what is only taken once stays."""
    for cycle in (1, 2, 3):
        give_memory_back()  # else what went before is freed meanwhile, and counted
        before = resident()
        session.load(big_model)
        loaded = resident()
        pair = session.engine._slot.pair
        assert pair is not None
        held = pair.summary.target_bytes
        assert held > 50e6
        parts = [weakref.ref(part) for part in (pair.target, pair.target.segments[0])]
        del pair
        session.ask("Hello", max_tokens=2)
        session.submit(Unload())
        session.wait(Unloaded, count=cycle)
        assert [part() for part in parts] == [None, None]
    assert loaded - before > 0.5 * held
    if sys.platform == "linux":  # elsewhere freed pages stay counted for a while
        assert resident() - before < 0.1 * held


def test_a_model_goes_first_when_memory_does_not_hold_both(
    ready: Session, other_chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stays until the new one is there when it does."""
    present = ready.engine._slot.pair
    assert present is not None
    probe = engine.loading.devices.probe_machine
    just_enough = machine_with(present.plan.on(CPU).total - 1)
    target = weakref.ref(present.target)
    del present
    seen: list[bool] = []

    def look(event: LoadProgress) -> bool:
        if event.fraction > 0 and not seen:
            seen.append(target() is not None)
        return False

    monkeypatch.setattr(engine.loading.devices, "probe_machine", lambda: just_enough)
    monkeypatch.setattr(LoadedPair, "held_on", lambda *_: 64 << 20)
    with ready.holding(LoadProgress, look):
        ready.load(other_chat_model)
    assert seen == [False]

    monkeypatch.setattr(engine.loading.devices, "probe_machine", probe)
    present = ready.engine._slot.pair
    assert present is not None
    target = weakref.ref(present.target)
    del present
    seen.clear()
    with ready.holding(LoadProgress, look):
        ready.load(other_chat_model)
    assert seen == [True]
    assert target() is None


# -- the end ---------------------------------------------------------------------------------


def test_close_joins_every_thread_in_the_middle_of_an_answer(chat_model: Path) -> None:
    told: list[Event] = []
    writing = threading.Event()

    def listen(event: Event) -> None:
        told.append(event)
        if isinstance(event, TextDelta):
            writing.set()
            with running._wake:  # until `close` has begun: the answer has no time to end by itself
                assert running._wake.wait_for(lambda: running._closed, PATIENCE)

    before = set(threading.enumerate())
    running = Engine(listen)
    threads = set(threading.enumerate()) - before
    assert {thread.name for thread in threads} == {"device-monitor", "engine"}
    running.submit(Load(chat_model))
    running.submit(generate("Hello"))
    assert writing.wait(PATIENCE)
    running.close(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    last = [event for event in told if not isinstance(event, DeviceSample | MemoryHeld)][-1]
    assert isinstance(last, Finished)
    assert last.reason is FinishReason.STOPPED
    assert running._slot.pair is None


def test_a_closed_engine_takes_no_commands(chat_model: Path) -> None:
    told: list[Event] = []
    running = Engine(told.append, sample_devices=False)
    running.close()
    running.submit(Load(chat_model))
    running.close()
    assert told == []
