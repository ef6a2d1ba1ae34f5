"""Questions to the hub from a program that must not wait: a process of its own answers them.

The hub's library is imported by that process only. It starts with the first question, ends after
minutes without one, and ends by itself when this program does. When it crashes, another one goes
on where it was.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from engine import language
from engine.hub.messages import Access, Describe, DescribedModel, Refused, Results, Search
from engine.hub.remote.addresses import prepare
from engine.hub.remote.faults import Fault, Trouble, cleaned, trouble_of
from engine.hub.remote.words import refused

Listener = Callable[[Results | DescribedModel | Refused], None]

IDLE_S = 180.0
_FRESH_S = 300.0
"""Seconds for which a description of "as it is now" counts as new."""
_MOST_KEPT = 200
_ENDS_WITHIN_S = 1.0
_MOST_CRASHES = 2
"""A question that the process has crashed with so often is not asked again."""

_log = logging.getLogger(__name__)


class HubQuestions:
    """Asks the hub. The newest search replaces older ones; descriptions are answered beside it.

    Args:
        listener: takes the answers, from a thread of this object.
        idle_s: seconds without a question after which the process ends.
    """

    def __init__(self, listener: Listener, idle_s: float = IDLE_S) -> None:
        self._listener, self._idle_s = listener, idle_s
        self._asked: deque[Search | Describe] = deque()
        self._known = _Known()
        self._closed = False
        self._guard = threading.Lock()
        self._woken, self._wake = get_context("spawn").Pipe(duplex=False)
        self._thread: threading.Thread | None = None
        self._worker: _Worker | None = None

    def ask(self, question: Search | Describe) -> None:
        """Answer this some time; never blocks. After `close` it does nothing."""
        with self._guard:
            if self._closed:
                return
            self._asked.append(question)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hub", daemon=True)
                self._thread.start()
            self._wake.send_bytes(b"?")

    def forget(self) -> None:
        """Ask again for all that was described: somebody has signed in, or accepted terms."""
        self._known.forget()

    def close(self, timeout: float = 3.0) -> None:
        """End the process and the thread; nothing is told any more."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._wake.send_bytes(b".")
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def process_id(self) -> int | None:
        """The number of the process, where one is running."""
        worker = self._worker
        return None if worker is None else worker.process.pid

    def _run(self) -> None:
        try:
            while not self._closed:
                self._listen()
        except BaseException:
            _log.exception("questions to the hub have ended")
            raise
        finally:
            self._end_worker()

    def _listen(self) -> None:
        """Wait for one thing to happen, and deal with it."""
        worker = self._worker
        if worker is None:
            wait([self._woken])
        elif not wait([self._woken, worker.pipe], None if worker.waiting else self._idle_s):
            self._end_worker()
            return
        if self._woken.poll():
            self._woken.recv_bytes()
            if self._asked and not self._closed:
                self._pass_on(self._asked.popleft())
        if worker is not None and worker is self._worker and worker.pipe.poll():
            self._hear(worker)

    def _pass_on(self, question: Search | Describe) -> None:
        known = self._known.answer(question)
        if known is not None:
            self._tell(known)
            return
        other = self._of_another_proxy(question)
        self._put(_Waiting(question))
        for each in other:
            self._put(each)

    def _hear(self, worker: _Worker) -> None:
        try:
            number, told = worker.pipe.recv()
        except (EOFError, OSError):
            self._after_crash(worker)
            return
        if worker.waiting.pop(number, None) is None:
            return  # stale: a newer search has been asked
        if isinstance(told, DescribedModel):
            self._known.keep(told)
        self._tell(told)

    def _tell(self, told: Results | DescribedModel | Refused) -> None:
        if self._closed:
            return
        try:
            self._listener(told)
        except Exception:  # noqa: BLE001 - the next answer may be taken
            _log.exception("an answer of the hub was not taken")

    def _put(self, waiting: _Waiting) -> None:
        """Pass a question to the process, which is started where there is none."""
        try:
            if self._worker is None:
                self._worker = _Worker.start(waiting.question)
            self._worker.ask(waiting)
        except OSError as error:
            self._end_worker()
            details = f"{type(error).__name__}: {error}"
            self._tell(refused(waiting.question, Trouble(Fault.CRASHED, cleaned(details))))

    def _of_another_proxy(self, question: Search | Describe) -> list[_Waiting]:
        """End a process with another proxy; return what a new one has to ask of its questions."""
        old = self._worker
        if old is None or old.proxy == question.access.proxy:
            return []
        self._end_worker()
        newer = isinstance(question, Search)
        return [each for each in old.waiting.values() if not (newer and _is_search(each))]

    def _after_crash(self, worker: _Worker) -> None:
        worker.end()
        _log.warning("the process that asks the hub has ended: %s", worker.process.exitcode)
        self._worker = None
        for waiting in worker.waiting.values():
            again = replace(waiting, crashes=waiting.crashes + 1)
            if again.crashes < _MOST_CRASHES:
                self._put(again)
            else:
                details = f"exit code {worker.process.exitcode}"
                self._tell(refused(again.question, Trouble(Fault.CRASHED, details)))

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A question that is not answered yet, and how often the process has crashed with it."""

    question: Search | Describe
    crashes: int = 0


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Pipe[Asked, Told]
    proxy: str | None
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)

    @classmethod
    def start(cls, question: Search | Describe) -> _Worker:
        """Start the process, with the environment that a question needs."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=serve,
            args=(theirs, question.access, language.in_use()),
            name="duotail-hub",
            daemon=True,
        )
        process.start()
        theirs.close()
        return cls(process, ours, question.access.proxy)

    def ask(self, asked: _Waiting) -> None:
        """Pass a question on; a search takes the place of all older ones."""
        if isinstance(asked.question, Search):
            for number in [n for n, each in self.waiting.items() if _is_search(each)]:
                del self.waiting[number]
        number = next(self.numbers)
        self.waiting[number] = asked
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            self.pipe.send((number, asked.question))  # a crash is noticed where answers are read

    def end(self) -> None:
        """Close the pipe, which ends it; kill it where that is not enough."""
        self.pipe.close()
        self.process.join(_ENDS_WITHIN_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _is_search(waiting: _Waiting) -> bool:
    return isinstance(waiting.question, Search)


class _Known:
    """Descriptions of this session: of a commit for good, of "now" for some minutes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Describe, tuple[DescribedModel, float]] = OrderedDict()
        self._guard = threading.Lock()

    def answer(self, question: Search | Describe) -> DescribedModel | None:
        """Return the description that was asked for, if it is known."""
        if isinstance(question, Search):
            return None
        with self._guard:
            told, since = self._kept.get(question, (None, 0.0))
        if told is None or (question.revision is None and time.monotonic() - since > _FRESH_S):
            return None
        return replace(told, asked=question)

    def keep(self, told: DescribedModel) -> None:
        """Remember it, also under its commit."""
        exactly = replace(told.asked, revision=told.repository.revision)
        with self._guard:
            for asked in {told.asked, exactly}:
                self._kept[asked] = told, time.monotonic()
                self._kept.move_to_end(asked)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Forget all descriptions."""
        with self._guard:
            self._kept.clear()


Asked = tuple[int, Search | Describe]
Told = tuple[int, Results | DescribedModel | Refused]

_AT_ONCE = 6
"""More descriptions than this wait for each other."""


def serve(pipe: Pipe[Told, Asked], access: Access, code: str) -> None:
    """Run the process: answer questions until the pipe closes.

    Args:
        pipe: to the window.
        access: of the first question; its proxy is that of all.
        code: the language of all that is said.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us
    language.use(code)
    prepare(access)
    _Server(pipe).run()


class _Server:
    def __init__(self, pipe: Pipe[Told, Asked]) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._describing = threading.BoundedSemaphore(_AT_ONCE)
        self._newest = -1

    def run(self) -> None:
        """Answer until nobody is there to ask."""
        while True:
            try:
                number, question = self._pipe.recv()
            except (EOFError, OSError):
                return
            if isinstance(question, Search):
                self._newest = number
            threading.Thread(target=self._answer, args=(number, question), daemon=True).start()

    def _answer(self, number: int, question: Search | Describe) -> None:
        from engine.hub.remote.connection import StaleRequest  # reads the environment now

        try:
            told = self._told(number, question)
        except StaleRequest:
            return
        except Exception as error:  # noqa: BLE001 - said in words, whatever it is
            told = refused(question, trouble_of(error))
        with self._sending:
            try:
                self._pipe.send((number, told))
            except OSError:
                return

    def _told(self, number: int, question: Search | Describe) -> Results | DescribedModel | Refused:
        from engine.hub.remote.connection import Connection
        from engine.hub.remote.queries import describe, search

        if isinstance(question, Search):
            connection = Connection(question.access, lambda: number != self._newest)
            return search(connection, question)
        with self._describing:
            return DescribedModel(question, describe(Connection(question.access), question))
