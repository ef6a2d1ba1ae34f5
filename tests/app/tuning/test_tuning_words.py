"""What Tuning says of devices, of changes and of how long ago something was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.engine_link.measured import Measured, age_words
from app.showcase import budgets
from app.showcase.script import PLAN
from app.theme.theme import Theme, ThemeChoice
from app.tuning.hardware_card import DeviceRow, HardwareCard
from app.tuning.hardware_words import device_words
from app.tuning.outcome import LoadOutcome, changes, now_words
from engine.commands import KvType, Mode
from engine.machine.facts import Accelerator, PcieLink


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (20, "just now"),
        (60, "1 minute ago"),
        (59 * 60, "59 minutes ago"),
        (3 * 3600, "3 hours ago"),
        (50 * 3600, "2 days ago"),
    ],
)
def test_how_long_ago_something_was_measured(seconds: float, words: str) -> None:
    assert age_words(seconds) == words


def test_devices_are_told_by_what_is_known_of_them() -> None:
    host = replace(budgets.WITH_CARD.host, cores=8, fast_cores=6)
    told = device_words(replace(budgets.WITH_CARD, host=host), None)
    assert "6 performance cores" in told[0].facts
    shared = Accelerator("mps", "GPU", memory_total=8 << 30, unified=True, link=PcieLink())
    slow = Accelerator("webgpu:0", "Card", path="WebGPU, as measured", without_kernels="No Triton.")
    machine = replace(budgets.WITH_CARD, accelerators=(shared, slow))
    _, first, second = device_words(machine, None)
    assert first.facts == ("shares the computer's memory",)
    assert second.facts == ("WebGPU, as measured",)
    assert second.trouble == "Slow here: No Triton."


def test_changes_of_the_kv_cache_and_of_nothing() -> None:
    now = LoadOutcome(Mode.CPU, 0, 4096, kv=KvType.F16)
    said = changes(now, replace(now, kv=KvType.Q8), None)
    assert said.startswith("KV cache ")
    assert "16" in said.split("→")[0]
    assert "8" in said.split("→")[1]
    assert changes(now, now, None) == ""


def test_a_measured_speed_without_a_predicted_one_is_told() -> None:
    measured = Measured(
        "model", 0.0, PLAN.mode, None, PLAN.layers_on_gpu, 0, 12.0, 40, None, True, False
    )
    assert "12.0 tokens/s measured." in now_words(PLAN, None, None, measured)


def test_a_device_that_is_gone_has_no_row_any_more(theme: Theme, qtbot: QtBot) -> None:
    theme.apply(ThemeChoice.LIGHT)
    card = HardwareCard()
    qtbot.addWidget(card)
    card.show_machine(budgets.WITH_CARD, None)
    assert len(card.rows) == 2
    card.show_machine(replace(budgets.WITH_CARD, accelerators=()), None)
    assert len(card.rows) == 1
    card.show_machine(None, None)
    assert card.rows == []
    qtbot.waitUntil(lambda: not card.findChildren(DeviceRow))
