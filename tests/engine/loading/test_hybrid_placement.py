"""Models with recurrent states on machines with GPUs: cut like others, by WebGPU alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hybrid_models import UNLIKE, with_mtp
from machines import machine_with
from tiny_models import write_chat_model

from engine.commands import DraftChoice, Load, Mode
from engine.errors import Absent
from engine.loading.planned_load import plan_load
from engine.machine.facts import CPU, Accelerator, Machine
from engine.plan.plan import Plan

GIB = 1 << 30
CARD = Accelerator("webgpu:0", "A card", memory_total=4 * GIB, memory_free=4 * GIB, chosen=True)
TORCHS = replace(CARD, device="cuda:0")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("chat")
    return with_mtp(write_chat_model(root / "without", "qwen3_5_text", **UNLIKE), root / "model")


def with_card(*found: Accelerator) -> Machine:
    return replace(machine_with(8 * GIB), accelerators=found)


def planned(load: Load, *found: Accelerator) -> Plan:
    return plan_load(load, with_card(*found)).plan


@pytest.mark.parametrize(
    ("draft", "place"), [(DraftChoice.MTP, CARD.device), (DraftChoice.LOOKUP, CPU)]
)
def test_dovetail_has_the_first_layers_on_the_gpu(
    chat: Path, draft: DraftChoice, place: str
) -> None:
    made = planned(Load(chat, mode=Mode.DOVETAIL, draft=draft, layers_on_gpu=2), CARD)
    assert made.mode is Mode.DOVETAIL
    assert (made.layers_on_gpu, made.draft_device or CPU) == (2, place)
    assert made.on(CARD.device).kv > 0
    assert made.on(CPU).kv > 0


def test_duo_has_the_whole_target_on_the_gpu(chat: Path) -> None:
    made = planned(Load(chat, mode=Mode.DUO, draft=DraftChoice.MTP), CARD)
    assert (made.mode, made.layers_on_gpu, made.draft_device) == (Mode.DUO, 5, CPU)


def test_a_draft_with_states_is_on_the_cpu(chat: Path) -> None:
    made = planned(Load(chat, mode=Mode.DOVETAIL, draft=chat, layers_on_gpu=2), CARD)
    assert made.draft_device == CPU


def test_torch_does_not_run_it_and_says_so(chat: Path) -> None:
    with pytest.raises(Absent, match="recurrent states on the CPU or through WebGPU"):
        planned(Load(chat, mode=Mode.DUO, draft=DraftChoice.MTP), TORCHS)
    both = planned(Load(chat, mode=Mode.DUO, draft=DraftChoice.MTP), TORCHS, CARD)
    assert both.accelerator == CARD.device
