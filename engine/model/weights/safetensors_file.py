"""The safetensors file format: a file's table of contents, read and checked without its data."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN
from engine.model.weights.stored import StoredTensor, cannot_be_read, damaged, incomplete

MAX_HEADER_BYTES = 100 << 20
MAX_DIMENSIONS = 8
ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


def read_header(file: Path) -> dict[str, StoredTensor]:
    """Name -> place of every tensor of a file; `UserFixable` for any defect of the file."""
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            header, data_start = _parse_header(file, stream, size)
    except OSError as error:
        raise cannot_be_read(file, error) from error
    header.pop("__metadata__", None)
    tensors = {name: _parse_tensor(file, name, entry, data_start) for name, entry in header.items()}
    _check_layout(file, size, data_start, tensors)
    return tensors


def _parse_header(file: Path, stream: BinaryIO, size: int) -> tuple[dict[str, object], int]:
    """The header's members, and the byte at which the tensors start."""
    if size < 8:
        raise incomplete(file, size, 8)
    length = int.from_bytes(stream.read(8), "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise damaged(file, tr("it is not a safetensors file"))
    if size < 8 + length:
        raise incomplete(file, size, 8 + length)
    try:
        header = json.loads(stream.read(length), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise UserFixable(
            tr("{file} is damaged: its table of contents cannot be read.").format(file=file.name),
            tr(DOWNLOAD_AGAIN),
            f"{file}: {error}",
        ) from error
    if not isinstance(header, dict):
        raise damaged(file, tr("its table of contents cannot be read"))
    return header, 8 + length


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        name = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{name!r} appears twice")
    return members


def _whole_numbers(value: object, most: int) -> tuple[int, ...] | None:
    if not isinstance(value, list) or len(value) > most:
        return None
    if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in value):
        return None
    return tuple(value)


def _parse_tensor(file: Path, name: str, entry: object, data_start: int) -> StoredTensor:
    if not isinstance(entry, dict):
        raise damaged(file, tr("“{name}” has no description").format(name=name[:100]))
    dtype = entry.get("dtype")
    shape = _whole_numbers(entry.get("shape"), MAX_DIMENSIONS)
    offsets = _whole_numbers(entry.get("data_offsets"), 2)
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        raise damaged(
            file, tr("the description of “{name}” cannot be read").format(name=name[:100])
        )
    if dtype not in ITEM_BYTES:
        raise UserFixable(
            tr("{file} stores weights as “{dtype}”, which Duotail cannot read.").format(
                file=file.name, dtype=dtype[:20]
            ),
            tr("Choose a version of the model in BF16, F16 or F32."),
            name,
        )
    begin, end = offsets
    if end - begin != math.prod(shape) * ITEM_BYTES[dtype]:
        raise damaged(
            file,
            tr("“{name}” has a different size from what its shape says").format(name=name[:100]),
        )
    return StoredTensor(file, dtype, shape, data_start + begin, end - begin)


def _check_layout(file: Path, size: int, data_start: int, tensors: dict[str, StoredTensor]) -> None:
    """Tensors lie one behind the other, without gaps or overlaps, up to the file's end."""
    position = data_start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].nbytes)):
        if tensor.begin != position:
            raise damaged(
                file, tr("“{name}” does not follow the tensor before it").format(name=name[:100])
            )
        position += tensor.nbytes
    if size < position:
        raise incomplete(file, size, position)
    if size > position:
        raise damaged(
            file,
            tr("it has {size} bytes where {position} are described").format(
                size=size, position=position
            ),
        )
