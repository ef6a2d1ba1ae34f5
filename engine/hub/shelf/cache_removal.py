"""What may go from the hub's cache with a model: its links, and blobs that no other link needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import time

from engine.hub.shelf.hub_cache import repository_of, snapshot_of
from engine.model.model_files import chosen_file, own_files

_WEIGHTS = (".gguf", ".safetensors")
_DAY = 24 * 60 * 60

Removal = tuple[tuple[Path, ...], tuple[Path, ...], int]
"""Files in the order of deletion, folders that may be empty then, bytes."""


def removal(path: Path) -> Removal:
    """Files, folders and bytes of a model whose path lies in a snapshot.

    The last weights of a snapshot take it with them, the last snapshot of a repository takes the
    repository. A blob stays as long as a link of another model or of another revision leads to it.

    Raises:
        UserFixable, OSError: what is there cannot be read.
    """
    repository, snapshot = repository_of(path), snapshot_of(path)
    if repository is None or snapshot is None:
        raise ValueError(path)
    inside = list(_files(snapshot))
    if chosen_file(path) is not None:
        own = [file for file in own_files(path) if snapshot in file.parents]
        if not set(filter(_answers, inside)) <= set(
            own
        ):  # another quantisation needs what lies beside it
            return _counted(own, repository, snapshot, whole=False)
    return _counted(inside, repository, snapshot, whole=True)


def _counted(links: list[Path], repository: Path, snapshot: Path, *, whole: bool) -> Removal:
    """The links, and the blobs that only they lead to."""
    gone = set(links)
    needed = {
        _blob(file)
        for file in _files(repository / "snapshots")
        if file not in gone and file.is_symlink()
    }
    blobs_folder = (repository / "blobs").resolve()
    blobs = {_blob(file) for file in links if file.is_symlink()} - needed
    blobs = {blob for blob in blobs if blob.parent == blobs_folder and blob.is_file()}
    copies = [file for file in links if not file.is_symlink()]
    nbytes = sum(file.lstat().st_size for file in (*blobs, *copies) if not file.is_symlink())
    folders = sorted({file.parent for file in links}, key=lambda each: -len(each.parts))
    refs: list[Path] = []
    if whole:
        refs = _refs_to(repository, snapshot.name)
        last = not any(
            each != snapshot for each in (repository / "snapshots").iterdir() if each.is_dir()
        )
        folders += [snapshot]
        if last:
            unfinished = [each for each in blobs_folder.glob("*.incomplete") if _abandoned(each)]
            nbytes += sum(each.stat().st_size for each in unfinished)
            blobs |= set(unfinished)
            missing = list(_files(repository / ".no_exist"))
            refs += missing
            folders += [*_folders(repository), repository]
    files = (*refs, *links, *sorted(blobs))
    return files, tuple(dict.fromkeys(folders)), nbytes


def _answers(file: Path) -> bool:
    """Whether this is weights of a model; what only sees pictures goes with the last one."""
    name = file.name.lower()
    return name.endswith(_WEIGHTS) and not name.startswith("mmproj")


def _abandoned(unfinished: Path) -> bool:
    """Whether nobody has gone on with a download for a day."""
    return unfinished.is_file() and time() - unfinished.stat().st_mtime > _DAY


def _blob(link: Path) -> Path:
    """Where a link leads, whether something is there or not; no further than one step."""
    return Path(os.path.normpath(link.parent.resolve() / os.readlink(link)))


def _refs_to(repository: Path, commit: str) -> list[Path]:
    """The names that a commit has."""
    return [file for file in _files(repository / "refs") if _text(file) == commit]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _files(folder: Path) -> Iterator[Path]:
    """All files and links in a folder; links to folders are not followed."""
    for root, _, names in os.walk(folder):
        yield from (Path(root) / name for name in sorted(names))


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, inner ones first."""
    return [Path(root) for root, _, _ in os.walk(folder, topdown=False) if Path(root) != folder]
