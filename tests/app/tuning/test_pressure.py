"""Other programs on the graphics card: one notice per event, a way to use less, a way back."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from desk import Desk
from PySide6.QtWidgets import QPushButton

from app.shell.banner import Banner
from app.showcase.script import PLAN
from app.tuning.pressure import CALM_S, PATIENCE_S, GpuMemory
from engine.commands import Load, Mode, Preview
from engine.events import (
    AcceleratorSample,
    DeviceSample,
    Event,
    Failed,
    MachineFound,
    PlanReady,
    PlanSummary,
    Previewed,
    Unloaded,
    WayOut,
)
from engine.machine.facts import CPU, Accelerator, Host, Machine, Vendor
from engine.machine.memory import DeviceMemory, Holder

GIB = 2**30
CARD = Accelerator("cuda:0", "RTX 4070", Vendor.NVIDIA, 12 * GIB, 11 * GIB, identity="GPU-1")
MACHINE = Machine(Host(8, 32 * GIB, 20 * GIB), (CARD,))
MODEL = Path("model")
LOAD = Load(MODEL)
GAME = Holder("game.exe", 99, 5 * GIB)


def plan_with(nbytes: int, rate: float | None = 20.0) -> PlanSummary:
    memory = (DeviceMemory(CPU, GIB, target=GIB), DeviceMemory("cuda:0", nbytes, target=nbytes))
    return replace(
        PLAN, mode=Mode.PLAIN, memory=memory if nbytes else memory[:1], tokens_per_s=rate
    )


class Player:
    """Somebody who chats, and somebody who plays on the same card."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self._clock = desk, count(100.0, 0.5)
        desk.script.preview = None  # answered by the tests themselves
        self.ours: int | None = 8 * GIB
        self.load(LOAD, 8 * GIB)
        self.others(GIB // 2)

    def tell(self, *events: Event) -> None:
        self.desk.tell(*events)

    def load(self, load: Load, nbytes: int) -> None:
        found = MachineFound(0.0, MACHINE)
        self.tell(found, PlanReady(0.0, load.model, "Model", plan_with(nbytes), load))
        self.ours = self.ours and nbytes

    def others(self, nbytes: int, seconds: float = 0.0, *holders: Holder) -> None:
        """They hold so much, for so long."""
        for _ in range(int(seconds * 2) + 1):
            used = nbytes + (self.ours or 0)
            card = AcceleratorSample(
                "cuda:0", "RTX 4070", memory_used=used, memory_ours=self.ours,
                memory_total=12 * GIB, identity="GPU-1", holders=holders,
            )  # fmt: skip
            self.tell(DeviceSample(next(self._clock), None, None, None, None, (card,)))

    @property
    def questions(self) -> list[Preview]:
        return [each for each in self.desk.script.commands if isinstance(each, Preview)]

    def answer(self, plan: PlanSummary | None, refusal: Failed | None = None) -> None:
        """Answer the last question."""
        load, question = self.questions[-1].load, self.questions[-1].id
        self.tell(Previewed(0.0, load, MACHINE, plan, refusal=refusal, id=question))

    @property
    def notice(self) -> Banner | None:
        shown = [each for each in self.desk.banners.findChildren(Banner) if each.isVisible()]
        return shown[0] if shown else None

    def said(self) -> str:
        assert self.notice is not None
        return self.notice.accessibleName().replace("\N{NO-BREAK SPACE}", " ")

    def click(self, start: str) -> None:
        assert self.notice is not None
        found = self.notice.findChildren(QPushButton)
        next(each for each in found if each.text().startswith(start)).click()

    def squeezed(self) -> None:
        """A game has come, and the notice with it."""
        self.others(5 * GIB, PATIENCE_S, GAME)
        self.answer(plan_with(6 * GIB, 7.04))

    @property
    def asked(self) -> Load:
        loads = [each for each in self.desk.script.commands if isinstance(each, Load)]
        return loads[-1]


@pytest.fixture
def player(desk: Desk) -> Player:
    return Player(desk)


def test_a_game_that_takes_the_card_is_told_with_a_way_to_use_less(player: Player) -> None:
    player.squeezed()
    (asked,) = player.questions
    question = asked.load
    reserve = 12 * GIB // 32
    assert question == replace(LOAD, vram=(7 * GIB - reserve) // 2**26 * 2**26)
    said = player.said()
    assert "Other programs now use 5.0 GiB of RTX 4070." in said
    assert "game.exe (5.0 GiB)" in said
    notice = player.notice
    assert notice is not None
    texts = [
        each.text().replace("\N{NO-BREAK SPACE}", " ") for each in notice.findChildren(QPushButton)
    ]
    assert "Use less\n6.0 GiB, about 7.0 tokens/s" in texts
    player.click("Use less")
    assert player.asked == replace(question, after_answer=True)
    assert player.notice is None
    assert player.desk.assembly.settings.value.profiles == (), "it is for now"


def test_the_way_back_is_offered_when_there_is_room(player: Player) -> None:
    player.squeezed()
    player.click("Use less")
    player.load(player.asked, 6 * GIB)
    player.others(5 * GIB, 20)
    assert player.notice is None
    player.others(GIB, CALM_S)
    assert player.questions[-1].load == LOAD
    player.answer(plan_with(8 * GIB, 20.0))
    assert "RTX 4070 has free memory again." in player.said()
    player.click("Use it again")
    assert player.asked == replace(LOAD, after_answer=True)
    player.load(player.asked, 8 * GIB)
    player.others(GIB, 20)
    assert player.notice is None
    assert len(player.questions) == 2


def test_the_way_back_goes_when_the_game_does_not(player: Player) -> None:
    player.squeezed()
    player.click("Use less")
    player.load(player.asked, 6 * GIB)
    player.others(GIB, CALM_S)
    player.answer(plan_with(8 * GIB))
    assert player.notice is not None
    player.others(5 * GIB)
    assert player.notice is None
    player.others(GIB, CALM_S)
    player.others(5 * GIB)
    player.answer(plan_with(8 * GIB))
    assert player.notice is None, "it was taken again before the answer"
    player.others(GIB, CALM_S)
    player.answer(None)
    assert player.notice is None, "it does not fit after all"
    player.others(GIB, CALM_S)
    player.answer(plan_with(8 * GIB, None))
    assert player.notice is not None
    texts = [each.text().split() for each in player.notice.findChildren(QPushButton)]
    assert ["Use", "it", "again", "8.0", "GiB"] in texts, "a speed that is not known is not told"
    player.click("Leave as it is")
    player.others(GIB, 20)
    assert player.notice is None
    assert len(player.questions) == 5


@pytest.mark.parametrize("how", ["Leave as it is", "close"])
def test_it_is_said_once_per_event(player: Player, how: str) -> None:
    player.squeezed()
    if how == "close":
        assert player.notice is not None
        player.notice.dismissed.emit()
    else:
        player.click(how)
    loads = len(player.desk.script.commands)
    player.others(5 * GIB, 60)
    player.others(GIB, CALM_S - 1)
    player.others(6 * GIB, 60)
    assert player.notice is None
    assert len(player.desk.script.commands) == loads
    player.others(GIB, CALM_S)
    player.squeezed()
    assert player.notice is not None, "another event"


def test_it_goes_away_by_itself(player: Player) -> None:
    player.squeezed()
    player.others(GIB, CALM_S - 1)
    assert player.notice is not None
    player.others(GIB, 1.0)
    assert player.notice is None


def test_little_or_short_is_no_event(player: Player) -> None:
    player.others(GIB // 2 + 50 * 2**20, 30)
    player.others(5 * GIB, PATIENCE_S / 2)
    player.others(3 * GIB, 30)
    assert player.questions == []


def test_a_card_that_was_full_at_the_load_is_the_plan_s_affair(desk: Desk) -> None:
    player = Player(desk)
    player.load(replace(LOAD, vram=9 * GIB), 9 * GIB)
    player.others(3 * GIB, 30)
    assert player.questions == []


def test_drivers_that_tell_little(player: Player) -> None:
    """Without our own share the plan stands for it; without any number nothing is said."""
    player.ours = None
    player.load(replace(LOAD, vram=8 * GIB), 8 * GIB)
    player.others(9 * GIB)
    player.others(10 * GIB, 30)
    assert player.questions == []
    player.others(12 * GIB, PATIENCE_S)
    assert len(player.questions) == 1
    silent = AcceleratorSample("cuda:0", "RTX 4070")
    player.tell(DeviceSample(0.0, None, None, None, None, (silent,)))
    assert GpuMemory.of(0.0, silent, 1, 1) is None


def test_an_answer_that_comes_too_late_says_nothing(player: Player) -> None:
    player.others(5 * GIB, PATIENCE_S)
    player.others(5 * GIB, 30)
    assert len(player.questions) == 1, "nothing gets lost, so nothing is asked again"
    player.others(GIB)
    player.answer(plan_with(6 * GIB))
    assert player.notice is None, "it has gone meanwhile"


def test_a_mode_that_has_no_smaller_plan_offers_another_one(player: Player) -> None:
    player.others(5 * GIB, PATIENCE_S)
    way = replace(LOAD, mode=Mode.CPU)
    refusal = Failed(0.0, None, "No.", "Never.", ways_out=(WayOut("CPU", way),))
    player.answer(None, refusal)
    player.click("Use less")
    assert player.asked == replace(way, after_answer=True)


def test_nothing_smaller_is_said_without_a_button(player: Player) -> None:
    player.others(5 * GIB, PATIENCE_S)
    player.answer(None)
    notice = player.notice
    assert notice is not None
    assert not [b for b in notice.findChildren(QPushButton) if b.text().startswith("Use")]


def test_another_model_or_none_ends_it(player: Player) -> None:
    player.squeezed()
    player.load(Load(Path("other")), GIB)
    assert player.notice is None
    player.others(5 * GIB, 30)
    assert len(player.questions) == 1
    player.load(LOAD, 8 * GIB)
    player.others(GIB)
    player.squeezed()
    player.tell(Unloaded(0.0))
    assert player.notice is None
    player.others(5 * GIB, 30)
    assert len(player.questions) == 2
