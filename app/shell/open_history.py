"""Opens the history; where it cannot be used, shows what can be read of it, and the ways out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtCore import QObject

from app.history import HistoryInUse, HistoryStore, NoPlace, set_aside
from app.notices import Action, report, reporting, tell
from app.signals import TypedSignal
from engine.errors import UserFixable
from engine.language import sentences, tr, tr_count

_log = logging.getLogger(__name__)


class OpenHistory(QObject):
    """The history of this run: the user's own, a copy of what can be read of it, or a new one."""

    _found_damaged = TypedSignal[UserFixable]()
    """Result of the thread that checks a large file."""

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._restart: Callable[[], None] | None = None
        self.trouble: UserFixable | None = None
        self._found_damaged.connect(self._tell)
        self.store = self._open()

    def tell(self, restart: Callable[[], None]) -> None:
        """Say now, and whenever damage is found later, what is wrong and what can be done."""
        self._restart = restart
        if self.trouble is not None:
            self._tell(self.trouble)

    def close(self) -> None:
        """Close the history; one that is not kept leaves nothing on the disk."""
        self.store.close()

    def _open(self) -> HistoryStore:
        try:
            return HistoryStore.open(self._path, self._found_damaged.emit)
        except UserFixable as error:
            _log.warning("history not usable: %s (%s)", error, error.details)
            self.trouble = error
        if self._path.exists() and not isinstance(self.trouble, HistoryInUse):
            try:
                return HistoryStore.open_read_only(self._path)
            except UserFixable as error:
                _log.warning("nothing of the history can be read: %s", error)
        return HistoryStore.open_in_memory()

    def _tell(self, trouble: UserFixable) -> None:
        if self._restart is None:
            self.trouble = trouble
            return
        told = sentences(trouble.remedy, *self._meanwhile())
        report(UserFixable(trouble.cause, told, trouble.details), *self._ways_out())

    def _meanwhile(self) -> Iterator[str]:
        """Yield sentences on what this run can do."""
        if self.store.read_only:
            yield tr("Until then, your conversations are read-only.")
            if lost := self.store.lost:
                yield tr_count("{n} message is missing.", "{n} messages are missing.", lost)
        elif not self.store.kept:
            yield tr("Until then, conversations are not saved.")

    def _ways_out(self) -> list[Action]:
        if isinstance(self.trouble, NoPlace) and self._restart is not None:
            return [(tr("Try again"), self._restart)]
        if not self._path.exists() or isinstance(self.trouble, HistoryInUse):
            return []
        ways: list[Action] = []
        if self.store.read_only:
            ways.append((tr("Continue with what can be read"), self._keep))
        if not self.store.kept:
            ways.append((tr("Start with an empty history"), self._set_aside))
        return ways

    def _keep(self) -> None:
        self._renew(lambda: self.store.keep(self._path))

    def _set_aside(self) -> None:
        self._renew(lambda: set_aside(self._path))

    def _renew(self, change: Callable[[], Path]) -> None:
        """Put another history in the place of this one, and start anew with it."""
        assert self._restart is not None  # noqa: S101 - the buttons are there since `tell`
        with reporting():
            kept = change()
            words = tr("The old history is kept as {name}.").format(name=kept.name)
            tell(words, (tr("Start again"), self._restart))
