"""The line at the window's bottom: what it says, when it is drawn, where it leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from desk import Desk
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QHelpEvent
from PySide6.QtWidgets import QApplication, QMenu, QToolTip
from pytestqt.qtbot import QtBot

from app.shell.memory_detail import MemoryDialog
from app.shell.memory_strip import MemoryStrip
from app.shell.memory_tables import NOTHING, of_loads, typical_errors
from app.shell.page_names import PageName
from app.theme.theme import Theme, ThemeChoice
from app.widgets.memory_parts import MemoryPart
from engine.devices.kept_estimates import DeviceEstimate, LoadEstimate, ModelEstimates
from engine.events import (
    AcceleratorSample,
    DeviceHeld,
    DeviceSample,
    HeldLine,
    MachineFound,
    MemoryHeld,
)
from engine.machine.facts import CPU, Accelerator, Host, Machine
from engine.machine.memory import DeviceMemory

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

GIB = 2**30
CARD = AcceleratorSample("cuda:0", "RTX 4060", 10.0, 5 * GIB, 4 * GIB, 8 * GIB)
SAMPLE = DeviceSample(1.0, 5.0, 9.0, 2 * GIB, 24 * GIB, (CARD,), 16 * GIB)
LINES = (
    HeldLine("target", "weights", 2 * GIB, 2 * GIB),
    HeldLine("draft", "weights", GIB, GIB),
    HeldLine("target", "kv", GIB // 2, GIB // 4),
)
PREDICTED = DeviceMemory("cuda:0", 7 * GIB, target=2 * GIB, draft=GIB, kv=GIB // 2)
HELD = MemoryHeld(1.0, (DeviceHeld("cuda:0", 7 * GIB, LINES, PREDICTED),), 0.008)


@pytest.fixture
def line(theme: Theme, qtbot: QtBot) -> MemoryStrip:
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    strip = MemoryStrip()
    qtbot.addWidget(strip)
    strip.resize(1280, strip.height())
    strip.show()
    qtbot.waitExposed(strip)
    return strip


def test_loads_before_are_named_in_the_language_of_today() -> None:
    none = DeviceMemory(CPU, 0)
    kept = [
        DeviceEstimate(device, "", name, none, none)
        for device, name in ((CPU, "Speicher"), ("simulated:0", "Simulierter Beschleuniger"))
    ]
    loads = (LoadEstimate(0.0, "plain", 2048, tuple(kept)),)
    table = of_loads([ModelEstimates("", "Model", "", "", loads)])
    place = table.columns.index("Memory")
    assert [row[place] for row in table.rows] == ["Memory of this computer", "Simulated GPU"]


def test_pairs_with_one_target_are_told_apart() -> None:
    there = DeviceMemory(CPU, 0, target=GIB)
    estimate = DeviceEstimate(CPU, "", "", there, there)
    loads = (LoadEstimate(0.0, "plain", 2048, (estimate,), answers=1),)
    kept = [ModelEstimates(draft, "Large", draft, "", loads) for draft in ("Small", "Least", "")]
    assert [each.partition(":")[0] for each in typical_errors(kept)] == [
        "Large with Small",
        "Large with Least",
        "Large",
    ]


def drawings(line: MemoryStrip, change: Callable[[], object]) -> int:
    """How often it is drawn for what changes."""
    line.grab()  # whatever was due
    before = line.drawn
    change()
    line.grab()
    return line.drawn - before


def words(text: str) -> str:
    """With ordinary spaces."""
    return " ".join(text.split())


def test_nothing_is_drawn_where_nothing_changed(line: MemoryStrip) -> None:
    line.take_held(HELD)
    line.take_sample(SAMPLE)
    later = replace(SAMPLE, at=1.5, cpu_percent=99.0, memory_bytes=2 * GIB + 4096)
    assert drawings(line, lambda: line.take_sample(later)) == 0
    assert drawings(line, lambda: line.take_held(replace(HELD, at=2.0))) == 0
    more = replace(SAMPLE, memory_available_bytes=13 * GIB)
    assert drawings(line, lambda: line.take_sample(more)) == 1
    assert drawings(line, lambda: line.take_held(MemoryHeld(3.0, ()))) == 1
    assert drawings(line, lambda: line.resize(900, line.height())) == 1
    finer = QEvent(QEvent.Type.DevicePixelRatioChange)
    assert drawings(line, lambda: QApplication.sendEvent(line, finer)) == 1


def test_the_words_tell_everything(line: MemoryStrip) -> None:
    assert line.accessibleName() == "Memory in use"
    assert line.accessibleDescription() == "No memory data yet."
    line.take_sample(SAMPLE)
    line.take_held(HELD)
    said = words(line.accessibleDescription())
    assert "RTX 4060, GPU memory 5.0 of 8 GiB: Target 2.0 GiB, Draft 1.0 GiB" in said
    assert "Memory of this computer, Memory 8.0 of 24 GiB: Duotail itself 2.0 GiB" in said
    assert "Other programs 6.0 GiB" in said
    tip = words(line.tip())
    assert "Predicted" in tip
    assert "off by less than 0.8" in tip
    simulated = replace(CARD, simulated=True, name="Simulated GPU")
    line.take_sample(replace(SAMPLE, accelerators=(simulated,)))
    assert "<b>Simulated GPU (in this computer&#x27;s memory)</b>" in line.tip()


def test_the_words_follow_every_change_of_the_picture(line: MemoryStrip) -> None:
    line.take_sample(SAMPLE)
    line.take_held(HELD)
    simulated = replace(CARD, simulated=True, name="Simulated GPU")
    for sample in (
        replace(SAMPLE, accelerators=(simulated,)),
        replace(SAMPLE, accelerators=()),
        replace(SAMPLE, memory_available_bytes=12 * GIB),
    ):
        line.take_sample(sample)
        assert words(f"{len(line.shown)}") == f"{1 + len(sample.accelerators)}"
        for each in line.shown:
            assert (each.name or "Memory of this computer") in line.accessibleDescription()
            for segment in each.stack.segments:
                size = f"{segment.nbytes / GIB:.1f} GiB"
                assert size in words(line.accessibleDescription())


def test_it_stays_low_and_shortens_its_words(line: MemoryStrip) -> None:
    line.take_sample(SAMPLE)
    assert 22 <= line.height() <= 24
    long = [field.amount for field in line.fields]
    assert long == ["GPU memory 5.0 of 8 GiB", "Memory 8.0 of 24 GiB"]
    assert all(field.free for field in line.fields)
    line.resize(700, line.height())
    assert not any(field.free for field in line.fields)
    line.resize(420, line.height())
    assert [field.amount for field in line.fields] == ["GPU 5.0/8 GiB", "PC 8.0/24 GiB"]
    assert all(field.bar_right - field.bar_left > 40 for field in line.fields)


def test_it_is_there_on_every_page_and_leads_to_tuning(desk: Desk, qtbot: QtBot) -> None:
    window = desk.assembly.window
    line, pages = window.memory, window.pages
    for name in PageName:
        pages.open(name)
        assert line.isVisible()
    pages.show_chat()
    assert line.isVisible()
    assert line.width() == window.width()
    assert line.mapTo(window, QPoint(0, line.height())).y() == window.height()
    assert line.focusPolicy() & Qt.FocusPolicy.TabFocus
    asks: list[Callable[[], None]] = [
        lambda: qtbot.keyClick(line, Qt.Key.Key_Return),
        lambda: qtbot.keyClick(line, Qt.Key.Key_Space),
        lambda: qtbot.mouseClick(line, Qt.MouseButton.LeftButton),
    ]
    for ask in asks:
        ask()
        assert pages.shown is PageName.TUNING
        pages.show_chat()


def test_on_the_tuning_page_it_leads_to_the_details(desk: Desk, qtbot: QtBot) -> None:
    window = desk.assembly.window
    window.pages.open(PageName.TUNING)
    qtbot.keyClick(window.memory, Qt.Key.Key_Return)
    (dialog,) = window.findChildren(MemoryDialog)
    assert window.pages.shown is PageName.TUNING
    dialog.close()


def test_a_card_that_nobody_watches_is_shown_as_it_was_found(line: MemoryStrip) -> None:
    card = Accelerator(
        "simulated:0", "Simulated GPU", memory_total=4 * GIB, memory_free=3 * GIB,
        simulated=True,
    )  # fmt: skip
    line.take_sample(replace(SAMPLE, accelerators=()))
    line.take_machine(MachineFound(1.0, Machine(Host(8, 24 * GIB, 16 * GIB), (card,))))
    assert line.fields[0].amount == "Simulated GPU memory 1.0 of 4 GiB"
    line.take_sample(SAMPLE)
    assert line.fields[0].amount == "GPU memory 5.0 of 8 GiB"


def test_events_of_the_engine_reach_it(desk: Desk, qtbot: QtBot) -> None:
    window, bridge = desk.assembly.window, desk.assembly.bridge
    bridge._events.extend([SAMPLE, HELD])
    qtbot.waitUntil(lambda: window.memory.held == HELD)
    assert "Draft 1.0 GiB" in words(window.memory.accessibleDescription())


def test_details_open_by_key_and_follow(desk: Desk, qtbot: QtBot) -> None:
    window = desk.assembly.window
    window.memory.take_sample(SAMPLE)
    action = next(each for each in window.commands.all if each.text() == "Memory in detail")
    assert action.shortcut().toString() == "Ctrl+Alt+M"
    action.trigger()
    (dialog,) = window.findChildren(MemoryDialog)
    assert dialog.isVisible()
    assert not dialog.now.isVisible()
    window.memory.take_held(HELD)
    assert dialog.now.isVisible()
    assert "off by less than 0.8" in dialog.error.text()
    rows = [" | ".join(map(words, row)) for row in dialog.now.table.rows]
    assert rows[0] == "RTX 4060 | Target | 2.00 GiB | 2.00 GiB | 0.0 %"
    assert rows[-1] == "RTX 4060 | Total | 3.50 GiB | 3.50 GiB | 0.0 %"
    assert dialog.now.accessibleName() == "The model in memory"
    model, role = dialog.now.model(), Qt.ItemDataRole.TextAlignmentRole
    sides = [model.headerData(each, Qt.Orientation.Horizontal, role) for each in (0, 2)]
    assert [bool(Qt.AlignmentFlag(side) & Qt.AlignmentFlag.AlignLeft) for side in sides] == [
        True,
        False,
    ], "names stand above names, numbers above numbers"
    runtime = HeldLine("", "runtime", GIB, GIB)
    kept = replace(LINES[2], nbytes=GIB)
    more = replace(HELD.devices[0], lines=(*LINES[:2], kept, runtime))
    window.memory.take_held(replace(HELD, devices=(more,), typical_error=None))
    assert dialog.error.text() == "Accuracy is known after the first response."
    rows = [" | ".join(map(words, row)) for row in dialog.now.table.rows]
    assert rows[2].endswith("2 conversations")
    assert rows[-1].endswith(NOTHING)
    dialog.copy()
    copied = QGuiApplication.clipboard().text()
    assert "The model in memory" in copied
    assert "2 conversations" in copied
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.findChildren(MemoryDialog))


def test_the_tooltip_tells_all_of_it(line: MemoryStrip, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _place, words, _widget: told.append(words))
    line.take_sample(SAMPLE)
    at = line.rect().center()
    QApplication.sendEvent(line, QHelpEvent(QEvent.Type.ToolTip, at, line.mapToGlobal(at)))
    assert told == [line.tip()]
    assert "RTX 4060" in told[0]


def test_the_menu_names_both_ways(line: MemoryStrip) -> None:
    asked = []
    line.details_asked.connect(lambda: asked.append("details"))
    line.clicked.connect(lambda: asked.append("tuning"))
    by_key = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint())
    line.contextMenuEvent(by_key)
    (menu,) = line.findChildren(QMenu)
    assert [action.text() for action in menu.actions()] == ["Memory in detail", "Tuning"]
    for action in menu.actions():
        action.trigger()
    assert asked == ["details", "tuning"]
    menu.close()


def test_a_simulated_card_lies_in_the_memory_of_the_pc(line: MemoryStrip) -> None:
    card = replace(CARD, device="simulated:0", simulated=True)
    line.take_sample(replace(SAMPLE, accelerators=(card,), memory_bytes=4 * GIB))
    line.take_held(MemoryHeld(1.0, (DeviceHeld("simulated:0", None, LINES),)))
    host = next(each for each in line.shown if each.device == CPU)
    assert host.stack.of(MemoryPart.TARGET) == 2 * GIB
    assert host.stack.of(MemoryPart.RUNTIME) == 4 * GIB - 2 * GIB - GIB - GIB // 4
    assert sum(each.nbytes for each in host.stack.segments) == host.stack.total
