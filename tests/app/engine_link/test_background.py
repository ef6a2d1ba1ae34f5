"""Work beside the window."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtCore import QCoreApplication, QObject, QThreadPool
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from app.engine_link.background import in_background


def test_the_result_comes_back_in_the_windows_thread(qtbot: QtBot) -> None:
    owner = QObject()
    seen: list[tuple[str, bool, bool]] = []
    here = threading.current_thread()
    in_background(
        owner,
        lambda: threading.current_thread() is here,
        lambda inside: seen.append(("done", inside, threading.current_thread() is here)),
        lambda error: seen.append((repr(error), True, True)),
    )
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [("done", False, True)]


def test_an_error_comes_back_as_itself(qtbot: QtBot) -> None:
    owner = QObject()
    errors: list[Exception] = []
    in_background(owner, lambda: 1 // 0, lambda _: None, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert isinstance(errors[0], ZeroDivisionError)


def test_nobody_is_called_when_the_owner_is_gone(
    qtbot: QtBot,  # noqa: ARG001 - an application
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What the result is sent through is there still: else it could go in the very moment."""
    caplog.set_level("DEBUG", "app.engine_link.background")
    owner = QObject()
    gate = threading.Event()
    called: list[object] = []
    in_background(owner, gate.wait, called.append, called.append)
    delete(owner)
    gate.set()
    QThreadPool.globalInstance().waitForDone()
    QCoreApplication.sendPostedEvents()
    assert called == []
    assert caplog.messages == []


def test_long_work_holds_up_nothing_that_is_waited_for(qtbot: QtBot) -> None:
    owner, gate = QObject(), threading.Event()
    done: list[str] = []
    for _ in range(9):
        in_background(owner, gate.wait, lambda _: done.append("long"), raising, long=True)
    in_background(owner, lambda: None, lambda _: done.append("short"), raising)
    qtbot.waitUntil(lambda: bool(done))
    assert done == ["short"]
    gate.set()
    qtbot.waitUntil(lambda: len(done) == 10)


def raising(error: Exception) -> None:
    raise error
