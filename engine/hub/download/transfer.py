"""One file from a server to the disk, by ranges: what is here already is never fetched again.

The library's own download starts from the beginning whenever its process has ended, so that only
its parts are used: the connection and its errors. Imported by the process that fetches, after its
environment is set.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from huggingface_hub import get_session, hf_raise_for_status

from engine.hub.download.cache import CachePlace, free_bytes, too_large
from engine.hub.download.job import DownloadRules
from engine.hub.remote.faults import BY_CHOICE, Fault, HubError, refuse, trouble_of
from engine.hub.remote.listing import RemoteFile

Address = Callable[[RemoteFile], tuple[str, dict[str, str]]]

PASSING = (Fault.OFFLINE, Fault.TIMEOUT, Fault.DROPPED, Fault.BUSY, Fault.SERVER)
"""Faults that may pass in a while."""
_LONGEST_WAIT_S = 60.0
"""So long is waited here; where a server asks for more, others go first."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class FileTransfer:
    """Fetches the files of a job.

    Args:
        find: the address of a file just now, and the headers to ask there with.
        place: where the files go.
        rules: how patient to be.
        came: told whenever bytes have come.
    """

    def __init__(
        self, find: Address, place: CachePlace, rules: DownloadRules, came: Callable[[], None]
    ) -> None:
        self._find, self._place, self._rules, self._came = find, place, rules, came
        self._since_look = rules.look_every

    def fetch(self, file: RemoteFile) -> Path:
        """Fetch the missing bytes of a file, not verified yet; return where they are.

        Raises:
            HubError: it cannot be had now.
            UserFixable: the disk cannot take it.
        """
        partial = self._place.partial(file)
        partial.parent.mkdir(parents=True, exist_ok=True)
        tries = 0
        while True:
            have = _size(partial)
            if have == file.nbytes and partial.exists():
                return partial
            try:
                self._go_on(file, partial, have if have < file.nbytes else 0)
            except Exception as error:
                if isinstance(error, OSError) and error.errno == errno.EFBIG:
                    raise too_large(self._place.cache, file.nbytes) from error
                tries = 1 if _size(partial) > have else tries + 1
                time.sleep(self._pause(error, tries))

    def _pause(self, error: Exception, tries: int) -> float:
        """Return how long to wait before another try; raise what is not worth one."""
        trouble = trouble_of(error)
        wait = trouble.retry_s or 0.0
        hopeless = trouble.fault not in PASSING or BY_CHOICE in trouble.details
        if hopeless or tries > len(self._rules.pauses_s) or wait > _LONGEST_WAIT_S:
            raise HubError(trouble) from error
        return max(wait, self._rules.pauses_s[tries - 1])

    def _go_on(self, file: RemoteFile, partial: Path, have: int) -> None:
        """Append the bytes from `have` on, as many as come."""
        address, headers = self._find(file)
        if have:
            headers["Range"] = f"bytes={have}-"
        session: Any = get_session()  # of httpx or of httpx2, as the library's version has it
        wait = self._rules.timeout_s
        with session.stream("GET", address, headers=headers, timeout=wait) as response:
            hf_raise_for_status(response)
            begin = _begin(response, file) if have else 0
            if begin not in (0, have):
                raise refuse(Fault.UNREADABLE, f"bytes from {begin} instead of {have}")
            with partial.open("r+b" if begin else "wb", buffering=0) as stream:
                if begin:
                    stream.seek(begin)
                    stream.truncate()
                self._take(response, file, stream)

    def _take(self, response: Any, file: RemoteFile, stream: BinaryIO) -> None:  # noqa: ANN401
        for piece in response.iter_bytes():
            self._look(len(piece))
            if stream.tell() + len(piece) > file.nbytes:
                stream.truncate(0)
                raise refuse(Fault.WRONG_BYTES, f"{file.path}: more than {file.nbytes} bytes")
            _write(stream, piece)
            self._came()
        if stream.tell() < file.nbytes:
            raise refuse(Fault.DROPPED, f"{file.path}: {stream.tell()} of {file.nbytes} bytes")

    def _look(self, nbytes: int) -> None:
        """Check now and then that the disk has room left for others."""
        self._since_look += nbytes
        if self._since_look >= self._rules.look_every:
            self._since_look = 0
            if free_bytes(self._place.cache) < self._rules.reserve:
                raise refuse(Fault.DISK_FULL)


def _write(stream: BinaryIO, piece: bytes) -> None:
    """Write all of a piece: a nearly full disk takes a part of it without an error."""
    rest = memoryview(piece)
    while rest:
        rest = rest[stream.write(rest) :]


def _begin(response: Any, file: RemoteFile) -> int:  # noqa: ANN401
    """Return the first byte that comes; 0 where the server gives all."""
    if response.status_code != 206:
        return 0
    told = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if told is None:
        raise refuse(Fault.UNREADABLE, "a part of a file, without saying which")
    if told[2] not in ("*", str(file.nbytes)):
        raise refuse(Fault.CHANGED, f"{file.path}: {told[2]} bytes in all")
    return int(told[1])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
