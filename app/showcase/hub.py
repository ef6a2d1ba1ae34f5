"""A hub that says exactly what it is told to: for pictures, and for tests of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.models.hub import Doing, Hub, Listener
from engine.hub.advice import Badge, DraftCandidate, Fit, Recommendation
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.messages import (
    Access,
    Describe,
    DescribedModel,
    FoundRepository,
    Job,
    Refused,
    Repository,
    Results,
    Search,
    Variant,
)
from engine.hub.remote.faults import Fault
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin

_NOBODY = "There is no model “{repo}” on the hub."


@dataclass
class HubScript:
    """State of a scripted hub; a scene changes it at will.

    Attributes:
        refusal: the error that answers every question; None: they are answered.
        silent: questions are not answered at all.
        asked: every question, in order.
        done: work done with models and jobs, in order.
    """

    found: tuple[FoundRepository, ...] = ()
    repositories: dict[str, Repository] = field(default_factory=dict)
    kept: tuple[KeptModel, ...] = ()
    elsewhere: tuple[KeptModel, ...] = ()
    suggestions: tuple[Recommendation, ...] = ()
    fits: Callable[[Repository, Variant], Fit] = lambda _repository, _variant: Fit(Badge.CPU)
    candidates: tuple[DraftCandidate, ...] = ()
    reports: tuple[JobReport, ...] = ()
    refusal: Refused | None = None
    silent: bool = False
    token: str | None = None
    asked: list[Search | Describe] = field(default_factory=list)
    done: list[tuple[object, ...]] = field(default_factory=list)
    bring: Callable[[Job], JobReport] | None = None
    """Makes the report of a job at once; None: the job waits."""


class ScriptedHub:
    """All of a hub but the network and the disk. It answers in the thread that asks."""

    def __init__(self, script: HubScript, listener: Listener) -> None:
        self.script, self._listener = script, listener

    @property
    def hub(self) -> Hub:
        """Return the hub as the page is given it."""
        return Hub(self, self, self, self, _Tokens(self.script))

    # -- questions -------------------------------------------------------------------------

    def ask(self, question: Search | Describe) -> None:
        """Answer from the script."""
        script = self.script
        script.asked.append(question)
        if script.silent:
            return
        if script.refusal is not None:
            self._listener(replace(script.refusal, asked=question))
        elif isinstance(question, Search):
            self._listener(Results(question, script.found))
        elif question.repo in script.repositories:
            self._listener(DescribedModel(question, script.repositories[question.repo]))
        else:
            cause = _NOBODY.format(repo=question.repo)
            self._listener(Refused(question, Fault.NOT_FOUND, cause, "Look at its name."))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    # -- downloads -------------------------------------------------------------------------

    def reports(self) -> Sequence[JobReport]:
        """Return the reports of the script."""
        return self.script.reports

    def tell(self, *reports: JobReport) -> None:
        """Tell other reports."""
        self.script.reports = reports
        self._listener(reports)

    def add(self, jobs: Sequence[Job], access: Access) -> None:
        """Put them into the queue."""
        script = self.script
        script.done.append(("add", *(job.repo for job in jobs), access.token))
        bring = script.bring or (lambda job: JobReport(job, JobState.WAITING))
        self.tell(*script.reports, *(bring(job) for job in jobs))

    def go_on(self, _access: Access) -> None:
        """Note that the downloads under way go on."""
        self.script.done.append(("go on",))

    def pause(self, key: str) -> None:
        """Paused."""
        self._turn(key, JobState.PAUSED)

    def resume(self, key: str, _access: Access) -> None:
        """Set a job under way."""
        self._turn(key, JobState.FETCHING)

    def cancel(self, key: str) -> None:
        """Gone."""
        self.script.done.append(("cancel", key))
        self.tell(*(each for each in self.script.reports if each.job.key != key))

    def _turn(self, key: str, state: JobState) -> None:
        self.script.done.append((state, key))
        self.tell(
            *(
                replace(each, state=state, cause="", remedy="", fault="")
                if each.job.key == key
                else each
                for each in self.script.reports
            )
        )

    # -- the shelf -------------------------------------------------------------------------

    def kept(self) -> Sequence[KeptModel]:
        """Return the models of the script."""
        return self.script.kept

    def keep(self, report: JobReport) -> None:
        """Note that a download shall be listed."""
        self.script.done.append(("keep", report.job.key))

    def elsewhere(self) -> Sequence[KeptModel]:
        """Return the models of other programs in the script."""
        return self.script.elsewhere

    def adopt(self, model: KeptModel | Path, *, copy: bool, doing: Doing) -> KeptModel:
        """Return the model as listed."""
        script = self.script
        doing.tell(0.5)
        origin = ModelOrigin.COPIED if copy else ModelOrigin.IN_PLACE
        if isinstance(model, Path):
            model = KeptModel(model, model.stem, origin, 1_000_000)
        script.done.append(("copy" if copy else "in place", model.path))
        kept = replace(model, origin=origin)
        script.kept = (*script.kept, kept)
        return kept

    def check(self, model: KeptModel, doing: Doing) -> str:
        """Find nothing wrong."""
        doing.tell(0.5)
        self.script.done.append(("check", model.path))
        return f"{model.name} is as it should be."

    def move(self, model: KeptModel, folder: Path, doing: Doing) -> KeptModel:
        """Return the model in another folder."""
        doing.tell(0.5)
        self.script.done.append(("move", model.path, folder))
        return replace(model, path=folder / model.path.name)

    def removable(self, model: KeptModel) -> int:
        """Return all of the model's bytes."""
        return model.weight_bytes

    def delete(self, model: KeptModel) -> None:
        """Take the model off the script's list."""
        self._remove("delete", model)

    def forget(self, model: KeptModel) -> None:
        """Take the model off the script's list."""
        self._remove("forget", model)

    def _remove(self, how: str, model: KeptModel) -> None:
        script = self.script
        script.done.append((how, model.path))
        script.kept = tuple(each for each in script.kept if each.path != model.path)

    # -- advice ------------------------------------------------------------------

    def suggestions(self) -> Sequence[Recommendation]:
        """Return the suggestions of the script."""
        return self.script.suggestions

    def fit(self, repository: Repository, variant: Variant) -> Fit:
        """Return the fit in the script."""
        return self.script.fits(repository, variant)

    def drafts_of_kept(
        self, model: KeptModel, _kept: Sequence[KeptModel]
    ) -> Sequence[DraftCandidate]:
        """Return the candidates of the script, but for the model itself."""
        return [each for each in self.script.candidates if each.path != model.path]

    def drafts_of_remote(
        self, repository: Repository, _variant: Variant, _kept: Sequence[KeptModel]
    ) -> Sequence[DraftCandidate]:
        """Return the candidates of the script, but for the model itself."""
        own = repository.found.repo
        return [each for each in self.script.candidates if each.repo != own]


class _Tokens:
    """A keyring with one place."""

    def __init__(self, script: HubScript) -> None:
        self._script = script

    def read(self) -> str | None:
        """Return the token of the script."""
        return self._script.token

    def keep(self, token: str) -> str:
        """Keep a token in the script."""
        self._script.token = token or None
        return "It is kept in this computer's keyring."
