"""A model folder's weights in safetensors: found, and checked as a whole without being read."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import BinaryIO, Self

from engine.errors import UserFixable
from engine.language import tr
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.weights.reader import TensorReader, stored_parts
from engine.model.weights.stored import (
    StoredTensor,
    cannot_be_read,
    damaged,
    files_missing,
    incomplete,
    merged_tensors,
)

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
MAX_HEADER_BYTES = 100 << 20
MAX_DIMENSIONS = 8
ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


class SafetensorsFolder(TensorReader):
    """The tensors of a model folder, in one safetensors file or several, by their stored names.

    Tensors of bytes ("U8") are handed on as they are.
    """

    __slots__ = ()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Find and check the folder's weight files; reads their headers only.

        Raises:
            UserFixable: files are missing or truncated, tensors overlap or leave their file, or
                the index names files outside the folder.
        """
        if (folder / SINGLE_FILE).exists():
            return cls(stored_parts(read_header(folder / SINGLE_FILE)))
        if (folder / INDEX_FILE).exists():
            return cls(stored_parts(_read_shards(folder)))
        raise _no_weights(folder)


def _read_shards(folder: Path) -> dict[str, StoredTensor]:
    index = JsonObject.read(folder / INDEX_FILE)
    weight_map = index.member("weight_map")
    if weight_map is None or not weight_map.data:
        raise index.wrong("weight_map", tr("an object that names the file of each tensor"))
    files = sorted({_shard_name(index, name) for name in weight_map.data.values()})
    missing = [name for name in files if not (folder / name).exists()]
    if missing:
        raise files_missing(folder, missing, len(files))
    tensors = merged_tensors((folder / name, read_header(folder / name)) for name in files)
    for tensor_name, file_name in weight_map.data.items():
        if tensor_name not in tensors or tensors[tensor_name].file.name != file_name:
            raise damaged(
                folder / INDEX_FILE,
                tr("“{tensor_name}” is not in {file_name}, as this file says").format(
                    tensor_name=tensor_name[:100], file_name=file_name
                ),
            )
    return tensors


def _shard_name(index: JsonObject, name: object) -> str:
    """A plain file name; the index must not lead out of the folder."""
    plain = isinstance(name, str) and name.endswith(".safetensors") and len(name) < 256
    if not isinstance(name, str) or not plain or any(mark in name for mark in "/\\:\0"):
        raise UserFixable(
            tr("{origin} is not usable: it names a file outside the model's folder.").format(
                origin=index.origin
            ),
            tr("Download the model again from a source you trust."),
            repr(name)[:500],
        )
    return name


def _no_weights(folder: Path) -> UserFixable:
    """The most helpful thing to say about a folder without safetensors weights."""
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in names):
        return UserFixable(
            tr(
                "The weights are in an old format (.bin or .pt) that can run hidden code when read."
            ),
            tr(
                "Choose a safetensors version, or convert it with transformers: "
                'AutoModelForCausalLM.from_pretrained("FOLDER").save_pretrained("NEW FOLDER").'
            ),
            ", ".join(names[:20]),
        )
    if any(name.endswith(".gguf") for name in names):
        return UserFixable(
            tr("This folder holds models in GGUF format."),
            tr("Choose the .gguf file of one of them."),
            ", ".join(names[:20]),
        )
    if "adapter_model.safetensors" in names:
        return UserFixable(
            tr("This folder holds an adapter (LoRA), not a whole model."),
            tr("Choose the model it belongs to, or merge both first."),
            str(folder),
        )
    if any(name.endswith(".safetensors") for name in names):
        return UserFixable(
            tr("The model is incomplete: {file} is missing.").format(file=INDEX_FILE),
            tr("Finish or repeat the download."),
            ", ".join(names[:20]),
        )
    return UserFixable(
        tr("The model folder has no weights (model.safetensors)."),
        tr("Choose the folder that holds the model's files, or download it again."),
        str(folder),
    )


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
    if not name.isprintable():  # names and types are shown in messages
        raise damaged(file, tr("it holds a name that is not text"))
    if not isinstance(entry, dict):
        raise damaged(file, tr("“{name}” has no description").format(name=name[:100]))
    dtype = entry.get("dtype")
    shape = _whole_numbers(entry.get("shape"), MAX_DIMENSIONS)
    offsets = _whole_numbers(entry.get("data_offsets"), 2)
    if (
        not isinstance(dtype, str)
        or not dtype.isprintable()
        or shape is None
        or offsets is None
        or len(offsets) != 2
    ):
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
