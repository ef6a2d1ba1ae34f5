"""The hub that the Models page works with: a protocol for each kind of thing, made when needed.

All but `Questions.ask` may take their time and are called beside the window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.hub.advice import DraftCandidate, Fit, Recommendation
from engine.hub.download.jobs import JobReport
from engine.hub.messages import (
    Access,
    Describe,
    DescribedModel,
    Job,
    Refused,
    Repository,
    Results,
    Search,
    Variant,
)
from engine.hub.shelf.kept_model import KeptModel

HubMessage = Results | DescribedModel | Refused | tuple[JobReport, ...]
"""An answer, or how far all downloads are."""
Listener = Callable[[HubMessage], None]
"""Called in any thread."""


@dataclass(frozen=True, slots=True)
class HubContext:
    """Asked anew whenever something is to be known; from any thread.

    Attributes:
        data: the folder of the user's data.
        simulate_gpu: bytes of a simulated accelerator in the place of real ones.
        device: name of the only accelerator to use; None: whichever is of use.
        in_use: loaded models, targets and drafts.
        recent: models that were used before.
        cache: the hub's, where the settings name another one.
        other_login: whether the token of another program may be read.
    """

    data: Path
    simulate_gpu: int | None = None
    device: str | None = None
    in_use: Callable[[], tuple[Path, ...]] = tuple
    recent: Callable[[], tuple[Path, ...]] = tuple
    cache: Callable[[], Path | None] = lambda: None
    other_login: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Doing:
    """Progress and cancellation of long work; it raises `Cancelled` once `stopped` says so.

    Attributes:
        tell: takes how far it is, from 0 to 1.
        stopped: whether the user wants no more of it.
    """

    tell: Callable[[float], None]
    stopped: Callable[[], bool]


class Questions(Protocol):
    """Asks the hub; the answers go to the listener."""

    def ask(self, question: Search | Describe) -> None:
        """Returns at once."""

    def close(self) -> None:
        """Take no more questions."""


class Queue(Protocol):
    """Fetches models; how far they are goes to the listener."""

    def reports(self) -> Sequence[JobReport]:
        """All jobs, in their order."""

    def go_on(self, access: Access, /) -> None:
        """Resume what the end of the program has stopped, and not the user."""

    def add(self, jobs: Sequence[Job], access: Access) -> None:
        """Fetch these too.

        Raises:
            UserFixable: there is no room for them.
        """

    def pause(self, key: str) -> None:
        """Stop one for now."""

    def resume(self, key: str, access: Access, /) -> None:
        """Go on with one, or try again what has failed."""

    def cancel(self, key: str) -> None:
        """Give one up, or take one that is over off the list."""

    def close(self) -> None:
        """The program ends; what is not done goes on at another time."""


class LocalModels(Protocol):
    """The models on this computer."""

    def kept(self) -> Sequence[KeptModel]:
        """Return the models that can be chosen."""

    def keep(self, report: JobReport) -> None:
        """Remember what a download has brought."""

    def elsewhere(self) -> Sequence[KeptModel]:
        """Return the models that other programs have."""

    def adopt(self, model: KeptModel | Path, *, copy: bool, doing: Doing) -> KeptModel:
        """Have one listed, where it lies or as a copy in our own folder."""

    def check(self, model: KeptModel, doing: Doing) -> str:
        """Read all of it again; what is to say of it, in a sentence.

        Raises:
            UserFixable: it is damaged.
        """

    def move(self, model: KeptModel, folder: Path, doing: Doing) -> KeptModel:
        """Put its files somewhere else."""

    def removable(self, model: KeptModel) -> int:
        """Bytes that deleting it sets free.

        Raises:
            UserFixable: it is not ours to delete.
        """

    def delete(self, model: KeptModel) -> None:
        """Delete the model's files for good."""

    def forget(self, model: KeptModel) -> None:
        """Take off the list; the files stay."""


class Advice(Protocol):
    """Fit of models to this PC, their speed, and their drafts."""

    def suggestions(self) -> Sequence[Recommendation]:
        """The best first; asks nobody."""

    def fit(self, repository: Repository, variant: Variant) -> Fit:
        """Return the fit of a model that is not here."""

    def drafts_of_kept(
        self, model: KeptModel, kept: Sequence[KeptModel], /
    ) -> Sequence[DraftCandidate]:
        """Every candidate for a model that is here."""

    def drafts_of_remote(
        self, repository: Repository, variant: Variant, kept: Sequence[KeptModel], /
    ) -> Sequence[DraftCandidate]:
        """Every candidate for one that is not; those on the hub from what is known of families."""


class AccessTokens(Protocol):
    """The user's token, in the keyring of the system."""

    def read(self) -> str | None:
        """None: there is none."""

    def keep(self, token: str) -> str:
        """Keep another one, or none where it is empty; what to say of it, in a sentence."""


@dataclass(frozen=True, slots=True)
class Hub:
    """All of it."""

    questions: Questions
    queue: Queue
    shelf: LocalModels
    advice: Advice
    tokens: AccessTokens


HubMaker = Callable[[Listener], Hub]


class LazyHub:
    """Makes the hub once; what it says goes to all listeners, in the thread it is said in."""

    def __init__(self, make: HubMaker) -> None:
        self._make = make
        self._gate = threading.Lock()
        self._made: Hub | None = None
        self._closed = False
        self.listener: Listener = lambda _message: None
        """Told everything that the hub says."""

    def __call__(self) -> Hub:
        """The hub. May take a while, and is for threads beside the window."""
        with self._gate:
            if self._made is None:
                self._made = self._make(self._hear)
            return self._made

    def close(self) -> None:
        """Close it, if it was ever made."""
        self._closed = True
        with self._gate:
            if self._made is not None:
                self._made.questions.close()
                self._made.queue.close()

    def _hear(self, message: HubMessage) -> None:
        if not self._closed:
            self.listener(message)
