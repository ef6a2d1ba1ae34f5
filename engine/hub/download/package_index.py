"""Where an index of packages has a file: the pages that pip reads (PEP 503)."""

from __future__ import annotations

import os
import re
from html import unescape
from urllib.parse import urljoin, urlsplit

from engine.hub.remote.connection import Connection
from engine.hub.remote.endpoint import is_endpoint
from engine.hub.remote.faults import Fault
from engine.hub.remote.listing import Access, RemoteFile
from engine.hub.remote.trouble import refuse

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
