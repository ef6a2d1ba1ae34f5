"""What a model's files should be: hashes that the hub listed, that files are named by, or ours."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import Cancelled
from engine.hub.remote.listing import RemoteFile
from engine.hub.shelf.hub_cache import repository_of

_SHA256, _SHA1 = (re.compile(rf"[0-9a-f]{{{count}}}", re.ASCII) for count in (64, 40))
_OLLAMA = re.compile(r"sha256-([0-9a-f]{64})", re.ASCII)
_PIECE = 4 << 20


@dataclass(frozen=True, slots=True)
class Expected:
    """The hash that a file should have; `git`: it is git's sha1 of a blob, else a sha256."""

    digest: str
    git: bool = False

    def agrees(self, file: Path, tell: Callable[[int], None], stopped: Callable[[], bool]) -> bool:
        """Read the whole file and compare.

        Raises:
            Cancelled: `stopped` said so.
            OSError: it cannot be read.
        """
        digest = hashlib.sha256()
        if self.git:
            digest = hashlib.sha1(usedforsecurity=False)
            digest.update(b"blob %d\0" % file.stat().st_size)
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                if stopped():
                    raise Cancelled
                digest.update(piece)
                tell(len(piece))
        return digest.hexdigest() == self.digest


def expected(
    file: Path, listed: Mapping[str, RemoteFile], ours: Mapping[str, str]
) -> Expected | None:
    """What is known of a file; None: nothing.

    Args:
        listed: what the hub said, by the files' names without folders.
        ours: what was read when it was copied, likewise.
    """
    remote = listed.get(file.name)
    if remote is not None and remote.sha256:
        return Expected(remote.sha256)
    if remote is not None and remote.git_sha1:
        return Expected(remote.git_sha1, git=True)
    if file.name in ours:
        return Expected(ours[file.name])
    return _by_name(file)


def by_name(files: Iterable[RemoteFile]) -> dict[str, RemoteFile]:
    """Files of a repository by their names without folders."""
    return {file.path.rpartition("/")[2]: file for file in files}


def _by_name(file: Path) -> Expected | None:
    """The hub's cache and Ollama name files by their hashes."""
    match = _OLLAMA.fullmatch(file.name)
    if match is not None:
        return Expected(match[1])
    if repository_of(file) is None or not file.is_symlink():
        return None
    place = file.resolve().name
    if _SHA256.fullmatch(place):
        return Expected(place)
    return Expected(place, git=True) if _SHA1.fullmatch(place) else None
