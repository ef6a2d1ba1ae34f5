"""The log has no say in whether Duotail runs."""

from __future__ import annotations

import errno
import faulthandler
import io
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import qInstallMessageHandler, qWarning

from app.data_folder.paths import Paths
from app.diagnostics.logs import QuietFile, start_logging


class Full(io.StringIO):
    """A file on a drive without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", text)


def test_a_full_drive_is_no_reason_to_complain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = QuietFile(tmp_path / "duotail.log", delay=True)
    handler.stream = Full()  # type: ignore[assignment]
    handler.handle(logging.makeLogRecord({"msg": "no room for this"}))
    handler.close()
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def _hooks() -> Iterator[None]:
    """What the log takes over is given back."""
    before = sys.excepthook, threading.excepthook
    root, handlers, level = logging.getLogger(), list(logging.getLogger().handlers), logging.INFO
    level = root.level
    yield
    sys.excepthook, threading.excepthook = before
    qInstallMessageHandler(None)
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    faulthandler.disable()


@pytest.mark.usefixtures("_hooks")
@pytest.mark.no_qt_log
def test_mistakes_of_every_thread_and_words_of_qt_are_written_down(tmp_path: Path) -> None:
    told: list[BaseException] = []
    paths = Paths(tmp_path / "data", tmp_path / "config")
    crash_log = start_logging(paths, told.append)
    assert crash_log is not None
    here, there = ValueError("in the window"), KeyError("in a thread")
    sys.excepthook(ValueError, here, None)
    threading.excepthook(threading.ExceptHookArgs((KeyError, there, None, None)))
    assert told == [here, there]
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert told == [here, there]
    qWarning("a plugin is missing")
    written = paths.log.read_text(encoding="utf-8")
    for words in ("ValueError", "KeyError", "a plugin is missing"):
        assert words in written
    assert "in the window" not in written, "it may quote a conversation"
    crash_log.close()


@pytest.mark.usefixtures("_hooks")
@pytest.mark.no_qt_log
def test_without_a_folder_for_the_log_it_goes_on_without(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    assert start_logging(Paths(tmp_path / "data", tmp_path / "config"), lambda _: None) is None
