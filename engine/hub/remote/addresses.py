"""How to get to a hub: its address, a proxy's, and which model somebody means by an address."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from engine.hub.messages import Access
from engine.hub.remote.files import danger, is_repo

USUAL_ENDPOINT = "https://huggingface.co"
RELEASES = "https://pypi.org/pypi/duotail/json"
"""The list of Duotail's versions, unless the settings name another one."""
_LONGEST_ADDRESS = 300
_PROXIES = ("http", "https", "socks5", "socks5h")
_VARIABLE = "HF_ENDPOINT"


def endpoint_of(access: Access) -> str:
    """Return the hub's address, without a slash at its end; HF_ENDPOINT names another usual one."""
    told = os.environ.get(_VARIABLE, "").rstrip("/")
    usual = told if is_endpoint(told) else USUAL_ENDPOINT
    return (access.endpoint or usual).rstrip("/")


def is_endpoint(text: str) -> bool:
    """Return whether this can be a hub's address: encrypted, or on this computer; no password.

    Tokens are sent there.
    """
    split = _split(text)
    if split is None or split.query or split.fragment or split.username or split.password:
        return False
    return split.scheme == "https" or (split.scheme == "http" and _is_here(split.hostname or ""))


def is_proxy(text: str) -> bool:
    """Return whether this can be a proxy's address; a password would be kept for all to read."""
    split = _split(text)
    if split is None or split.query or split.fragment or split.path.strip("/"):
        return False
    if split.username is not None or split.password is not None:
        return False
    return split.scheme in _PROXIES


def _split(text: str) -> SplitResult | None:
    if not text or len(text) > _LONGEST_ADDRESS or not text.isascii() or not text.isprintable():
        return None
    if set(text) & set(' "<>\\^`{|}'):
        return None
    try:
        split = urlsplit(text)
        usable = bool(split.hostname) and split.port != 0
    except ValueError:
        return None
    return split if usable else None


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_LONGEST = 2000
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co")
_OTHER_PAGES = {
    "datasets", "spaces", "docs", "blog", "models", "settings", "join", "login", "papers",
    "collections", "organizations", "api", "tasks", "learn", "posts", "pricing", "chat", "new",
}  # fmt: skip
_OF_A_FILE = {"blob", "resolve", "raw"}
_OF_A_STATE = _OF_A_FILE | {"tree", "commit"}
_TAGGED = re.compile(r"([^\s:]+/[^\s:]+):([A-Za-z0-9_.-]{1,40})")


@dataclass(frozen=True, slots=True)
class Address:
    """One repository, and what of it was meant.

    Attributes:
        repo: "owner/name".
        exact: written as an address: nothing else is meant.
        revision: a branch, a tag or a commit.
        file: a path in it.
        variant: as in "owner/name:Q4_K_M".
    """

    repo: str
    exact: bool = False
    revision: str | None = None
    file: str | None = None
    variant: str | None = None


def address_in(words: str, endpoint: str = USUAL_ENDPOINT) -> Address | None:
    """Return the repository that somebody names; None: these are words to search for."""
    words = words.strip().strip("<>\"'")
    if not words or len(words) > _LONGEST or re.search(r"\s", words):
        return None
    scheme, rest = _without_scheme(words)
    try:
        split = urlsplit(f"https://{rest}")
        host, path = split.netloc.rsplit("@", 1)[-1].lower(), unquote(split.path)
    except ValueError:
        return None
    if scheme == "hf":
        return _of_path([part for part in rest.split("/") if part])
    if host in (*_HOSTS, urlsplit(endpoint).netloc.rsplit("@", 1)[-1].lower()):
        return _of_path([part for part in path.split("/") if part])
    return None if scheme else _of_name(words)


def _without_scheme(words: str) -> tuple[str, str]:
    scheme, sign, rest = words.partition("://")
    return (scheme.lower(), rest) if sign else ("", words)


def _of_name(words: str) -> Address | None:
    """Read owner/name, with a variant as other programs write it."""
    tagged = _TAGGED.fullmatch(words)
    name, variant = (tagged[1], tagged[2]) if tagged else (words, None)
    return Address(name, variant=variant) if "/" in name and is_repo(name) else None


def _of_path(parts: list[str]) -> Address | None:
    """Read the path of an address: owner/name[:variant][/tree/REVISION[/FILE...]]."""
    if len(parts) < 2 or parts[0] in _OTHER_PAGES:
        return None
    found = _of_name(f"{parts[0]}/{parts[1]}")
    if found is None:
        return None
    revision, file = None, None
    if len(parts) > 3 and parts[2] in _OF_A_STATE:
        revision = None if parts[3] == "main" else parts[3]
        named = "/".join(parts[4:])
        file = named if parts[2] in _OF_A_FILE and named and danger(named) is None else None
    return Address(found.repo, True, revision, file, found.variant)


_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_FIXED = {
    "HF_HUB_DISABLE_XET": "1",  # plain ranges of plain files: what was fetched can be resumed
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",  # only the token that the user gave us
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_SYMLINKS_WARNING": "1",
    "HF_HUB_VERBOSITY": "error",
}


def prepare(access: Access) -> None:
    """Set up this process for the hub; its proxy goes before those that the system names.

    HF_HUB_OFFLINE stays as it is: whoever sets it wants no program to ask.
    """
    os.environ.update(_FIXED)
    if access.proxy:
        for name in _PROXY_VARIABLES:
            os.environ[name] = os.environ[name.lower()] = access.proxy
        for name in ("NO_PROXY", "no_proxy"):
            os.environ.pop(name, None)
