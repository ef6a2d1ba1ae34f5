"""Small files in JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_json(path: Path, value: object) -> None:
    """Write a file in the place of what was there; its folder is made where it is missing.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    part = path.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        text = json.dumps(value, indent=1)
        part.write_text(text, encoding="utf-8", errors="surrogateescape")
        os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
