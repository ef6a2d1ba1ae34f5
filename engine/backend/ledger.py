"""Ledgers of the bytes held on each device, filled by the allocators, with enforced budgets.

Every allocation of weights, keys, features and workspace is taken from a ledger before it is made
and given back when it goes. The planner fills in nothing here: what it predicted is compared with
this.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock

from engine.errors import OutOfMemory
from engine.language import later, tr
from engine.machine.garbage import collect_garbage
from engine.machine.memory import DeviceMemory, Shortage

GIB = 2**30
PAGE = mmap.PAGESIZE


class Purpose(StrEnum):
    """Purposes that memory is held for."""

    WEIGHTS = "weights"
    KV = "kv"
    FEATURES = "features"
    WORKSPACE = "workspace"
    RUNTIME = "runtime"


WORDS: Mapping[Purpose, str] = {
    Purpose.WEIGHTS: later("weights"),
    Purpose.KV: later("KV cache"),
    Purpose.FEATURES: later("features"),
    Purpose.WORKSPACE: later("workspace"),
    Purpose.RUNTIME: later("driver"),
}

_OF_CACHES = (Purpose.KV, Purpose.FEATURES)


@dataclass(frozen=True, slots=True)
class Held:
    """A line of a ledger: bytes that `owner` ("target", "draft", ...) holds for a purpose.

    `touched` is what of it the system has really handed out by now; `mapped` what of that lies in
    files, whose memory the system may take and fill again; `peak` the most bytes that were ever
    held so at once.
    """

    owner: str
    purpose: Purpose
    nbytes: int
    touched: int
    mapped: int = 0
    peak: int = 0


class Reach:
    """Bytes of an array touched so far, where memory is assigned on first touch.

    Args:
        nbytes: of how many rows; must not know the array.
    """

    __slots__ = ("_nbytes", "_rows")

    def __init__(self, nbytes: Callable[[int], int]) -> None:
        self._nbytes = nbytes
        self._rows = 0

    def __call__(self) -> int:
        """Bytes touched."""
        nbytes = self._nbytes(self._rows)
        return nbytes + -nbytes % PAGE

    def extend(self, rows: int) -> None:
        """Note that so many rows are in use."""
        if rows > self._rows:
            self._rows = rows


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """One allocation in a ledger; released once."""

    owner: str
    purpose: Purpose
    nbytes: int
    touched: Callable[[], int] | None
    mapped: bool
    _released: deque[Allocation] = field(repr=False)

    @property
    def by_now(self) -> int:
        """Bytes of it that exist by now."""
        return self.nbytes if self.touched is None else self.touched()

    def release(self) -> None:
        """Give it back; a second time does nothing. Takes no lock, so a finalizer may call it."""
        self._released.append(self)

    def lasts_as_long_as(self, holder: object) -> Allocation:
        """Release it when `holder` is garbage."""
        weakref.finalize(holder, self.release).atexit = False
        return self


class Ledger:
    """The account book of one device; thread-safe.

    Entries are released from anywhere, from inside the garbage collector too, which may run in
    the middle of `take`: they queue up, and are crossed out before anybody asks or takes.

    Args:
        device: its name in plans, such as "cpu".
        name: for people.
        budget: most bytes; None is no limit of ours.
    """

    def __init__(self, device: str, name: str, budget: int | None = None) -> None:
        self.device, self.name, self.budget = device, name, budget
        self._entries: set[Allocation] = set()
        self._released: deque[Allocation] = deque()
        self._held = 0
        self._peak = 0
        self._sums: dict[tuple[str, Purpose], int] = {}
        self._peaks: dict[tuple[str, Purpose], int] = {}
        self._lock = Lock()

    @property
    def held(self) -> int:
        """Bytes held now."""
        with self._lock:
            return self._settled()

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
        *,
        mapped: bool = False,
    ) -> Allocation:
        """Enter an allocation that is about to be made.

        Args:
            owner: "target", "draft", ...
            purpose: what for.
            nbytes: bytes of it.
            touched: how many of them exist by now, where memory comes when it is touched. Must not
                keep alive what the entry lasts as long as.
            mapped: it is a file's memory.

        Raises:
            OutOfMemory: it would go beyond the budget; nothing is entered.
        """
        entry = Allocation(owner, purpose, nbytes, touched, mapped, self._released)
        if not self._enter(entry):
            collect_garbage()  # what fills the budget may be garbage already
            if not self._enter(entry):
                raise self._refusal(owner, purpose, nbytes)
        return entry

    def lines(self) -> tuple[Held, ...]:
        """List what is held, summed by owner and purpose, the largest first."""
        with self._lock:
            self._settled()
            entries, peaks = list(self._entries), dict(self._peaks)
        sums: dict[tuple[str, Purpose], tuple[int, int, int]] = {}
        for entry in entries:
            nbytes, touched, mapped = sums.get((entry.owner, entry.purpose), (0, 0, 0))
            now = entry.by_now
            sums[entry.owner, entry.purpose] = (
                nbytes + entry.nbytes,
                touched + now,
                mapped + (now if entry.mapped else 0),
            )
        lines = [Held(*key, *amounts, peaks[key]) for key, amounts in sums.items()]
        return tuple(sorted(lines, key=lambda line: -line.nbytes))

    def spare(self, room: int) -> int:
        """Bytes of a room that the memory of caches leaves by now; negative: it is over."""
        with self._lock:
            self._settled()
            entries = [each for each in self._entries if each.purpose in _OF_CACHES]
        return room - sum(entry.by_now for entry in entries)

    def _enter(self, entry: Allocation) -> bool:
        with self._lock:
            after = self._settled() + entry.nbytes
            if self.budget is not None and after > self.budget:
                return False
            self._entries.add(entry)
            self._held = after
            self._peak = max(self._peak, after)
            key = entry.owner, entry.purpose
            held = self._sums[key] = self._sums.get(key, 0) + entry.nbytes
            self._peaks[key] = max(self._peaks.get(key, 0), held)
        return True

    def _settled(self) -> int:
        """Bytes held, once what was released is crossed out; for those who have the lock."""
        while self._released:
            entry = self._released.popleft()
            if entry in self._entries:
                self._entries.remove(entry)
                self._held -= entry.nbytes
                self._sums[entry.owner, entry.purpose] -= entry.nbytes
        return self._held

    def shortage(self, free: int, *more: Held) -> Shortage:
        """Describe the shortage where all that is held, and `more`, exceeds `free` bytes."""
        needed = as_planned(self.device, (*self.lines(), *more), self.budget or 0)
        return Shortage(self.device, self.name, needed, free)

    def _refusal(self, owner: str, purpose: Purpose, nbytes: int) -> OutOfMemory:
        said = tr(
            "{device}: {needed:.2f} GiB ({purpose}) do not fit into the budget of "
            "{budget:.2f} GiB, {held:.2f} of which are in use."
        )
        return OutOfMemory(
            said.format(
                device=self.name,
                needed=nbytes / GIB,
                purpose=tr(WORDS[purpose]),
                budget=(self.budget or 0) / GIB,
                held=self.held / GIB,
            ),
            tr("Raise the budget, choose a shorter context or a smaller model."),
            shortage=self.shortage(self.budget or 0, Held(owner, purpose, nbytes, 0)),
        )


def as_planned(device: str, lines: Sequence[Held], budget: int = 0) -> DeviceMemory:
    """A ledger's lines, sorted as plans sort what they predict."""
    sums = dict.fromkeys(("target", "draft", *_PLANNED.values()), 0)
    for line in lines:
        weights = "draft" if line.owner == "draft" else "target"
        sums[weights if line.purpose is Purpose.WEIGHTS else _PLANNED[line.purpose]] += line.nbytes
    return DeviceMemory(device, budget, **sums)


_PLANNED = {
    Purpose.KV: "kv",
    Purpose.FEATURES: "features",
    Purpose.WORKSPACE: "workspace",
    Purpose.RUNTIME: "runtime",
}


@dataclass(frozen=True, slots=True)
class Account:
    """An account of one model's allocations on one device."""

    ledger: Ledger
    owner: str

    def take(
        self,
        purpose: Purpose,
        nbytes: int,
        touched: Callable[[], int] | None = None,
        *,
        mapped: bool = False,
    ) -> Allocation:
        """See `Ledger.take`."""
        return self.ledger.take(self.owner, purpose, nbytes, touched, mapped=mapped)


def unlimited() -> Account:
    """An account for a model that nobody plans: a ledger of its own, without a budget."""
    return Account(Ledger("cpu", "CPU"), "target")
