"""What calibration has measured, kept on disk until the hardware changes.

A folder of `IDENTITY.json`, named by a hash of everything that the speeds depend on. As with all
that can be made anew, nothing that goes wrong with it (read-only, full, damaged, gone) is an error.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib import metadata, util
from pathlib import Path

import platformdirs

from engine.hardware.machine_file import MOST_BYTES, check_speeds
from engine.hardware.typed_json import decoded, encoded
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds

VERSION = 2
"""Of the way to measure: another one makes everything kept before worthless."""

MOST_KEPT = 8
GIB = 2**30

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a file holds."""

    identity: str
    speeds: Speeds


def speeds_folder() -> Path:
    """Where speeds are kept; DUOTAIL_CACHE_DIR chooses another place."""
    chosen = os.environ.get("DUOTAIL_CACHE_DIR")
    root = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("Duotail", False)
    return root / "speeds"


def identity(machine: Machine, threads: int) -> str:
    """A hash of what speeds depend on: hardware, drivers, kernels, and how many threads compute."""
    host = machine.host
    real = [found for found in machine.accelerators if not found.simulated and not found.unusable]
    facts = (
        *(VERSION, host.name, host.cores, host.threads, host.fast_cores, threads),
        *(host.memory_total // GIB, host.instruction_sets, host.kernels, _native_build()),
        [
            (found.device, found.name, found.identity, found.driver, found.memory_total)
            for found in real
        ],
        _torch() if real else "",
    )
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


class KeptSpeeds:
    """The speeds in one folder. Several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or speeds_folder()

    def find(self, machine: Machine, threads: int) -> Speeds | None:
        """What was measured on this very machine."""
        name = identity(machine, threads)
        try:
            with self._path(name).open("rb") as stream:
                content = stream.read(MOST_BYTES)
            kept = decoded(_Kept, json.loads(content), "file")
            check_speeds(kept.speeds)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            _log.info("kept speeds are not used: %r", error)
            return None
        return kept.speeds if kept.identity == name else None

    def keep(self, machine: Machine, threads: int, speeds: Speeds) -> None:
        """Write them down, and forget those of machines before."""
        name = identity(machine, threads)
        content = json.dumps(encoded(_Kept(name, speeds)), allow_nan=False)
        replace_file(self._path(name), content, most=MOST_KEPT)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def replace_file(path: Path, content: str, *, most: int) -> None:
    """Write a whole file or none, and leave the `most` newest of its folder; failing is no error.

    Args:
        path: of a `.json` file.
        content: what it will hold.
        most: files that stay.
    """
    part = path.with_name(f"{path.stem}-{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(content, "utf-8")
        part.replace(path)
    except OSError as error:
        _log.info("%s cannot be kept: %s", path, error)
        with suppress(OSError):
            part.unlink()
    with suppress(OSError):
        files = sorted(path.parent.glob("*.json"), key=lambda file: -file.stat().st_mtime)
        for file in files[most:]:
            file.unlink()


def _native_build() -> str:
    """A hash of the native library; empty where there is none."""
    from engine.backend.native.library import MODULE

    spec = util.find_spec(MODULE)
    try:
        return blake2b(Path(spec.origin or "").read_bytes()).hexdigest() if spec else ""
    except OSError:
        return ""


def _torch() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
