"""Imports of what is needed soon after the window has come up, beside it."""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject

from app.engine_link.background import in_background, numpy_whole

_log = logging.getLogger(__name__)


def warm_up(owner: QObject) -> None:
    """Import in another thread what the first answer and the first graph would wait for."""
    in_background(owner, _import, lambda _: None, lambda error: _log.warning("%r", error))


def _import() -> None:
    from app.chat.text.dialect import blocks_only, parser

    parser()
    blocks_only()
    numpy_whole()  # the graphs' numbers
