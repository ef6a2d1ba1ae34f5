"""Version of this program."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache  # reading it takes 8 ms
def version() -> str:
    """Return the installed version; "development" when run from sources that are not installed."""
    try:
        return metadata.version("duotail")
    except metadata.PackageNotFoundError:
        return "development"
