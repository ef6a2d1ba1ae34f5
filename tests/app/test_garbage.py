"""Garbage goes in the window's thread, whichever thread makes or wants it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from PySide6.QtCore import QObject, Qt, QThreadPool
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.engine_link.background import in_background
from app.garbage import GarbageCollector, collect_here
from engine.machine.garbage import collect_garbage


@pytest.fixture
def collector(qapp: QApplication) -> Iterator[GarbageCollector]:
    collector = GarbageCollector(qapp)
    yield collector
    collector.end()


class Gone:
    """The threads in which widgets that refer to themselves were destroyed."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def make(self, kind: type[QObject] = QWidget) -> None:
        class Kind(kind):  # type: ignore[misc, valid-type]
            pass

        widget = Kind()
        widget.itself = widget
        widget.destroyed.connect(self._note, Qt.ConnectionType.DirectConnection)

    def _note(self) -> None:
        self.threads.append(threading.current_thread())


def elsewhere(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def make_garbage() -> None:
    """So much that Python, left to itself, looks for it at once."""
    for _ in range(5_000):
        itself: list[object] = []
        itself.append(itself)


def raising(error: Exception) -> None:
    raise error


def test_what_another_thread_makes_destroys_no_widget_there(
    collector: GarbageCollector,  # noqa: ARG001 - at work
    qtbot: QtBot,
) -> None:
    gone = Gone()
    for _ in range(20):
        gone.make()
    elsewhere(make_garbage).join()
    assert gone.threads == []
    qtbot.waitUntil(lambda: len(gone.threads) == 20)
    assert set(gone.threads) == {threading.current_thread()}


def test_an_engine_that_needs_memory_has_it_collected_by_the_window(
    collector: GarbageCollector,  # noqa: ARG001 - at work
    qtbot: QtBot,
) -> None:
    gone, seen = Gone(), list[int]()
    gone.make()

    def need() -> None:
        collect_garbage()
        seen.append(len(gone.threads))

    elsewhere(need)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [1]
    assert gone.threads == [threading.current_thread()]


def test_a_window_that_is_busy_keeps_no_engine_waiting(
    collector: GarbageCollector,  # noqa: ARG001 - at work
) -> None:
    elsewhere(collect_garbage).join()  # as a window that closes does


def test_it_ends_as_it_began(qapp: QApplication) -> None:
    was = gc.isenabled()
    collector = GarbageCollector(qapp)
    assert not gc.isenabled()
    gone = Gone()
    gone.make()
    collect_garbage()
    assert len(gone.threads) == 1
    collector.end()
    assert gc.isenabled() == was


def test_an_application_has_one(qapp: QApplication) -> None:
    assert collect_here(qapp) is collect_here(qapp)
    assert len(qapp.findChildren(GarbageCollector)) == 1


def test_who_waits_for_work_is_let_go_of_in_the_windows_thread(qtbot: QtBot) -> None:
    gone = Gone()
    for number in range(300):
        owner = QObject()
        owner.destroyed.connect(gone._note, Qt.ConnectionType.DirectConnection)
        in_background(owner, partial(str, number), owner.setObjectName, raising)
        del owner
        if number % 10 == 0:
            qtbot.wait(1)
    QThreadPool.globalInstance().waitForDone()
    qtbot.waitUntil(lambda: len(gone.threads) == 300)
    assert set(gone.threads) == {threading.current_thread()}


def test_what_a_start_makes_is_not_looked_through(
    collector: GarbageCollector, qtbot: QtBot
) -> None:
    collected: list[int] = []
    gc.callbacks.append(lambda phase, _told: collected.append(len(phase)))
    try:
        collector.begin_start()
        make_garbage()
        before = gc.get_freeze_count()
        collector._look_again()
        assert gc.get_freeze_count() > before
        assert collected == []
        collector.end_start()
        make_garbage()
        qtbot.waitUntil(lambda: bool(collected))
    finally:
        gc.callbacks.pop()
        gc.unfreeze()
