"""What a worker process sets before it imports the hub's library, which reads it only once.

All of it stays in that process: no other one is started from it.
"""

from __future__ import annotations

import os

from engine.hub.remote.listing import Access

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_AROUND = "NO_PROXY"
_FIXED = {
    "HF_HUB_DISABLE_XET": "1",  # plain ranges of plain files: what was fetched can be resumed
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",  # only the token that the user gave us
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_SYMLINKS_WARNING": "1",
    "HF_HUB_VERBOSITY": "error",
}
_system: dict[str, str | None] = {}
"""What the system said of proxies when the process began."""


def prepare(access: Access) -> None:
    """Set up this process for the hub.

    HF_HUB_OFFLINE stays as it is: whoever sets it wants no program to ask.
    """
    os.environ.update(_FIXED)
    use_proxy(access.proxy)


def use_proxy(proxy: str | None) -> None:
    """All of the hub through this one; None: what the system says."""
    names = [spelt for name in (*_PROXIES, _AROUND) for spelt in (name, name.lower())]
    if not _system:
        _system.update({name: os.environ.get(name) for name in names})
    for name in names:
        own = None if name.upper() == _AROUND else proxy
        value = own if proxy else _system[name]
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
