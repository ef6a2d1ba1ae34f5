"""Newer versions of Duotail: a list is asked where the user wants that; nothing fetched is run.

The list has the form in which the Package Index tells of a project (`info.version`,
`info.description`, `urls`); `packaging/release.py` writes the same for a publisher's own site.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from packaging.version import InvalidVersion, Version

from engine.errors import Cancelled, UserFixable
from engine.hub.remote.addresses import is_endpoint
from engine.language import tr

if TYPE_CHECKING:
    import httpx2

_LARGEST_LIST, _LARGEST_FILE = 8 << 20, 1 << 31
_MOST_REDIRECTS = 4
_CONNECT_S, _READ_S, _LIST_S = 5.0, 15.0, 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,150}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEADING = re.compile(r"^## \[?v?(\d[^\]\s]*).*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release, where it lies and what it must be; `nbytes` are bytes."""

    name: str
    address: str
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Release:
    """A version that is newer than this one.

    Attributes:
        changes: what the changelog says of all versions since, in Markdown; may be empty.
        files: those that can be downloaded and checked.
    """

    version: str
    changes: str
    files: tuple[ReleaseFile, ...]

    def file(self, ending: str) -> ReleaseFile | None:
        """Return the file for one kind of installation, by the end of its name."""
        return next((each for each in self.files if ending and each.name.endswith(ending)), None)


def newer(address: str, here: str) -> Release | None:
    """Ask for the newest release.

    Args:
        address: of the list.
        here: this version.

    Returns:
        None where this version is as new, or newer.

    Raises:
        UserFixable: nobody answers, or the answer is no such list.
    """
    listed = _object(_json(address))
    info, now = _object(listed.get("info")), _version(here)
    newest = _version(info.get("version"))
    if newest is None:
        raise _unreadable("no version")
    if now is None or newest <= now:
        return None
    urls = listed.get("urls")
    files = (_file(each, address) for each in (urls if isinstance(urls, list) else [])[:100])
    described = info.get("description")
    changes = _changes(described if isinstance(described, str) else "", now, newest)
    return Release(str(newest), changes, tuple(filter(None, files)))


def fetch(
    file: ReleaseFile, folder: Path, came: Callable[[int], None], stopped: Callable[[], bool]
) -> Path:
    """Download a file and check it; it gets its name once it is right, and is not run.

    Args:
        file: of a release.
        folder: where it goes; files there stay as they are.
        came: hears how many bytes are here.
        stopped: asked between pieces; True: nothing is left behind.

    Raises:
        UserFixable: it cannot be had, or is another one.
        Cancelled: `stopped` said so.
    """
    part = folder / f".{file.name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _written(file, part, came, stopped) != file.sha256:
            raise UserFixable(
                tr("The file is not the one that was published, and was deleted."),
                tr("Try again later; if it happens again, report it to those who publish Duotail."),
                file.address,
            )
        target = _free_name(folder / file.name)
        os.replace(part, target)
    except OSError as error:
        raise UserFixable(
            tr("The file cannot be written to {folder}.").format(folder=folder),
            tr("Free some disk space, and check that you may write to the folder."),
            str(error),
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return target


def _written(
    file: ReleaseFile, part: Path, came: Callable[[int], None], stopped: Callable[[], bool]
) -> str:
    """Write the file as it comes; its sha256, or "" where it is longer than it was told to be."""
    digest, done = hashlib.sha256(), 0
    with _answer(file.address) as response, part.open("wb") as out:
        for piece in response.iter_bytes():
            if stopped():
                raise Cancelled
            done += len(piece)
            if done > file.nbytes:
                return ""
            digest.update(piece)
            out.write(piece)
            came(done)
    return digest.hexdigest()


def _free_name(target: Path) -> Path:
    number, free = 2, target
    while free.exists():
        free = target.with_name(f"{number}-{target.name}")
        number += 1
    return free


def _json(address: str) -> object:
    end, body = time.monotonic() + _LIST_S, bytearray()
    with _answer(address) as response:
        for piece in response.iter_bytes():
            body += piece
            if len(body) > _LARGEST_LIST:
                raise _unreadable(f"more than {_LARGEST_LIST} bytes")
            if time.monotonic() > end:
                raise _unreadable(f"more than {_LIST_S} s")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _unreadable(str(error)) from error


@contextmanager
def _answer(address: str) -> Iterator[httpx2.Response]:
    """Ask, and follow redirections as far as they are encrypted, too."""
    import httpx2

    headers = {"user-agent": "duotail", "accept-encoding": "identity"}
    timeout = httpx2.Timeout(_READ_S, connect=_CONNECT_S)
    try:
        with httpx2.Client(headers=headers, timeout=timeout, follow_redirects=False) as client:
            for _ in range(_MOST_REDIRECTS + 1):
                if not is_endpoint(address):
                    raise _unreadable(f"refused: {address:.200}")
                with client.stream("GET", address) as response:
                    if response.is_redirect:
                        address = urljoin(address, response.headers.get("location", ""))
                        continue
                    if response.status_code != HTTPStatus.OK:
                        raise _unreadable(f"HTTP {response.status_code}")
                    yield response
                    return
            raise _unreadable("too many redirections")
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        host = urlsplit(address).hostname or address
        raise UserFixable(
            tr("{host} cannot be reached.").format(host=host),
            tr("Check your network connection, then look again."),
            repr(error),
        ) from error


def _unreadable(details: str) -> UserFixable:
    return UserFixable(
        tr("The list of versions cannot be read."),
        tr("Look again later, or check its address in the settings."),
        details,
    )


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _unreadable("no object")
    return value


def _version(text: object) -> Version | None:
    try:
        return Version(text) if isinstance(text, str) else None
    except InvalidVersion:
        return None


def _file(told: object, address: str) -> ReleaseFile | None:
    """Return a listed file; None where it is none that can be fetched and checked."""
    if not isinstance(told, dict):
        return None
    name, url, nbytes = (told.get(key) for key in ("filename", "url", "size"))
    digests = told.get("digests")
    sha256 = digests.get("sha256") if isinstance(digests, dict) else None
    if not (isinstance(name, str) and isinstance(url, str) and isinstance(sha256, str)):
        return None
    usable = _NAME.fullmatch(name) and _SHA256.fullmatch(sha256)
    if not usable or not isinstance(nbytes, int) or not 0 < nbytes <= _LARGEST_FILE:
        return None
    return ReleaseFile(name, urljoin(address, url), nbytes, sha256)


def _changes(changelog: str, now: Version, newest: Version) -> str:
    """Return the sections of a changelog that lie between two versions."""
    headings = list(_HEADING.finditer(changelog))
    ends = [*(each.start() for each in headings[1:]), len(changelog)]
    found = []
    for heading, end in zip(headings, ends, strict=False):
        version = _version(heading[1])
        if version is not None and now < version <= newest:
            found.append(changelog[heading.start() : end].strip())
    return "\n\n".join(found)
