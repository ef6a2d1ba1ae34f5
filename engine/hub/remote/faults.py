"""What can go wrong with the hub, told apart; `fault_texts` says it in plain words.

The hub's library is not imported here, and its errors are known by their names: version 1 raises
those of httpx, version 2 those of httpx2, and both wrap them in their own.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from time import time


class Fault(StrEnum):
    """Kinds of failures; each one has its own message."""

    OFFLINE = "offline"
    """No network, no such server, or a proxy that is not there."""
    TIMEOUT = "timeout"
    DROPPED = "dropped"
    """The connection broke in the middle."""
    SIGN_IN = "sign_in"
    """401: a token is needed, or is not valid."""
    GATED = "gated"
    """403 of a model whose terms have to be accepted."""
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    BUSY = "busy"
    """429: asked too often."""
    SERVER = "server"
    """5xx."""
    WRONG_BYTES = "wrong_bytes"
    """A file is not what its hash says."""
    CHANGED = "changed"
    """The repository is another one now than when it was listed."""
    DISK_FULL = "disk_full"
    DISK = "disk"
    """A folder cannot be written."""
    UNSAFE = "unsafe"
    """Names that lead out of the folder, or files that could run code."""
    UNREADABLE = "unreadable"
    """The answer is none that the hub gives."""
    CRASHED = "crashed"
    """A mistake of ours: nobody foresaw it, or the process that asks has ended."""


NEED_TOKEN = (Fault.SIGN_IN, Fault.GATED)
"""The user has to say who they are; a token may help."""
_LASTING = (Fault.SIGN_IN, Fault.FORBIDDEN, Fault.NOT_FOUND, Fault.CHANGED, Fault.UNSAFE)
"""Asking again brings the same answer. `GATED` is not here: terms can be accepted meanwhile."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ABSENT_NETWORK = (
    errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ENETDOWN, errno.EHOSTDOWN,
)  # fmt: skip
_NAMES = {
    "OfflineModeIsEnabled": Fault.OFFLINE,
    "GatedRepoError": Fault.GATED,
    "DisabledRepoError": Fault.FORBIDDEN,
    "LocalTokenNotFoundError": Fault.SIGN_IN,
    "RevisionNotFoundError": Fault.NOT_FOUND,
    "EntryNotFoundError": Fault.NOT_FOUND,
    "RemoteEntryNotFoundError": Fault.NOT_FOUND,
    "ConnectError": Fault.OFFLINE,
    "ConnectTimeout": Fault.OFFLINE,
    "ProxyError": Fault.OFFLINE,
    "UnsupportedProtocol": Fault.OFFLINE,
    "InvalidURL": Fault.OFFLINE,
    "gaierror": Fault.OFFLINE,
    "TimeoutException": Fault.TIMEOUT,
    "TimeoutError": Fault.TIMEOUT,
    "NetworkError": Fault.DROPPED,
    "RemoteProtocolError": Fault.DROPPED,
    "IncompleteRead": Fault.DROPPED,
    "ConnectionError": Fault.DROPPED,
    "DecodingError": Fault.UNREADABLE,
    "TooManyRedirects": Fault.UNREADABLE,
    "JSONDecodeError": Fault.UNREADABLE,
    "FileMetadataError": Fault.UNREADABLE,
    "HFValidationError": Fault.NOT_FOUND,
}
"""Classes by name, nearest first in an error's own order of classes."""
_STATUSES = {
    401: Fault.SIGN_IN,
    404: Fault.NOT_FOUND,
    407: Fault.OFFLINE,
    408: Fault.TIMEOUT,
    410: Fault.NOT_FOUND,
}
"""Faults by the status of an answer alone."""
BY_CHOICE = "OfflineModeIsEnabled"
"""The library's name for a user who wants no program to ask, in the details of `OFFLINE`."""
_LONGEST_WAIT_S = 3600.0
_USUAL_WAIT_S = 60.0
_LONGEST_DETAILS = 600
_SECRETS = (
    (re.compile(r"\bhf_[A-Za-z0-9]{4,}"), "hf_…"),
    (re.compile(r"(?i)\b(bearer|authorization:?)\s+[^\s'\"]+"), r"\1 …"),
    (re.compile(r"://[^/\s@]+@"), "://…@"),
    (re.compile(r"\?[^\s'\"]*(?:Signature|X-Amz|token)[^\s'\"]*", re.IGNORECASE), "?…"),
)
"""Nothing of these goes into a message, a log or a report."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failure; plain data, sent between processes.

    Attributes:
        details: for people who know; no secrets.
        retry_s: after how many seconds the server wants to be asked again.
        path: the file or folder of this disk that it is about.
    """

    fault: Fault
    details: str = ""
    retry_s: float | None = None
    path: str = ""


