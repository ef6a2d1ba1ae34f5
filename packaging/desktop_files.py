"""What makes a program one of the desktop's: entry, icon, file types, store page, manual page."""

from __future__ import annotations

import gzip
import os
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ID = "org.pypi.duotail"
_COLOUR = "#0d7480"
_PLACES = {
    "duotail.desktop": "applications",
    "duotail-mime.xml": "mime/packages",
    f"{ID}.metainfo.xml": "metainfo",
    "duotail.1": "man/man1",
}


def version() -> str:
    """The version in pyproject.toml, which is the only place that says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def built_at() -> int:
    """Seconds since 1970: now, or SOURCE_DATE_EPOCH, with which builds give the same bytes."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))


def write(share: Path) -> None:
    """Write the files into a `share` folder."""
    date = time.strftime("%Y-%m-%d", time.gmtime(built_at()))
    for name, place in _PLACES.items():
        text = (ROOT / "packaging" / "linux" / name).read_text("utf-8")
        told = text.replace("@VERSION@", version()).replace("@DATE@", date).encode()
        folder = share / place
        folder.mkdir(parents=True, exist_ok=True)
        if name.endswith(".1"):  # as the system wants its manual pages
            (folder / f"{name}.gz").write_bytes(gzip.compress(told, 9, mtime=0))
        else:
            (folder / name.replace("-mime", "")).write_bytes(told)
    icon = share / "icons/hicolor/scalable/apps/duotail.svg"
    icon.parent.mkdir(parents=True, exist_ok=True)
    icon.write_text(drawing(), "utf-8")


def drawing() -> str:
    """The icon as SVG, in its colour."""
    drawn = (ROOT / "app/theme/icons/duotail.svg").read_text("utf-8")
    return drawn.replace("currentColor", _COLOUR)
