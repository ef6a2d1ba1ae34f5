"""Working memory that grows to the most that anyone needs."""

from __future__ import annotations

from engine.backend.ledger import Account, Purpose


class Workspace:
    """Entered in the ledger, where it stays as long as this object; torch's allocator hands it out.

    One of a device's is shared by all segments, which run one after the other.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._reserved = 0

    def reserve(self, nbytes: int) -> None:
        """Have room for so much at once.

        Raises:
            OutOfMemory: beyond the budget.
        """
        more = nbytes - self._reserved
        if more > 0:
            self._account.take(Purpose.WORKSPACE, more).lasts_as_long_as(self)
            self._reserved = nbytes