class HubError(Exception):
    """A failure that was found by ourselves, or that is told apart already."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.details or trouble.fault.value)
        self.trouble = trouble


def refuse(fault: Fault, details: str = "") -> HubError:
    """Return an error to raise."""
    return HubError(Trouble(fault, cleaned(details)))


def trouble_of(error: BaseException) -> Trouble:
    """Return what an error means; `CRASHED` for one that nobody knows."""
    for each in _causes(error):
        found = _known(each)
        if found is not None:
            return found
    return Trouble(Fault.CRASHED, cleaned(f"{type(error).__name__}: {error}"))


def may_work_later(fault: str, details: str = "") -> bool:
    """Return whether it makes sense to try the same again: time, or room on the disk, may help."""
    return fault not in _LASTING and BY_CHOICE not in details


def of_status(status: int, headers: Mapping[str, str], now: float | None = None) -> Trouble:
    """Return what a server's refusal means, by its number and the hub's own headers."""
    lower = {name.lower(): value for name, value in headers.items()}
    code, message = lower.get("x-error-code", ""), lower.get("x-error-message", "")
    said = cleaned(f"HTTP {status} {code} {message}")
    if code == "GatedRepo":
        return Trouble(Fault.GATED, said)
    if status == 429:
        return Trouble(Fault.BUSY, said, _wait(lower, time() if now is None else now))
    if status >= 500:
        wait = _wait(lower, time() if now is None else now) if "retry-after" in lower else None
        return Trouble(Fault.SERVER, said, wait)
    if status == 403:
        # Without a code of its own: what the hub says of terms that were not accepted.
        gated = "gated" in message.lower() or "authorized list" in message.lower()
        return Trouble(Fault.GATED if gated else Fault.FORBIDDEN, said)
    return Trouble(_STATUSES.get(status, Fault.UNREADABLE), said)


def cleaned(details: str) -> str:
    """Return details short, on one line, and without anything secret."""
    for pattern, instead in _SECRETS:
        details = pattern.sub(instead, details)
    return " ".join(part for part in details.split() if part)[:_LONGEST_DETAILS]


def _known(error: BaseException) -> Trouble | None:
    if isinstance(error, HubError):
        return error.trouble
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int) and status >= 400:
        return of_status(status, getattr(response, "headers", {}))
    said = cleaned(f"{type(error).__name__}: {error}")
    if isinstance(error, OSError) and error.errno in _FULL:
        return Trouble(Fault.DISK_FULL, said, path=_path(error))
    if isinstance(error, OSError) and error.errno in _ABSENT_NETWORK:
        return Trouble(Fault.OFFLINE, said)
    for each in type(error).__mro__:
        if each.__name__ in _NAMES:
            return Trouble(_NAMES[each.__name__], said)
    if isinstance(error, OSError) and error.errno is not None:
        return Trouble(Fault.DISK, said, path=_path(error))
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what led to it, outermost first."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _path(error: OSError) -> str:
    return str(error.filename or "")[:1000]


def _wait(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds to wait: as the server says, in seconds or as a date, or as is usual."""
    said = headers.get("retry-after", "").strip()
    limit = re.search(r";\s*t\s*=\s*(\d{1,9})", headers.get("ratelimit", ""))
    if said.isascii() and said.isdigit() and len(said) < 10:
        wait = float(said)
    elif said:
        from email.utils import parsedate_to_datetime  # rare, and it brings much

        try:
            wait = parsedate_to_datetime(said).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            wait = _USUAL_WAIT_S
    else:
        wait = float(limit.group(1)) if limit else _USUAL_WAIT_S
    return min(max(wait, 1.0), _LONGEST_WAIT_S)
