"""What is needed soon after the window has come up, imported beside it."""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject

from app.background import in_background

_log = logging.getLogger(__name__)


def warm_up(owner: QObject) -> None:
    """Import in another thread what the first answer and the first graph would wait for."""
    in_background(owner, _import, lambda _: None, lambda error: _log.warning("%r", error))


def _import() -> None:
    from app.chat.text.dialect import blocks_only, parser

    parser()
    blocks_only()
    import numpy  # noqa: F401, ICN001 - the graphs' numbers
