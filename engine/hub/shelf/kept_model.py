"""A model that is known on this computer: where it lies and where it came from. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class ModelOrigin(StrEnum):
    """Origins of a model on this computer."""

    BUNDLED = "bundled"
    DOWNLOADED = "downloaded"
    """Downloaded into the cache that other programs share."""
    COPIED = "copied"
    """Copied into our own folder."""
    IN_PLACE = "in_place"
    """It stays where the user has it."""
    LM_STUDIO = "lm_studio"
    OLLAMA = "ollama"
    CACHE = "cache"
    """In Hugging Face's cache, put there by another program."""


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A model on this disk, its headers read.

    Attributes:
        path: what to load: a folder or a GGUF file.
        name: for people.
        family: as in "qwen3"; "" where it is not told.
        kind: the types of its weights, as in "Q4_K_M".
        parameters: all of them, counted in its tensors.
        context: tokens it was trained for.
        licence: as its files or the hub say; "" where they do not.
        draft: the one that drafts for it by choice or by sidecar.
        repo, revision: where it was fetched from.
        problem: why it cannot be used, in one sentence; "" where it can.
        gguf: whether it is in that format; a folder may hold one such file, under any name.
        notes: what its files leave out, and what is used instead, a sentence each.
    """

    path: Path
    name: str
    origin: ModelOrigin
    weight_bytes: int
    kind: str = ""
    family: str = ""
    parameters: int | None = None
    context: int | None = None
    licence: str = ""
    head: bool = False
    draft: Path | None = None
    repo: str | None = None
    revision: str | None = None
    problem: str = ""
    gguf: bool = False
    notes: tuple[str, ...] = ()


def names_of(name: str, path: Path, repo: str | None = None) -> frozenset[str]:
    """Return all that a model may be called, in lower case.

    These are its name as lists show it, also with "-" for blanks, its file or folder with and
    without an ending, and its repository on the hub.

    Args:
        name: as lists show it.
        path: where it lies.
        repo: on the hub, where it came from there.
    """
    found = [name, name.replace(" ", "-"), path.name, path.stem if path.suffix == ".gguf" else ""]
    if repo:
        found += [repo, repo.rpartition("/")[2]]
    return frozenset(each.casefold() for each in found if each)
