"""Imports of what is needed soon after the window has come up, beside it."""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject

from app.background import in_background

_log = logging.getLogger(__name__)


def warm_up(owner: QObject) -> None:
    """Import in another thread what the first answer and the first graph would wait for."""
    in_background(owner, _import, lambda _: None, lambda error: _log.warning("%r", error))


def numpy_whole() -> None:
    """Import numpy before anything of it, in every thread that may be the first.

    A thread that begins with a part of it (`numpy.typing`) while another one imports numpy does not
    wait for that, and gets half a module.
    """
    import numpy  # noqa: F401, ICN001


def _import() -> None:
    from app.chat.text.dialect import blocks_only, parser

    parser()
    blocks_only()
    numpy_whole()  # the graphs' numbers
