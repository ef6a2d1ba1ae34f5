"""Access to the model hub, by the settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

from engine.hub.messages import Access
from engine.hub.remote.addresses import is_endpoint, is_proxy

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")


class HubSettings(Protocol):
    """The settings that matter; "" is what is usual."""

    @property
    def hub_endpoint(self) -> str:
        """Return an address."""

    @property
    def hub_proxy(self) -> str:
        """Return an address."""

    @property
    def hub_cache(self) -> str:
        """Return a folder."""


def access_of(settings: HubSettings, token: str | None = None) -> Access:
    """Return the access that the worker processes are told."""
    cache = settings.hub_cache
    return Access(
        endpoint=settings.hub_endpoint.rstrip("/") or None,
        token=token,
        proxy=settings.hub_proxy or None,
        cache=str(Path(cache).expanduser()) if cache else None,
    )


def usable_endpoint(text: str) -> bool:
    """Return whether a text is the address of a hub, or nothing."""
    return not text or is_endpoint(text)


def usable_proxy(text: str) -> bool:
    """Return whether a text is the address of a proxy, or nothing."""
    return not text or is_proxy(text)


def usable_hosts(text: str) -> bool:
    """Return whether a text is a list of host names, without ports, or nothing."""
    return all(_HOST.fullmatch(name) for name in text.split())


def usable_origins(text: str) -> bool:
    """Return whether a text is a list of web pages' origins, or nothing."""
    from engine.server.origins import is_origin  # not for the first picture

    return all(map(is_origin, text.split()))


def usable_path(text: str) -> bool:
    """Return whether a text is a whole path, or nothing; writing to it is tried when it is used."""
    if not text:
        return True
    try:
        return text.isprintable() and Path(text).expanduser().is_absolute()
    except (ValueError, RuntimeError):
        return False
