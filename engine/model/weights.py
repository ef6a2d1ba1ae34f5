"""A model folder's weights: found, checked as a whole, and read one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.model.config import ModelConfig
from engine.model.json_object import DOWNLOAD_AGAIN, JsonObject
from engine.model.safetensors_file import read_header
from engine.model.stored import StoredTensor, damaged
from engine.model.tensors import EMBEDDING, HEAD, expected_tensors

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_STORED = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
READABLE = tuple(_STORED)
STRETCH_BYTES = 8 << 20


class SafetensorsFolder:
    """The tensors of a model folder, in one safetensors file or several (with an index).

    Opening reads headers only. Any defect (missing or truncated files, tensors that overlap or
    leave their file, names outside the folder) is a `UserFixable`.
    """

    __slots__ = ("_tensors", "folder")

    def __init__(self, folder: Path, tensors: dict[str, StoredTensor]) -> None:
        self.folder = folder
        self._tensors = tensors

    @classmethod
    def open(cls, folder: Path) -> SafetensorsFolder:
        """Find and check the folder's weight files."""
        if (folder / SINGLE_FILE).exists():
            return cls(folder, read_header(folder / SINGLE_FILE))
        if (folder / INDEX_FILE).exists():
            return cls(folder, _read_shards(folder))
        raise _no_weights(folder)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as stored."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    @property
    def files(self) -> tuple[Path, ...]:
        """The weight files."""
        return tuple(sorted({tensor.file for tensor in self._tensors.values()}))

    def names(self) -> tuple[str, ...]:
        """Names of all tensors, in file order."""
        return tuple(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor; `KeyError` when there is none of that name."""
        return self._tensors[name].shape

    def stored_bytes(self, name: str) -> int:
        """Bytes of a tensor in its file."""
        return self._tensors[name].nbytes

    def kind(self, name: str) -> str:
        """Type of the stored numbers, such as "BF16"."""
        return self._tensors[name].kind

    def float32(self, name: str, *, check_finite: bool = False) -> NDArray[np.float32]:
        """A C-contiguous float32 copy of a tensor stored as F32, F16 or BF16.

        `check_finite` refuses NaN and infinity with a `UserFixable`.
        """
        tensor = self._tensors[name]
        if tensor.kind not in READABLE:
            raise UserFixable(
                tr("The weights are stored as {dtype}, which Duotail cannot read.").format(
                    dtype=tensor.kind
                ),
                tr("Choose a version of the model in BF16, F16 or F32."),
                name,
            )
        values = _widen(_read_bytes(tensor), tensor.kind).reshape(tensor.shape)
        if check_finite and not np.isfinite(values).all():
            raise not_finite(f"{name} in {tensor.file}")
        return values

    def stretches(self, name: str) -> Iterator[NDArray[Any]]:
        """A matrix as it is stored, some megabytes of rows at a time (a multiple of 16).

        In float32, float16, or uint16 for the bits of BF16. All use the same memory: a stretch is
        valid until the next one is asked for.
        """
        tensor = self._tensors[name]
        rows, cols = tensor.shape
        row_bytes = tensor.nbytes // rows
        most = max(STRETCH_BYTES // row_bytes // 16, 1) * 16
        room = np.empty(min(most, rows) * row_bytes, dtype=np.uint8)
        with _opened(tensor) as stream:
            for first in range(0, rows, most):
                part = room[: min(most, rows - first) * row_bytes]
                _fill(part, stream, tensor)
                yield part.view(_STORED[tensor.kind]).reshape(-1, cols)

    def same_bytes(self, first: str, second: str) -> bool:
        """Whether two tensors agree in type, shape and every stored byte."""
        a, b = self._tensors[first], self._tensors[second]
        if (a.kind, a.shape) != (b.kind, b.shape):
            return False
        step = 1 << 24
        with a.file.open("rb") as left, b.file.open("rb") as right:
            left.seek(a.begin)
            right.seek(b.begin)
            for start in range(0, a.nbytes, step):
                count = min(step, a.nbytes - start)
                if left.read(count) != right.read(count):
                    return False
        return True


def not_finite(where: str) -> UserFixable:
    """The error for weights that are no numbers."""
    return UserFixable(
        tr("The weights are damaged: they hold values that are not numbers."),
        tr(DOWNLOAD_AGAIN),
        where,
    )


def _read_bytes(tensor: StoredTensor) -> NDArray[np.uint8]:
    raw = np.empty(tensor.nbytes, dtype=np.uint8)
    with _opened(tensor) as stream:
        _fill(raw, stream, tensor)
    return raw


@contextmanager
def _opened(tensor: StoredTensor) -> Iterator[FileIO]:
    """The tensor's file, at the tensor."""
    try:
        with FileIO(tensor.file) as stream:
            stream.seek(tensor.begin)
            yield stream
    except OSError as error:
        raise UserFixable(
            tr("{file} cannot be read.").format(file=tensor.file.name),
            tr("Check the disk and the file."),
            str(error),
        ) from error


def _fill(room: NDArray[np.uint8], stream: FileIO, tensor: StoredTensor) -> None:
    """Read until the room is full."""
    done = 0
    while done < room.nbytes:
        count = stream.readinto(room[done:].data)  # one call reads 2 GiB at most
        if not count:
            raise UserFixable(
                tr("{file} has become shorter since it was checked.").format(file=tensor.file.name),
                tr("Wait until the download is complete, then load the model again."),
                str(tensor.file),
            )
        done += count


def _widen(raw: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    if dtype == "F16":
        return raw.view(np.float16).astype(np.float32)
    if dtype == "BF16":  # the upper half of a float32
        wide = raw.view(np.uint16).astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    return raw.view(np.float32)


def _read_shards(folder: Path) -> dict[str, StoredTensor]:
    index = JsonObject.read(folder / INDEX_FILE)
    weight_map = index.member("weight_map")
    if weight_map is None or not weight_map.data:
        raise index.wrong("weight_map", tr("an object that names the file of each tensor"))
    files = sorted({_shard_name(index, name) for name in weight_map.data.values()})
    missing = [name for name in files if not (folder / name).exists()]
    if missing:
        raise UserFixable(
            tr(
                "The model is incomplete: {missing} of {total} weight files are missing ({names})."
            ).format(
                missing=len(missing),
                total=len(files),
                names=listed([*missing[:3], *["..."] * (len(missing) > 3)]),
            ),
            tr("Finish or repeat the download."),
            str(folder),
        )
    tensors: dict[str, StoredTensor] = {}
    for name in files:
        for tensor_name, tensor in read_header(folder / name).items():
            if tensor_name in tensors:
                raise damaged(
                    folder / name,
                    tr("“{tensor_name}” is also in another weight file").format(
                        tensor_name=tensor_name[:100]
                    ),
                )
            tensors[tensor_name] = tensor
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
            tr("The weights are in GGUF format, which Duotail cannot read yet."),
            tr("Choose a safetensors version of the model."),
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


def check_tensors(config: ModelConfig, folder: SafetensorsFolder) -> None:
    """Raise `UserFixable` unless the folder holds exactly what the config describes.

    Stored rotation frequencies are ignored (they are recomputed), and so is a head equal to the
    embedding that it is tied to. Reads no weights, except to compare such a head.
    """
    # Without this, a hostile layer count would cost time before the first name is missed.
    if config.num_layers > len(folder.names()):
        raise _mismatch(
            tr("config.json describes {count} blocks, more than there are weights").format(
                count=config.num_layers
            ),
            folder,
        )
    expected = expected_tensors(config)
    for name, shape in expected.items():
        if name not in folder:
            raise _mismatch(tr("{name} is missing").format(name=name), folder)
        if folder.shape(name) != shape:
            sizes = tr("{name} is {size}, not {wanted}").format(
                name=name, size=_size(folder.shape(name)), wanted=_size(shape)
            )
            raise _mismatch(sizes, folder)
        if folder.kind(name) not in READABLE:
            raise UserFixable(
                tr("The weights are stored as {dtype}, which Duotail cannot read.").format(
                    dtype=folder.kind(name)
                ),
                tr("Choose a version of the model in BF16, F16 or F32."),
                name,
            )
    for name in folder.names():
        if name in expected or name.endswith("rotary_emb.inv_freq"):
            continue
        if name == HEAD and folder.same_bytes(HEAD, EMBEDDING):
            continue
        raise _mismatch(
            tr("the weights hold {name}, which config.json does not mention").format(
                name=name[:100]
            ),
            folder,
        )


def _mismatch(what: str, folder: SafetensorsFolder) -> UserFixable:
    return UserFixable(
        tr("The weights do not fit the model's config.json: {what}.").format(what=what),
        tr("Download the model again; all its files must come from the same source."),
        str(folder.folder),
    )


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or tr("a single number")
