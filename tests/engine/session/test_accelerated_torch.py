"""The engine with an accelerator on torch; its "cpu" device stands in for a card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from engine_session import Session
from folder_models import FOLDER_TARGET

import engine.loading.devices
from engine.backend.accelerator.device import TorchDevice
from engine.backend.cpu import native_is_built
from engine.backend.ledger import Purpose
from engine.commands import ALL_LAYERS, DraftChoice, Mode
from engine.events import Failed, FinishReason, PlanReady
from engine.machine.facts import Accelerator, Machine, Vendor

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

CARD = "cpu:0"
GIB = 2**30


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _card(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = engine.loading.devices.probe_machine
    found = Accelerator(CARD, "A card", Vendor.NVIDIA, memory_total=4 * GIB, memory_free=4 * GIB)

    def probed() -> Machine:
        return replace(honest(), accelerators=(found,))

    monkeypatch.setattr(engine.loading.devices, "probe_machine", probed)


def load(session: Session, layers: int, **wishes: Any) -> PlanReady:
    return session.load(FOLDER_TARGET, layers_on_gpu=layers, **wishes)


def card(session: Session) -> TorchDevice:
    pair = session.engine._slot.pair
    assert pair is not None
    device = pair.devices[CARD]
    assert isinstance(device, TorchDevice)
    return device


@pytest.mark.release(keep=1, reason="every split")
@pytest.mark.parametrize("layers", [3, ALL_LAYERS])
def test_trees_write_what_plain_decoding_writes(session: Session, layers: int) -> None:
    texts = set()
    for draft in (DraftChoice.NONE, DraftChoice.LOOKUP):
        mode = Mode.PLAIN if draft is DraftChoice.NONE else Mode.DOVETAIL
        plan = load(session, layers, mode=mode, draft=draft).plan
        answer = session.ask("Tell me a story about a fox.", id=draft, max_tokens=24)
        texts.add((answer.text, answer.signature))
        assert answer.signature == plan.signature
    ((_, signature),) = texts
    if layers == ALL_LAYERS:
        assert signature.startswith("torch-cpu:q8/kv-f16")
    else:
        assert signature == "torch-cpu:q8/kv-f16[0:3]+cpu:q8/kv-f16[3:8]"


def test_the_plan_says_what_is_held(session: Session) -> None:
    plan = load(session, 5, draft=DraftChoice.NONE).plan
    session.ask("Hello", id="a", max_tokens=4)
    ledger = card(session).ledger
    held = dict.fromkeys(Purpose, 0)
    for line in ledger.lines():
        held[line.purpose] += line.nbytes
    (planned,) = [memory for memory in plan.memory if memory.device == CARD]
    assert planned.target == pytest.approx(held[Purpose.WEIGHTS], rel=0.05)
    assert planned.kv == pytest.approx(held[Purpose.KV], rel=0.05)
    assert ledger.peak <= (ledger.budget or 0)


def test_a_lost_card(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    load(session, 4, draft=DraftChoice.NONE)
    honest = torch.bmm

    def lost(*_arguments: Any, **_options: Any) -> torch.Tensor:
        monkeypatch.setattr(torch, "bmm", honest)
        raise RuntimeError("CUDA error: unspecified launch failure")

    before = session.engine._slot.pair
    after = len(session.events)
    monkeypatch.setattr(torch, "bmm", lost)
    answer = session.ask("Hello", id="a", max_tokens=4)
    assert answer.reason is FinishReason.ERROR
    assert "A card stopped responding" in session.wait(Failed, after=after).cause
    again = session.wait(PlanReady, after=after).plan
    assert again.layers_on_gpu == 0
    assert session.engine._slot.pair is not before
    assert session.ask("Hello", id="b", max_tokens=4).signature == "cpu:q8/kv-f16"
