"""What is asked of the hub's worker processes, and what they answer; sent through a pipe, pickled.

Both ends are ours, and what a server says arrives here as checked plain data only.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.hub.download.job import Job
from engine.hub.remote.listing import Access, FoundRepository, Order, Packaging, Repository


@dataclass(frozen=True, slots=True)
class Search:
    """Look for models; the newest question wins.

    `words`: as typed; "owner/name" or an address of the hub finds just that one. Empty: what many
    use now. `limit`: models at most.
    """

    access: Access
    words: str
    packaging: Packaging | None = None
    order: Order = Order.DOWNLOADS
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell all of one repository; `revision` None: as it is now."""

    access: Access
    repo: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch and check a model; the process ends with it."""

    access: Access
    job: Job


@dataclass(frozen=True, slots=True)
class Results:
    """Repositories found by the search `asked`."""

    asked: Search
    found: tuple[FoundRepository, ...]


@dataclass(frozen=True, slots=True)
class DescribedModel:
    """Description of the repository that `asked` names."""

    asked: Describe
    repository: Repository


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """So many bytes of a job are on the disk; `checking`: they are compared with their hash."""

    key: str
    done: int
    checking: bool = False


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """All of a job is on the disk, and right; `model`: what to open."""

    key: str
    model: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It could not be done: a `UserFixable` in parts.

    Attributes:
        asked: what could not be done.
        kind: one of `engine.hub.remote.faults.Fault`.
        retry_s: seconds after which to try again by itself; None: only the user can help.
    """

    asked: Search | Describe | Fetch
    kind: str
    cause: str
    remedy: str
    details: str = ""
    retry_s: float | None = None


Question = Search | Describe | Fetch
Answer = Results | DescribedModel | FetchProgress | FetchedModel | Refused
