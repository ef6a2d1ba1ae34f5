"""The local log: Python's and Qt's messages, unexpected errors, native crashes. Nothing is sent."""

from __future__ import annotations

import faulthandler
import logging
import sys
import threading
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from types import TracebackType
from typing import TextIO

from PySide6.QtCore import QtMsgType, qInstallMessageHandler

from app.data_folder.paths import Paths
from app.diagnostics.report_text import safe_traceback

_log = logging.getLogger("duotail")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


class QuietFile(RotatingFileHandler):
    """Says nothing about lines that a full disk does not take."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Leave the line out."""


class _Discreet(logging.Formatter):
    """Writes tracebacks without messages that could quote a conversation."""

    def formatException(  # noqa: N802
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        """The place, the kind, and the message where it tells of code."""
        return "" if ei[1] is None else safe_traceback(ei[1])

    def format(self, record: logging.LogRecord) -> str:
        """Format as usual, but without a traceback that another handler has formatted."""
        kept, record.exc_text = record.exc_text, None
        try:
            return super().format(record)
        finally:
            record.exc_text = kept


def start_logging(paths: Paths, on_error: Callable[[BaseException], None]) -> TextIO | None:
    """Write the log files; `on_error` hears of every unexpected error, in the thread it was in.

    Returns the crash log, which must stay open as long as the program runs; None where the folder
    cannot be written (the program runs all the same).
    """
    crash_file: TextIO | None = None
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    try:
        paths.data.mkdir(parents=True, exist_ok=True)
        handler = QuietFile(paths.log, maxBytes=1_000_000, backupCount=1, encoding="utf-8")
        handler.setFormatter(_Discreet(_FORMAT))
        root.addHandler(handler)
        crash_file = paths.crash_log.open("a", encoding="utf-8")
        faulthandler.enable(crash_file)
    except OSError as error:
        root.addHandler(logging.StreamHandler())
        _log.warning("no log file: %s", error)
    _install_hooks(on_error)
    return crash_file


def _install_hooks(on_error: Callable[[BaseException], None]) -> None:
    def unexpected(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        _log.error("unexpected error", exc_info=(kind, error, trace))
        on_error(error)

    def in_thread(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            unexpected(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def from_qt(kind: QtMsgType, _context: object, message: str) -> None:
        logging.getLogger("qt").log(_LEVELS.get(kind, logging.INFO), "%s", message)

    sys.excepthook = unexpected
    threading.excepthook = in_thread
    qInstallMessageHandler(from_qt)
