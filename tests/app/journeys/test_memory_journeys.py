"""Journeys about memory on the real engine: a model that does not fit, a game on the GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot
from traveller import WHOLE, Traveller

import app.tuning.pressure
import engine.loading.devices
from app.engine_link.status import Phase
from app.settings.profiles import ModelProfile
from app.shell.banner import Banner
from app.theme.theme import Theme
from engine.backend.simulated.device import SimulatedDevice
from engine.commands import Load, Mode, WeightFormat
from engine.devices.probe import probe_host
from engine.events import DeviceSample
from engine.machine.facts import Machine
from engine.machine.memory import DeviceMemory
from engine.remote.switchboard import Switchboard
from engine.service.engine import Engine

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
from hollow_gguf import write_hollow_gguf
from hollow_models import LLAMA_13B

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

GIB = 2**30
TALKS = {"vocab_size": 4096}
SMALL = LLAMA_13B | TALKS | {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 16,
}  # fmt: skip


def has_free(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """Let the PC be one of 16 GiB without a card, of which so many bytes are free."""
    host = replace(probe_host(), memory_total=16 * GIB, memory_available=nbytes)
    monkeypatch.setattr(engine.loading.devices, "probe_machine", lambda: Machine(host))


def cards(traveller: Traveller) -> list[Banner]:
    """What is said above the message field, the newest last."""
    return [each for each in traveller.banners.findChildren(Banner) if each.isVisible()]


def card(traveller: Traveller, words: str) -> Banner:
    """Wait for the one with these words."""

    def found() -> Banner | None:
        said = ((each, each.accessibleName()) for each in cards(traveller))
        return next((each for each, name in said if words in name), None)

    traveller.until(found)
    result = found()
    assert result is not None
    return result


def button(where: Banner, words: str) -> QPushButton:
    return next(each for each in where.findChildren(QPushButton) if words in each.text())


@pytest.mark.release(reason="plans of every way out")
@pytest.mark.skipif(sys.platform == "win32", reason="files have no holes there by default")
def test_a_13b_at_16_bit_on_a_small_machine(
    traveller: Traveller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Journey 5: what is missing is said before anything is loaded, and a click away is a way out.

    The one that is clicked belongs to a model small enough to be loaded in a test.
    """
    traveller.start()
    has_free(monkeypatch, 11 * GIB)
    big = write_hollow_gguf(tmp_path / "big-13b.F16.gguf", LLAMA_13B | TALKS)
    traveller.assembly.models.load_path(big)
    told = card(traveller, "are free")
    assert "needs 24.3" in told.text
    assert "4-bit weights" in button(told, "4-bit weights").text()
    traveller.until(lambda: traveller.assembly.bridge.status.phase is Phase.READY)
    assert traveller.ask("Hello").message.state in WHOLE, "the present model goes on"
    assert traveller.assembly.settings.value.model == "", "what did not load was not chosen"
    traveller.banners.clear()

    small = write_hollow_gguf(tmp_path / "small.F16.gguf", SMALL)
    has_free(monkeypatch, 130 << 20)
    traveller.assembly.models.load_path(small)
    told = card(traveller, "are free")
    traveller.until(lambda: traveller.assembly.bridge.status.phase is Phase.READY)
    has_free(monkeypatch, 11 * GIB)
    traveller.bot.keyClick(button(told, "4-bit weights"), Qt.Key.Key_Space)
    traveller.until(lambda: bool(traveller.assembly.settings.value.profiles))
    (kept,) = traveller.assembly.settings.value.profiles
    assert (kept.model, kept.profile.weights) == (str(small), WeightFormat.Q4)
    traveller.until(lambda: "small" in traveller.assembly.bridge.status.model_name)
    assert traveller.assembly.settings.value.model == str(small)


@pytest.fixture
def guest(
    tmp_path: Path, theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Traveller]:
    """Somebody with a graphics card of 1 GiB, a simulated one, who does not wait long."""
    monkeypatch.setattr(app.tuning.pressure, "PATIENCE_S", 0.4)
    monkeypatch.setattr(app.tuning.pressure, "CALM_S", 0.4)
    result = Traveller(tmp_path, theme, qtbot, simulate_gpu=GIB)
    yield result
    result.leave()


def simulated(traveller: Traveller) -> SimulatedDevice:
    switchboard = traveller.assembly.bridge._engine
    assert isinstance(switchboard, Switchboard)
    running = switchboard._here
    assert isinstance(running, Engine)
    device = running._manager.simulated()
    assert device is not None
    return device


def on_card(traveller: Traveller) -> DeviceMemory | None:
    plan = traveller.assembly.bridge.status.plan
    assert plan is not None
    return next((each for each in plan.memory if each.device != "cpu"), None)


@pytest.mark.release(reason="loads three plans one after the other")
def test_a_game_takes_the_gpu(guest: Traveller) -> None:
    """Journey 11: chat goes on, a notice offers a smaller plan, and later the former one."""
    guest.start()
    guest.assembly.models.running.apply(ModelProfile(Mode.DOVETAIL, vram=GIB))
    guest.until(lambda: on_card(guest) is not None)
    before = on_card(guest)
    assert before is not None
    guest.until(lambda: guest.assembly.bridge.status.phase is Phase.READY)
    samples: list[DeviceSample] = []
    guest.assembly.bridge.subscribe(DeviceSample, samples.append)
    guest.ask("Hello")
    guest.until(lambda: any(each.accelerators for each in samples))
    guest.say("Tell me a long story about a dog and a cat.")
    guest.writing()
    taken = GIB - before.total * 9 // 10
    simulated(guest).take_by_others(taken)
    told = card(guest, "Other programs now use")
    assert "simulated other programs" in told.accessibleName()
    guest.answered()
    assert guest.session.messages[-1].state in WHOLE, "nothing was interrupted"
    assert guest.ask("And then?").message.state in WHOLE, "it works as it is, too"

    button(told, "Use less").click()
    guest.until(lambda: _less(guest, before))
    guest.until(lambda: guest.assembly.bridge.status.phase is Phase.READY)
    assert guest.ask("Thank you.").message.state in WHOLE
    assert guest.assembly.settings.value.profiles[0].profile.vram == GIB, (
        "the next start knows nothing of it"
    )

    simulated(guest).take_by_others(-taken)
    told = card(guest, "has free memory again")
    button(told, "Use it again").click()
    guest.until(lambda: (now := on_card(guest)) is not None and now.total == before.total)
    last = guest.assembly.bridge.status.wanted
    assert isinstance(last, Load)
    assert last.vram == GIB
    assert guest.ask("Bye").message.state in WHOLE


def _less(guest: Traveller, before: DeviceMemory) -> bool:
    now = on_card(guest)
    return now is not None and now.total <= before.total * 9 // 10
