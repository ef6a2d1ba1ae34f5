"""What a worker process sets before it imports the hub's library, which reads it only once.

All of it stays in that process: no other one is started from it.
"""

from __future__ import annotations

import os

from engine.hub.remote.listing import Access

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
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
        for name in _PROXIES:
            os.environ[name] = os.environ[name.lower()] = access.proxy
        for name in ("NO_PROXY", "no_proxy"):
            os.environ.pop(name, None)
