"""Tensors as they lie in files, whatever the format, and the ways such files are broken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.model.json_object import DOWNLOAD_AGAIN


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The place of a tensor in a file.

    Attributes:
        file: the file.
        kind: type of its numbers: "F32", "F16", "BF16" or whatever the file's format has.
        shape: rows first.
        begin: its first byte, from the start of the file.
        nbytes: its size.
    """

    file: Path
    kind: str
    shape: tuple[int, ...]
    begin: int
    nbytes: int

    @property
    def rows(self) -> int:
        """Rows of the tensor read as a matrix.

        Three dimensions (a matrix per expert) count as one matrix below the other; of four, the
        last two make a row together. A vector is one row.
        """
        return math.prod(self.shape[:2] if len(self.shape) > 2 else self.shape[:-1])

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return math.prod(self.shape[2:] if len(self.shape) > 2 else self.shape[-1:])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.nbytes // max(self.rows, 1)


def merged_tensors(
    files: Iterable[tuple[Path, Mapping[str, StoredTensor]]],
) -> dict[str, StoredTensor]:
    """Return the tensors of several files of one model.

    Raises:
        UserFixable: two files hold a tensor of the same name.
    """
    found: dict[str, StoredTensor] = {}
    for file, tensors in files:
        twice = next((name for name in tensors if name in found), None)
        if twice is not None:
            what = tr("“{tensor_name}” is also in another weight file")
            raise damaged(file, what.format(tensor_name=twice[:100]))
        found |= tensors
    return found


def files_missing(folder: Path, missing: Sequence[str], total: int) -> UserFixable:
    """The error for a model of which some of its `total` weight files are not there."""
    return UserFixable(
        tr(
            "The model is incomplete: {missing} of {total} weight files are missing ({names})."
        ).format(
            missing=len(missing),
            total=total,
            names=listed([*missing[:3], *["..."] * (len(missing) > 3)]),
        ),
        tr("Finish or repeat the download."),
        str(folder),
    )


def damaged(file: Path, what: str) -> UserFixable:
    """The error for a file whose contents contradict themselves."""
    return UserFixable(
        tr("{file} is damaged: {what}.").format(file=file.name, what=what),
        tr(DOWNLOAD_AGAIN),
        str(file),
    )


def incomplete(file: Path, size: int, expected: int | None = None) -> UserFixable:
    """The error for a file that ends before its contents do; how long it should be, if it tells."""
    said = tr("{file} is incomplete: {size} of {expected} bytes.")
    if expected is None:
        said = tr("{file} is incomplete: {size} bytes.") if size else tr("{file} is empty.")
    return UserFixable(
        said.format(file=file.name, size=size, expected=expected),
        tr("Finish or repeat the download."),
        str(file),
    )


def cannot_be_read(file: Path, error: OSError) -> UserFixable:
    """The error for a file that the system does not let us read."""
    return UserFixable(
        tr("{file} cannot be read.").format(file=file.name),
        tr("Check the file's permissions."),
        str(error),
    )


def not_finite(where: str) -> UserFixable:
    """The error for weights that are no numbers."""
    return UserFixable(
        tr("The weights are damaged: they hold values that are not numbers."),
        tr(DOWNLOAD_AGAIN),
        where,
    )
