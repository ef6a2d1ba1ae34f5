"""The process that asks the hub: takes numbered questions through a pipe, sends the answers back.

Each question has a thread. A newer search makes an older one stale, which then sends nothing.
"""

from __future__ import annotations

import signal
import threading
from multiprocessing.connection import Connection as Pipe

from engine import language
from engine.hub.messages import Describe, DescribedModel, Refused, Results, Search
from engine.hub.remote.environment import prepare
from engine.hub.remote.listing import Access
from engine.hub.remote.trouble import trouble_of
from engine.hub.remote.words import refused

Asked = tuple[int, Search | Describe]
Told = tuple[int, Results | DescribedModel | Refused]

_AT_ONCE = 6
"""More descriptions than this wait for each other."""


def serve(pipe: Pipe[Told, Asked], access: Access, code: str) -> None:
    """The process: it ends when the pipe closes.

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
        """Until nobody is there to ask."""
        while True:
            try:
                number, question = self._pipe.recv()
            except (EOFError, OSError):
                return
            if isinstance(question, Search):
                self._newest = number
            threading.Thread(target=self._answer, args=(number, question), daemon=True).start()

    def _answer(self, number: int, question: Search | Describe) -> None:
        from engine.hub.remote.connection import (
            StaleRequest,
        )  # the library reads the environment now

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
        from engine.hub.remote.describe import describe
        from engine.hub.remote.search import search

        if isinstance(question, Search):
            connection = Connection(question.access, lambda: number != self._newest)
            return search(connection, question)
        with self._describing:
            return DescribedModel(question, describe(Connection(question.access), question))
