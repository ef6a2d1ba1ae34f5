"""Keeps the rounds of finished answers: packed beside the window, stored when that is done."""

from __future__ import annotations

import logging
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.engine_link.background import in_background
from app.history import HistoryStore
from app.history.rounds import RoundRecording, pack
from engine.errors import UserFixable

_log = logging.getLogger(__name__)


class RoundsKeeper(QObject):
    """Takes each recording once. Words come first: trouble with rounds is only logged."""

    kept = Signal(int)
    """The id of the message whose rounds the history has now."""

    def __init__(self, store: HistoryStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._waiting: dict[int, tuple[int, RoundRecording]] = {}
        self._count = 0

    def keep(self, message_id: int, recording: RoundRecording) -> None:
        """Have an answer's rounds stored soon, unless there are none, or far too many."""
        if not recording.keepable:
            return
        self._count += 1
        number = self._count
        self._waiting[number] = (message_id, recording)
        in_background(
            self,
            partial(pack, recording),
            partial(self._packed, number),
            partial(self._odd, number),
        )

    def close(self) -> None:
        """Store what is not stored yet, before the history closes."""
        for number, (_, recording) in list(self._waiting.items()):
            self._packed(number, pack(recording))

    def _packed(self, number: int, packed: bytes) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return  # `close` was quicker
        try:
            self._store.answers.keep_rounds(waiting[0], packed)
        except UserFixable as error:
            _log.warning("the rounds of an answer are not kept: %s", error)
        else:
            self.kept.emit(waiting[0])

    def _odd(self, number: int, error: Exception) -> None:
        self._waiting.pop(number, None)
        _log.error("the rounds of an answer cannot be packed", exc_info=error)
