"""Orders of models, turned into jobs: asks the hub for what is not known yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from PySide6.QtCore import QObject, Signal

from app.models.hub_client import HubClient
from app.models.variant_choice import draft_variant, target_variant
from app.notices import report, tell
from engine.errors import UserFixable
from engine.hub.messages import Describe, Job, Refused, Repository, Variant
from engine.language import tr


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to fetch, with the draft that goes with it.

    Attributes:
        variant: its name; "" leaves it to us, as with the draft's.
        draft_repo: to fetch too.
        draft_nbytes: about so large is the draft that is meant.
        draft_path: a draft that is on this computer already.
    """

    repo: str
    variant: str = ""
    draft_repo: str | None = None
    draft_variant: str = ""
    draft_nbytes: int | None = None
    draft_path: Path | None = None


class DownloadOrders(QObject):
    """Orders wait here until the hub has said what they consist of."""

    changed = Signal()
    """The list of orders has changed; True if an order waits."""

    def __init__(self, hub: HubClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hub = hub
        self._waiting: list[Wanted] = []
        self.drafts_here: dict[str, Path] = {}
        """The drafts on this computer for jobs, by their keys."""
        hub.described.connect(lambda _repository: self._go_on())
        hub.refused.connect(self._refused)

    def waits_for(self, repo: str) -> bool:
        """Return whether the hub is being asked for the files of this repository."""
        return any(order.repo == repo for order in self._waiting)

    def order(self, order: Wanted) -> None:
        """Fetch it."""
        if self.waits_for(order.repo):
            return
        self._waiting.append(order)
        self.changed.emit()
        for repo in (order.repo, order.draft_repo):
            if repo and self._hub.known(repo) is None:
                self._hub.describe(repo)
        self._go_on()

    def _go_on(self) -> None:
        for order in list(self._waiting):
            target = self._hub.known(order.repo)
            draft = self._hub.known(order.draft_repo) if order.draft_repo else None
            if target is None or (order.draft_repo and draft is None):
                continue
            self._waiting.remove(order)
            self._fetch(order, target, draft)
            self.changed.emit()

    def _fetch(self, order: Wanted, target: Repository, draft: Repository | None) -> None:
        variant = target_variant(target, {}, order.variant)
        if variant is None:
            report(
                UserFixable(
                    tr("{repo} has no files that Duotail can use.").format(repo=order.repo),
                    tr("Choose another model."),
                    "\n".join(target.unusable),
                )
            )
            return
        job = _job(target, variant)
        jobs = [job]
        if draft is not None:
            wish, nbytes = order.draft_variant, order.draft_nbytes
            smaller = draft_variant(draft, variant.packaging, wish, nbytes)
            if smaller is not None:
                jobs.append(replace(_job(draft, smaller), draft_of=job.key))
            else:
                nothing = tr("{repo} has no files that can draft: the model comes without.")
                tell(nothing.format(repo=draft.found.repo))
        elif order.draft_path is not None:
            self.drafts_here[job.key] = order.draft_path
        self._hub.fetch(*jobs)

    def _refused(self, refused: Refused) -> None:
        """End an order whose model cannot be had; where it is only the draft, go on without it."""
        asked = refused.asked
        if not isinstance(asked, Describe):
            return
        problem = UserFixable(refused.cause, refused.remedy, refused.details)
        for order in list(self._waiting):
            if asked.repo == order.repo:
                self._waiting.remove(order)
                report(problem)
            elif asked.repo == order.draft_repo:
                self._waiting.remove(order)
                report(problem)
                self.order(replace(order, draft_repo=None))
        self.changed.emit()


def _job(repository: Repository, variant: Variant) -> Job:
    found = repository.found
    return Job(
        key=uuid4().hex,
        repo=found.repo,
        revision=repository.revision,
        variant=variant.name,
        packaging=variant.packaging,
        files=variant.files,
        licence=found.licence,
    )
