"""The crossing between the hub and the window: questions out, answers in as signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Qt, Signal

from app.engine_link.background import BackgroundQueue
from app.models.hub import HubMessage, LazyHub
from app.notices import tell
from app.signals import TypedSignal
from engine.errors import Cancelled, UserFixable
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.messages import (
    Access,
    Describe,
    DescribedModel,
    Job,
    Order,
    Packaging,
    Refused,
    Repository,
    Results,
    Search,
)
from engine.hub.remote.faults import NEED_TOKEN
from engine.language import tr

MOST_FOUND = 500
_OVER = (JobState.DONE, JobState.FAILED)


class HubClient(QObject):
    """Asks, and tells what was said; nothing is asked of anybody before a method is called.

    Args:
        hub: the hub to ask.
        access: how to get to the hub, without a token.
    """

    results = TypedSignal[Results]()
    """The results of the newest search."""
    described = TypedSignal[Repository]()
    refused = TypedSignal[Refused]()
    """The newest search, or any description, could not be done."""
    jobs_changed = Signal()
    """Something in `reports` has changed."""
    fetched = TypedSignal[JobReport]()
    """A job is done now that was not before."""
    problem = TypedSignal[UserFixable]()
    """Something could not be done."""
    token_kept = Signal()
    """The user has another token now, or none."""
    _said = TypedSignal[HubMessage]()

    def __init__(
        self,
        hub: LazyHub,
        access: Callable[[], Access] = Access,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._hub, self._access = hub, access
        self._search: Search | None = None
        self._known: dict[str, Repository] = {}
        self._asked: set[str] = set()
        self._looked = False
        self.reports: tuple[JobReport, ...] = ()
        self._in_order = BackgroundQueue(self)
        self._said.connect(self._hear, Qt.ConnectionType.QueuedConnection)
        hub.listener = self._said.emit

    @property
    def searching(self) -> bool:
        """True if the answer to a search is awaited."""
        return self._search is not None

    def known(self, repo: str) -> Repository | None:
        """Return the answer about a repository, if it came."""
        return self._known.get(repo)

    # -- asking ----------------------------------------------------------------------------

    def search(
        self, words: str, packaging: Packaging | None = None, order: Order = Order.DOWNLOADS
    ) -> None:
        """Look for models; an older question is of no interest any more."""
        question = Search(Access(), words.strip(), packaging, order, MOST_FOUND)
        self._search = question
        self._ask(question)

    def describe(self, repo: str) -> None:
        """Ask for the description of a repository, unless it is known."""
        if repo not in self._asked:
            self._asked.add(repo)
            self._ask(Describe(Access(), repo))

    def _ask(self, question: Search | Describe) -> None:
        def ask() -> None:
            self._hub().questions.ask(replace(question, access=self._with_token()))

        def failed(error: Exception) -> None:
            told = in_words(error)
            self._hear(Refused(question, "", told.cause, told.remedy, told.details))

        self._in_order.do(ask, failed=failed)

    def _with_token(self) -> Access:
        """Reads the keyring, which may take a while."""
        return replace(self._access(), token=self._hub().tokens.read())

    # -- fetching --------------------------------------------------------------------------

    def look(self) -> None:
        """Find out what is being fetched."""
        self._in_order.do(self._read_reports, self._take_reports, self._tell)

    def _read_reports(self) -> Sequence[JobReport]:
        return self._hub().queue.reports()

    def fetch(self, *jobs: Job) -> None:
        """Fetch models; a job that already fetches the same is not added again."""
        self._do(lambda: self._add(jobs))

    def _add(self, jobs: Sequence[Job]) -> None:
        """Look at the queue itself: the window may not have heard of the last order yet."""
        queue = self._hub().queue
        coming = [each.job for each in queue.reports() if each.state not in _OVER]
        new = [job for job in jobs if not any(_is_equal(job, other) for other in coming)]
        if new:
            queue.add(new, self._with_token())
        else:
            tell(tr("It is being downloaded already."))

    def go_on(self) -> None:
        """Resume what the end of the last run has stopped."""
        self._do(self._go_on)

    def _go_on(self) -> None:
        """The keyring is left alone where nothing is to be resumed."""
        queue = self._hub().queue
        if any(each.state not in _OVER for each in queue.reports()):
            queue.go_on(self._with_token())

    def pause(self, key: str) -> None:
        """Stop a job for now."""
        self._do(lambda: self._hub().queue.pause(key))

    def resume(self, key: str) -> None:
        """Go on with a job, or try it again."""
        self._do(lambda: self._hub().queue.resume(key, self._with_token()))

    def cancel(self, key: str) -> None:
        """Give a job up, or take it off the list."""
        self._do(lambda: self._hub().queue.cancel(key))

    def keep_token(self, token: str) -> None:
        """Keep the user's token, and go on with the downloads that failed without."""

        def kept(words: str) -> None:
            tell(words)
            self._known.clear()  # a user with another token may get other answers
            self._asked.clear()
            self.token_kept.emit()
            for each in self.reports:
                if token and each.state is JobState.FAILED and each.fault in NEED_TOKEN:
                    self.resume(each.job.key)

        self._in_order.do(lambda: self._hub().tokens.keep(token), kept, self._tell)

    def _do(self, call: Callable[[], None]) -> None:
        """Call beside the window, one after the other; then look at the jobs."""
        self._in_order.do(call, failed=self._tell)
        self.look()

    # -- what is said ----------------------------------------------------------------------

    def _hear(self, message: HubMessage) -> None:
        match message:
            case Results(asked=asked):
                if self._is_newest(asked):
                    self._search = None
                    self.results.emit(message)
            case Refused(asked=Search() as asked):
                if self._is_newest(asked):
                    self._search = None
                    self.refused.emit(message)
            case DescribedModel(repository=repository):
                self._known[repository.found.repo] = repository
                self.described.emit(repository)
            case Refused(asked=Describe(repo=repo)):
                self._asked.discard(repo)
                self.refused.emit(message)
            case tuple():
                self._take_reports(message)

    def _is_newest(self, asked: Search) -> bool:
        newest = self._search
        if newest is None:
            return False
        wanted = (newest.words, newest.packaging, newest.order)
        return (asked.words, asked.packaging, asked.order) == wanted

    def _take_reports(self, reports: Sequence[JobReport]) -> None:
        before = {each.job.key: each.state for each in self.reports}
        looked, self._looked = self._looked, True
        self.reports = tuple(reports)
        self.jobs_changed.emit()
        for each in self.reports:
            done_now = each.state is JobState.DONE and before.get(each.job.key) is not JobState.DONE
            if done_now and looked:
                self.fetched.emit(each)

    def _tell(self, error: Exception) -> None:
        if not isinstance(error, Cancelled):
            self.problem.emit(in_words(error))


def _is_equal(job: Job, other: Job) -> bool:
    """Tell whether two jobs fetch the same; the same job is added again to go on with it."""
    same = (job.repo, job.variant) == (other.repo, other.variant)
    return same and job.key != other.key


def in_words(error: Exception) -> UserFixable:
    """Return an error in words; one that is none of the user's doing goes where all bugs go."""
    if isinstance(error, UserFixable):
        return error
    if isinstance(error, OSError):
        return UserFixable(
            tr("A file or folder could not be used."),
            tr("Check whether the disk is full or write-protected, then try again."),
            str(error),
        )
    raise error
