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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess

from engine import language
from engine.hub.messages import Access, Describe, DescribedModel, Refused, Results, Search
from engine.hub.remote.addresses import prepare
from engine.hub.remote.fault_texts import refused
from engine.hub.remote.faults import Fault, Trouble, cleaned, trouble_of

Listener = Callable[[Results | DescribedModel | Refused], None]
Asked = tuple[int, Search | Describe]
Told = tuple[int, Results | DescribedModel | Refused]

IDLE_S = 180.0
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
        self._closed = False
        self._gate = threading.RLock()
        self._worker: _Worker | None = None

    def ask(self, question: Search | Describe) -> None:
        """Answer this some time; at most it waits for a process to start. Nothing after `close`."""
        with self._gate:
            if not self._closed:
                self._put(_Waiting(question))

    def close(self, timeout: float = 3.0) -> None:
        """End the process and its thread; nothing is told any more."""
        with self._gate:
            self._closed = True
            worker, self._worker = self._worker, None
        if worker is not None and worker.thread is not None:
            worker.process.kill()
            worker.thread.join(timeout)

    @property
    def process_id(self) -> int | None:
        """The number of the process, where one is running."""
        worker = self._worker
        return None if worker is None else worker.process.pid

    def _put(self, asked: _Waiting) -> None:
        """Pass a question to the process; another one is started where its proxy is another."""
        old = self._worker
        if old is not None and isinstance(asked.question, Search):
            old.forget_searches()
        if old is not None and old.proxy == asked.question.access.proxy:
            old.ask(asked)
            return
        try:
            worker = self._worker = _Worker.start(asked.question.access, self._listen)
        except OSError as error:
            details = f"{type(error).__name__}: {error}"
            self._tell(refused(asked.question, Trouble(Fault.CRASHED, cleaned(details))))
            return
        worker.ask(asked)
        if old is not None:
            for each in old.waiting.values():
                worker.ask(each)
            old.process.kill()

    def _listen(self, worker: _Worker) -> None:
        """Hear one process to its end."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                if worker.pipe.poll(self._idle_s):
                    self._hear(worker, *worker.pipe.recv())
                elif self._is_idle(worker):
                    break
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        with self._gate:
            if worker is self._worker:
                self._worker = None
                self._after_crash(worker)

    def _hear(self, worker: _Worker, number: int, told: Results | DescribedModel | Refused) -> None:
        with self._gate:
            asked = worker.waiting.pop(number, None)
        if asked is not None:  # else a newer search has been asked
            self._tell(told)

    def _is_idle(self, worker: _Worker) -> bool:
        """Return whether nobody waits for a process; then nobody asks it any more."""
        with self._gate:
            if worker is self._worker and not worker.waiting:
                self._worker = None
            return worker is not self._worker

    def _after_crash(self, worker: _Worker) -> None:
        details = f"exit code {worker.process.exitcode}"
        _log.warning("the process that asks the hub has ended: %s", details)
        for waiting in worker.waiting.values():
            again = replace(waiting, crashes=waiting.crashes + 1)
            if again.crashes < _MOST_CRASHES:
                self._put(again)
            else:
                self._tell(refused(again.question, Trouble(Fault.CRASHED, details)))

    def _tell(self, told: Results | DescribedModel | Refused) -> None:
        if self._closed:
            return
        try:
            self._listener(told)
        except Exception:  # noqa: BLE001 - the next answer may be taken
            _log.exception("an answer of the hub was not taken")


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
    thread: threading.Thread | None = None
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)

    @classmethod
    def start(cls, access: Access, listen: Callable[[_Worker], None]) -> _Worker:
        """Start the process with the environment that a question needs, and a thread to hear it."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=serve, args=(theirs, access, language.in_use()), name="duotail-hub", daemon=True
        )
        process.start()
        theirs.close()
        worker = cls(process, ours, access.proxy)
        worker.thread = threading.Thread(target=listen, args=(worker,), name="hub", daemon=True)
        worker.thread.start()
        return worker

    def ask(self, asked: _Waiting) -> None:
        """Pass a question on."""
        number = next(self.numbers)
        self.waiting[number] = asked
        with contextlib.suppress(OSError):
            self.pipe.send((number, asked.question))  # a crash is noticed where answers are read

    def forget_searches(self) -> None:
        """Wait for no search any more."""
        for number, each in list(self.waiting.items()):
            if isinstance(each.question, Search):
                del self.waiting[number]


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
        from engine.hub.remote.connection import Connection, StaleRequest
        from engine.hub.remote.queries import describe, search  # read the environment now

        told: Results | DescribedModel | Refused
        try:
            if isinstance(question, Search):
                told = search(Connection(question.access, lambda: number != self._newest), question)
            else:
                with self._describing:
                    told = DescribedModel(question, describe(Connection(question.access), question))
        except StaleRequest:
            return
        except Exception as error:  # noqa: BLE001 - said in words, whatever it is
            told = refused(question, trouble_of(error))
        with self._sending, contextlib.suppress(OSError):  # nobody is there to hear it
            self._pipe.send((number, told))
