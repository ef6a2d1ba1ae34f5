"""The list of downloads on the disk: what was asked for is not forgotten with the program."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import UserFixable
from engine.hub.download.job import Job, JobState, Wheel
from engine.hub.remote.listing import Packaging, RemoteFile
from engine.language import tr

_log = logging.getLogger(__name__)

_VERSION = 1
_ENDED = (JobState.PAUSED, JobState.FAILED, JobState.DONE)


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job with what outlives the program.

    Attributes:
        cache: the folder that was chosen for its files; None: the usual one.
    """

    job: Job
    state: JobState
    cache: str | None = None
    model: str | None = None
    cause: str = ""
    remedy: str = ""
    details: str = ""
    fault: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether the program's end stopped it, not the user."""
        return self.state not in _ENDED


def read_jobs(path: Path) -> list[KeptJob]:
    """The jobs in a file; an unreadable one is kept beside it as `*.bad`, for whoever can mend it.

    What a newer version has written and this one does not understand is left out.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        entries = list(kept)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("the list of downloads is unreadable: %s", error)
        with contextlib.suppress(OSError):
            os.replace(path, path.with_suffix(path.suffix + ".bad"))
        return []
    return [job for job in map(_read, entries) if job is not None]


def write_jobs(path: Path, jobs: Iterable[KeptJob]) -> None:
    """Write them in one go.

    Raises:
        UserFixable: the folder cannot be written.
    """
    text = json.dumps({"version": _VERSION, "jobs": [asdict(job) for job in jobs]}, indent=1)
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise UserFixable(
            tr("The list of downloads could not be saved."),
            tr("Make the folder {folder} writable for your user.").format(folder=path.parent),
            str(error),
        ) from error


def _read(entry: Any) -> KeptJob | None:  # noqa: ANN401 - whatever the file holds
    try:
        told = dict(entry["job"])
        files = tuple(RemoteFile(**file) for file in told.pop("files"))
        wheel = _wheel(told.pop("wheel", None))
        packaging = Packaging(told.pop("packaging"))
        job = Job(**told, packaging=packaging, files=files, wheel=wheel)
        others = {name: entry[name] for name in ("cache", "model", *_WORDS)}
        if not isinstance(told["key"], str) or job.nbytes < 0:
            raise TypeError(told)
        return KeptJob(job, JobState(entry["state"]), **others)
    except (KeyError, TypeError, ValueError) as error:
        _log.warning("a download is left out of the list: %s", error)
        return None


def _wheel(told: Any) -> Wheel | None:  # noqa: ANN401 - whatever the file holds
    return None if told is None else Wheel(**{**told, "file": RemoteFile(**told["file"])})


_WORDS = ("cause", "remedy", "details", "fault")
