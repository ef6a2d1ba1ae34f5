"""The folder of the models and drafts that ship with Duotail, and the starter model's own file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr


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


STARTER_FOLDER = "smollm2-135m-instruct"
"""Name of its folder in `resources/models`, and in the user's own folder of models."""
STARTER = StarterFile(
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""The starter model; it does not ship, its sidecar and its draft do (see `engine.hub.starter`)."""


def root() -> Path:
    """Return the folder in this installation, whether or not anything is there.

    Raises:
        UserFixable: Duotail runs from a packed archive.
    """
    folder = files("resources") / "models"
    if not isinstance(folder, Path):
        raise UserFixable(
            tr("Duotail was installed as a packed archive; its models cannot be read from there."),
            tr("Install it again with pipx, uv tool or one of the installers."),
            str(folder),
        )
    return folder


def starter_folder() -> Path:
    """Return the folder that ships with the starter's sidecar, where set-up puts the model."""
    return root() / STARTER_FOLDER


def is_starter(file: Path) -> bool:
    """Return whether a file has the starter's name and size; its hash was checked on arrival."""
    try:
        return file.name == STARTER.name and file.stat().st_size == STARTER.nbytes
    except OSError:
        return False
