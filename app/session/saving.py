"""Writes to the history that may have to wait until there is room for them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.history import Gone, HistoryStore
from app.notices import Notice, report, tell, withdraw
from engine.errors import UserFixable
from engine.language import sentences, tr

_LOOK_EVERY_MS = 1000
"""Time between two tries, and between two looks whether the history is still where it was."""


class Saving(QObject):
    """Owes writes to the history; that it takes none is told once, until it does again.

    Nothing that is owed is forgotten: one write for each message, in the order they came. Only a
    write with a bug in it is given up, and reported.
    """

    saved = Signal(int)
    """The message whose write was owed."""

    def __init__(self, store: HistoryStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._owed: dict[int, Callable[[], None]] = {}
        self._trouble: UserFixable | None = None
        self._notices: list[Notice] = []
        self._timer = QTimer(self, interval=_LOOK_EVERY_MS)
        self._timer.timeout.connect(self.settle)
        if store.kept:
            self._timer.start()

    @property
    def owes(self) -> bool:
        """True if something on the screen is in memory only."""
        return bool(self._owed)

    def write(self, message_id: int, write: Callable[[], None]) -> None:
        """Have this written, in the place of what is owed for the same message."""
        self._owed[message_id] = write
        if self._trouble is None:
            self.settle()

    def require(self) -> None:
        """Write what is owed before anything is added to it.

        Raises:
            UserFixable: the history still takes nothing.
        """
        self.settle()
        if self._trouble is not None:
            raise self._trouble

    def settle(self) -> None:
        """Write what is owed, as far as that goes."""
        try:
            self._store.find_place()
            for message_id, write in list(self._owed.items()):
                try:
                    write()
                except UserFixable:
                    raise
                except Exception:  # noqa: BLE001 - one bad write must not hold up all others
                    sys.excepthook(*sys.exc_info())
                del self._owed[message_id]
                self.saved.emit(message_id)
        except UserFixable as error:
            self._tell(error)
        else:
            self._all_is_well()

    def close(self) -> None:
        """Try a last time."""
        self._timer.stop()
        self.settle()

    def _tell(self, trouble: UserFixable) -> None:
        before, self._trouble = self._trouble, trouble
        if before is not None and before.cause == trouble.cause:
            return
        self._withdraw()
        later = tr("Everything on the screen will be saved as soon as possible.")
        told = sentences(trouble.remedy, later)
        again = (tr("Create the folder again"), self._create_folder)
        gone = isinstance(trouble, Gone) and not self._store.path.parent.exists()
        words = UserFixable(trouble.cause, told, trouble.details)
        self._notices.append(report(words, again if gone else None))

    def ask_to_leave(self, leave: Callable[[], None]) -> None:
        """Tell that what is owed would be lost, and offer to `leave` all the same."""
        words = UserFixable(
            tr("The last answer is not saved."),
            tr("Free some space or connect the drive, or copy the text before you close."),
        )
        self._notices.append(report(words, (tr("Close anyway"), leave)))

    def _all_is_well(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            self._withdraw()
            tell(tr("Everything is saved again."))

    def _withdraw(self) -> None:
        for notice in self._notices:
            withdraw(notice)
        self._notices.clear()

    def _create_folder(self) -> None:
        try:
            self._store.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            report(Gone(self._store.path, str(error)))
        self.settle()
