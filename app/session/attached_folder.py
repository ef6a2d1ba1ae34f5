"""The text files of a folder that is attached."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from app.session.attachments import MODELS, MOST_BYTES, PICTURES, Attachment, read_attachment
from engine.errors import UserFixable

_NOT_READ = {"node_modules", "__pycache__", "venv", "build", "dist", "target"}
MOST_FILES = 50
"""Most files that are taken of a folder: more would be a wall of chips."""


def read_folder(folder: Path) -> tuple[list[Attachment], int]:
    """Return the text files in a folder, named from there, and how many were left out."""
    found = folder_files(folder)
    files: list[Attachment] = []
    total = 0
    for path in found[:MOST_FILES]:
        try:
            made = read_attachment(path)
        except UserFixable:
            continue
        total += made.size
        if total > MOST_BYTES:
            break
        files.append(replace(made, name=path.relative_to(folder.parent).as_posix(), notice=""))
    return files, len(found) - len(files)


def folder_files(folder: Path) -> list[Path]:
    """Return the files in a folder and below it that may hold text, in order.

    What is hidden is left out, and what programs put there: packages and caches. No more than
    `MOST_FILES` are returned, plus one where there are more.
    """
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each[0] != "." and each not in _NOT_READ)
        for name in sorted(names):
            path = Path(place) / name
            if name[0] != "." and path.suffix.lower() not in {*MODELS, *PICTURES}:
                found.append(path)
            if len(found) > MOST_FILES:
                return found
    return found
