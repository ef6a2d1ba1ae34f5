"""A load that does not fit, in the window: what the card says, what its buttons do, what stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.settings.file import load
from app.settings.profiles import ModelProfile
from app.shell.banner import Banner
from app.theme.theme import Theme, ThemeChoice
from app.tuning.refusal import button_words, refusal
from app.tuning.refusal_notice import RefusalNotice
from app.widgets.terms import explained
from engine.commands import Load, Mode, WeightFormat
from engine.errors import NotPossible, failed
from engine.events import Failed, FailureKind, WayOut
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory, Holder, Shortage

GIB = 2**30
BIG = Path("big")
NEEDED = DeviceMemory(CPU, 0, target=24 * GIB, kv=GIB)
LACKING = Shortage(CPU, "Memory", NEEDED, 11 * GIB, (Holder("firefox", 1, 3 * GIB),))
WAYS = (
    WayOut("8-bit weights", Load(BIG, weights=WeightFormat.Q8), 12.4),
    WayOut("Context of 2,048 tokens", Load(BIG, mode=Mode.PLAIN, context=2048), None),
)
REFUSED = Failed(
    0.0, None, "Big needs 25.0 GiB.", "Choose a smaller model.", kind=FailureKind.OUT_OF_MEMORY,
    shortage=LACKING, ways_out=WAYS,
)  # fmt: skip


def loads(desk: Desk) -> list[Load]:
    return [command for command in desk.script.commands if isinstance(command, Load)]


def refuse(desk: Desk, event: Failed = REFUSED) -> Banner:
    """Choose the large model, and see that it does not fit."""
    desk.script.fail_load = event
    desk.assembly.models.load(BIG)
    desk.bot.waitUntil(lambda: any(each.text == event.cause for each in cards(desk)))
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.wanted == loads(desk)[0])
    desk.script.fail_load = None
    return next(each for each in cards(desk) if each.text == event.cause)


def cards(desk: Desk) -> list[Banner]:
    return desk.banners.findChildren(Banner)


def buttons(card: Banner) -> dict[str, QPushButton]:
    found = card.findChildren(QPushButton)
    return {each.accessibleName() or each.text(): each for each in found}


def test_a_card_says_what_is_missing_who_has_it_and_what_would_fit(desk: Desk) -> None:
    card = refuse(desk)
    said = card.accessibleName().replace("\N{NO-BREAK SPACE}", " ")
    assert "14.0 GiB more memory is needed." in said
    assert "firefox (3.0 GiB)" in said
    found = buttons(card)
    assert {"8-bit weights, about 12 tokens/s", "Context of 2,048 tokens", "Try again"} <= set(
        found
    )
    assert all(each.focusPolicy() is Qt.FocusPolicy.TabFocus for each in found.values())


def test_the_present_model_goes_on_and_is_loaded_at_the_next_start(desk: Desk) -> None:
    present = loads(desk)[0].model
    refuse(desk)
    desk.type_and_send("Hello")
    assert desk.answered().message.text == desk.script.answer
    first = desk.assembly.models.first_load(lambda: present)
    assert first is not None
    assert first.model == present


def test_one_click_loads_what_fits_and_the_next_start_does_too(desk: Desk) -> None:
    card = refuse(desk)
    desk.bot.keyClick(buttons(card)["8-bit weights, about 12 tokens/s"], Qt.Key.Key_Space)
    asked = replace(WAYS[0].load, after_answer=True)
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.profiles != ())
    assert loads(desk)[-1] == asked
    assert not any(each.isVisible() for each in cards(desk))
    assert desk.assembly.settings.value.model == str(BIG)
    desk.assembly.settings.flush()
    kept = load(desk.assembly.settings.path).settings
    assert kept.profiled(BIG).profile == ModelProfile(weights=WeightFormat.Q8)
    again = desk.assembly.models.running.kept_load(BIG)
    assert (again.weights, again.context) == (WeightFormat.Q8, None)
    assert desk.assembly.models.running.kept_load(Path("other")).weights is WeightFormat.AUTO


def test_as_usual_again_is_forgotten(desk: Desk) -> None:
    running, settings = desk.assembly.models.running, desk.assembly.settings
    running.take(WAYS[1].load)
    shorter = ModelProfile(Mode.PLAIN, context=2048)
    desk.bot.waitUntil(lambda: settings.value.profiled(BIG).profile == shorter)
    running.take(Load(BIG))
    desk.bot.waitUntil(lambda: settings.value.profiled(BIG).profile == ModelProfile())


def test_an_answer_is_written_to_its_end_before_a_way_out_is_taken(desk: Desk) -> None:
    card = refuse(desk)
    desk.script.hold_after = 1
    desk.type_and_send("Hello")
    desk.streaming("Hello!")
    buttons(card)["Context of 2,048 tokens"].click()
    desk.script.gate.set()
    assert desk.answered().message.text == desk.script.answer
    desk.bot.waitUntil(
        lambda: desk.assembly.settings.value.profiled(BIG).profile.mode is Mode.PLAIN
    )


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_the_ways_of_the_last_refusal_take_the_place_of_earlier_ones(
    theme: Theme, qtbot: QtBot
) -> None:
    theme.apply(ThemeChoice.LIGHT)
    notice = RefusalNotice()
    qtbot.addWidget(notice)
    notice.show()
    for ways in (WAYS, WAYS[:1], ()):
        notice.show_refusal(replace(REFUSED, ways_out=ways))
        assert len(notice.buttons) == len(ways)
        qtbot.waitUntil(lambda: len(notice.findChildren(QPushButton)) == len(notice.buttons))
        qtbot.waitUntil(lambda: all(each.isVisible() for each in notice.buttons))
        notice.grab()
        places = [each.geometry() for each in notice.buttons]
        assert not any(one.intersects(other) for one, other in combinations(places, 2))


def test_what_fits_in_no_way_has_no_such_buttons(desk: Desk) -> None:
    card = refuse(desk, replace(REFUSED, ways_out=(), shortage=None))
    assert set(buttons(card)) <= {"Try again", "Details", "Copy details", "Dismiss"}


@pytest.mark.release(keep=2, reason="every failure")
@pytest.mark.parametrize(
    ("event", "helps"),
    [
        (REFUSED, True),
        (replace(REFUSED, shortage=replace(LACKING, budgeted=True)), False),
        (replace(REFUSED, kind=FailureKind.MODEL_UNUSABLE, shortage=None), False),
        (failed(NotPossible("It has no draft.", "Choose another."), None), False),
        (failed(RuntimeError("a bug"), None), True),
    ],
)
def test_another_try_is_offered_where_it_may_help(desk: Desk, event: Failed, helps: bool) -> None:
    assert ("Try again" in buttons(refuse(desk, event))) is helps


def test_a_failure_is_told_until_another_load_works(desk: Desk) -> None:
    refuse(desk)
    assert desk.banners.texts == [REFUSED.cause]
    desk.assembly.models.load(Path("small"))
    desk.bot.waitUntil(lambda: desk.banners.texts == [])


def test_a_start_with_a_model_that_does_not_fit_any_more(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    script = Script(fail_load=REFUSED)
    desk = open_desk(script)
    desk.bot.waitUntil(lambda: bool(cards(desk)))
    script.fail_load = None
    buttons(cards(desk)[0])["Context of 2,048 tokens"].click()
    desk.ready()
    assert loads(desk)[-1].context == 2048


def test_ones_own_budget_is_not_blamed_on_other_programs() -> None:
    own = replace(LACKING, device="cuda:0", name="RTX 3060", budgeted=True)
    told = refusal(replace(REFUSED, shortage=own)).remedy
    assert "Your budget on RTX 3060 is" in told
    assert "Raise your own budget" in told
    assert "ther programs" not in told


def test_words_of_a_card() -> None:
    lacking = replace(LACKING, device="cuda:0", name="RTX 3060", holders=(Holder("game", 3, None),))
    told = refusal(replace(REFUSED, shortage=lacking, details="raw"))
    assert "more is needed on RTX 3060." in told.remedy
    assert "using much memory: game." in told.remedy
    lines = told.details.replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert lines == [
        "Weights: 24.0 GiB", "KV cache: 1.0 GiB", "    " + explained("KV cache"),
        "Total needed: 25.0 GiB", "raw",
    ]  # fmt: skip
    assert button_words(WAYS[0]) == "8-bit weights\nabout 12 tokens/s"
    assert button_words(replace(WAYS[0], tokens_per_s=2.345)).endswith("about 2.3 tokens/s")
