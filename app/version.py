"""Version of this program."""

from __future__ import annotations

from functools import cache


@cache  # reading it takes 8 ms
def version() -> str:
    """Return the installed version; "development" when run from sources that are not installed."""
    from importlib import metadata  # reads mails and archives: not before it is asked for

    try:
        return metadata.version("duotail")
    except metadata.PackageNotFoundError:
        return "development"
