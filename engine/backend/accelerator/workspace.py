"""The working memory of a device, which its segments share: they run one after the other."""

from __future__ import annotations

from engine.backend.ledger import Account, Entry, Purpose


class Workspace:
    """Entered in the ledger as the most that anyone needs; torch's allocator hands it out."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._entries: list[Entry] = []
        self._reserved = 0

    def reserve(self, nbytes: int) -> None:
        """Have room for a forward that holds so much at once.

        Raises:
            OutOfMemory: beyond the budget.
        """
        more = nbytes - self._reserved
        if more > 0:
            self._entries.append(self._account.take(Purpose.WORKSPACE, more))
            self._reserved = nbytes

    def release(self) -> None:
        """Give all of it back."""
        while self._entries:
            self._entries.pop().release()
        self._reserved = 0
