"""Who holds how many bytes of which device, told by the allocators; a budget that refuses.

Every allocation of weights, keys, features and workspace is taken from a ledger before it is made
and given back when it goes. The planner fills in nothing here: what it predicted is compared with
this.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from threading import RLock

from engine.errors import OutOfMemory
from engine.language import later, tr

MIB = 2**20
GIB = 2**30


class Purpose(StrEnum):
    """What memory is held for."""

    WEIGHTS = "weights"
    KV = "kv"
    FEATURES = "features"
    WORKSPACE = "workspace"
    RUNTIME = "runtime"


WORDS: Mapping[Purpose, str] = {
    Purpose.WEIGHTS: later("weights"),
    Purpose.KV: later("keys and values"),
    Purpose.FEATURES: later("features"),
    Purpose.WORKSPACE: later("working memory"),
    Purpose.RUNTIME: later("the device's own software"),
}


@dataclass(frozen=True, slots=True)
class Held:
    """A line of a ledger: bytes that `owner` ("target", "draft", ...) holds for a purpose.

    `touched` is what of it the system has really handed out by now.
    """

    owner: str
    purpose: Purpose
    nbytes: int
    touched: int


class Entry:
    """One allocation in a ledger; released once."""

    __slots__ = ("__weakref__", "_ledger", "nbytes", "owner", "purpose", "touched")

    def __init__(
        self,
        ledger: Ledger,
        owner: str,
        purpose: Purpose,
        nbytes: int,
        touched: Callable[[], int] | None,
    ) -> None:
        self._ledger: Ledger | None = ledger
        self.owner, self.purpose, self.nbytes, self.touched = owner, purpose, nbytes, touched

    def release(self) -> None:
        """Give it back; a second time does nothing."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger._drop(self)  # noqa: SLF001 - an entry is part of its ledger

    def lasts_as_long_as(self, holder: object) -> Entry:
        """Release it when `holder` is garbage."""
        weakref.finalize(holder, self.release)
        return self


class Ledger:
    """The account book of one device; thread-safe.

    Args:
        device: its name in plans, such as "cpu".
        name: for people.
        budget: most bytes; None is no limit of ours.
    """

    def __init__(self, device: str, name: str, budget: int | None = None) -> None:
        self.device, self.name, self.budget = device, name, budget
        self._entries: set[Entry] = set()
        self._held = 0
        self._peak = 0
        self._lock = RLock()  # the garbage collector may release an entry inside of `take`

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    @property
    def peak(self) -> int:
        """Most bytes ever held at once."""
        return self._peak

    def take(
        self,
        owner: str,
        purpose: Purpose,
        nbytes: int,
        touched: Callable[[], int] | None = None,
    ) -> Entry:
        """Enter an allocation that is about to be made.

        Args:
            owner: "target", "draft", ...
            purpose: what for.
            nbytes: bytes of it.
            touched: how many of them exist by now, where memory comes when it is touched.

        Raises:
            OutOfMemory: it would go beyond the budget; nothing is entered.
        """
        entry = Entry(self, owner, purpose, nbytes, touched)
        with self._lock:
            if self.budget is not None and self._held + nbytes > self.budget:
                raise self._refusal(purpose, nbytes)
            self._held += nbytes
            self._peak = max(self._peak, self._held)
            self._entries.add(entry)
        return entry

    def lines(self) -> tuple[Held, ...]:
        """What is held, summed by owner and purpose, the largest first."""
        with self._lock:
            entries = self._entries.copy()
        sums: dict[tuple[str, Purpose], tuple[int, int]] = {}
        for entry in entries:
            nbytes, touched = sums.get((entry.owner, entry.purpose), (0, 0))
            now = entry.nbytes if entry.touched is None else entry.touched()
            sums[entry.owner, entry.purpose] = nbytes + entry.nbytes, touched + now
        lines = [Held(*key, *amounts) for key, amounts in sums.items()]
        return tuple(sorted(lines, key=lambda line: -line.nbytes))

    def _drop(self, entry: Entry) -> None:
        with self._lock:
            if entry in self._entries:
                self._entries.remove(entry)
                self._held -= entry.nbytes

    def _refusal(self, purpose: Purpose, nbytes: int) -> OutOfMemory:
        said = tr(
            "{device}: {needed:.2f} GiB for {purpose} do not fit into the budget of {budget:.2f} "
            "GiB, {held:.2f} of which are taken."
        )
        return OutOfMemory(
            said.format(
                device=self.name,
                needed=nbytes / GIB,
                purpose=tr(WORDS[purpose]),
                budget=(self.budget or 0) / GIB,
                held=self._held / GIB,
            ),
            tr("Raise the budget, choose a shorter context or a smaller model."),
        )


@dataclass(frozen=True, slots=True)
class Account:
    """Where one model's allocations on one device are entered."""

    ledger: Ledger
    owner: str

    def take(
        self, purpose: Purpose, nbytes: int, touched: Callable[[], int] | None = None
    ) -> Entry:
        """See `Ledger.take`."""
        return self.ledger.take(self.owner, purpose, nbytes, touched)


def unlimited(owner: str = "target") -> Account:
    """An account for a model that nobody plans: a ledger of its own, without a budget."""
    return Account(Ledger("cpu", "CPU"), owner)
