"""Moves the data folder: asked for in the settings, carried out at the next start.

Nothing is open then, so what is copied is whole. A small file beside the settings says where the
data are. It is changed only when every byte has arrived; the old folder stays until the user lets
it go.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr

_log = logging.getLogger(__name__)

_STAYS = {"window.lock", "loading"}
_OURS = (
    *("history.sqlite3*", "duotail.log*", "crash.log", "loading", "window.lock"),
    *("measured.json", "servers.json", "benchmarks/*.json", "reports/*.txt"),
)
_RESERVE = 64 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Pointer:
    """Content of the pointer file; "" is nothing. Without it the data are in the system's place."""

    folder: str = ""
    wanted: str = ""
    """The folder that the data shall move to at the next start."""
    old: str = ""
    """The folder that the data were in before, still there."""


def read_pointer(path: Path) -> Pointer:
    """Read the pointer file at `path`; an empty pointer where it cannot be read."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Pointer()
    except (OSError, ValueError) as error:
        _log.warning("the data folder's pointer cannot be read: %s", error)
        return Pointer()
    values = {name: table.get(name, "") for name in Pointer.__slots__}
    return Pointer(**{k: v for k, v in values.items() if isinstance(v, str)})


def write_pointer(path: Path, pointer: Pointer) -> None:
    """Write it in one go. Raises OSError."""
    from tomli_w import dumps

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text("# Where Duotail's data are.\n" + dumps(asdict(pointer)), encoding="utf-8")
    os.replace(part, path)


def ask_to_move(pointer_file: Path, data: Path, target: Path) -> None:
    """Have the data moved from `data` to `target` at the next start.

    Raises:
        UserFixable: they cannot go there.
    """
    target = target.expanduser().absolute()
    if target == data or data in target.parents or target in data.parents:
        raise UserFixable(
            tr("Your data is already in this folder."),
            tr("Choose a folder that is neither inside the current one nor contains it."),
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise UserFixable(
                tr("The folder {folder} is not empty.").format(folder=target),
                tr("Choose an empty folder, or create a new one."),
            )
        probe = target / ".duotail"
        probe.write_bytes(b"")
        probe.unlink()
        _check_room(sum(file.stat().st_size for file in _files(data)), target)
        write_pointer(pointer_file, replace(read_pointer(pointer_file), wanted=str(target)))
    except OSError as error:
        raise UserFixable(
            tr("Duotail cannot write into {folder}.").format(folder=target),
            tr("Choose another folder, or give your user permission to write there."),
            str(error),
        ) from error


def carry_out(
    pointer_file: Path, data: Path, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Path:
    """Copy what was asked for, check it, and point to it; the data folder that is now in use.

    `progress` hears how many bytes of how many have arrived. The wish is dropped when it fails.

    Raises:
        UserFixable: it failed; the data are where they were.
    """
    pointer = read_pointer(pointer_file)
    if not pointer.wanted:
        return data
    target = Path(pointer.wanted)
    try:
        write_pointer(pointer_file, replace(pointer, wanted=""))  # never tried twice by itself
        _copy(data, target, progress)
        write_pointer(pointer_file, Pointer(folder=str(target), old=str(data)))
    except OSError as error:
        raise UserFixable(
            tr("Your data could not be moved to {folder}.").format(folder=target),
            tr("It is still in the previous folder; nothing is lost."),
            str(error),
        ) from error
    return target


def delete_old(pointer_file: Path) -> None:
    """Delete what Duotail had in the old folder, and the folder where nothing else is in it.

    Raises:
        UserFixable: something could not be deleted.
    """
    pointer = read_pointer(pointer_file)
    old = Path(pointer.old)
    try:
        for pattern in _OURS if pointer.old else ():
            for file in old.glob(pattern):
                file.unlink()
        for folder in (old / "reports", old / "benchmarks", old) if pointer.old else ():
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        write_pointer(pointer_file, replace(pointer, old=""))
    except OSError as error:
        raise UserFixable(
            tr("The old data could not be deleted completely."),
            tr("Delete the folder {folder} yourself.").format(folder=old),
            str(error),
        ) from error


def _copy(data: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    files = list(_files(data))
    total = sum(file.stat().st_size for file in files)
    _check_room(total, target)
    done = 0
    for file in files:
        copy = target / file.relative_to(data)
        copy.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with file.open("rb") as source, copy.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                sink.write(chunk)
                done += len(chunk)
                progress(done, total)
            sink.flush()
            os.fsync(sink.fileno())
        shutil.copystat(file, copy)
        with copy.open("rb") as arrived:
            if hashlib.file_digest(arrived, "sha256").digest() != digest.digest():
                raise OSError(f"{copy} is not what {file} is")


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name not in _STAYS:
            yield path


def _check_room(size: int, target: Path) -> None:
    free = shutil.disk_usage(target).free
    if free < size + _RESERVE:
        raise OSError(f"{size} bytes are needed in {target}, {free} are free")
