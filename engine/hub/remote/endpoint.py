"""Addresses of hubs and proxies: the usual one, and which others are taken."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import SplitResult, urlsplit

from engine.hub.remote.listing import Access

USUAL_ENDPOINT = "https://huggingface.co"
_LONGEST = 300
_PROXIES = ("http", "https", "socks5", "socks5h")
_VARIABLE = "HF_ENDPOINT"


def endpoint_of(access: Access) -> str:
    """The hub's address, without a slash at its end; HF_ENDPOINT names another usual one."""
    told = os.environ.get(_VARIABLE, "").rstrip("/")
    usual = told if is_endpoint(told) else USUAL_ENDPOINT
    return (access.endpoint or usual).rstrip("/")


def is_endpoint(text: str) -> bool:
    """Whether this can be a hub's address: encrypted, but on this computer; no name, no password.

    Tokens are sent there.
    """
    split = _split(text)
    if split is None or split.query or split.fragment or split.username or split.password:
        return False
    return split.scheme == "https" or (split.scheme == "http" and _is_here(split.hostname or ""))


def is_proxy(text: str) -> bool:
    """Whether this can be a proxy's address; a password in it would be kept for all to read."""
    split = _split(text)
    if split is None or split.query or split.fragment or split.path.strip("/"):
        return False
    if split.username is not None or split.password is not None:
        return False
    return split.scheme in _PROXIES


def _split(text: str) -> SplitResult | None:
    if not text or len(text) > _LONGEST or not text.isascii() or not text.isprintable():
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
