"""A model folder's weights: found, checked as a whole, and read one tensor at a time."""

from __future__ import annotations

from pathlib import Path

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.model.json_object import JsonObject
from engine.model.weights.safetensors_file import read_header
from engine.model.weights.source import TensorSource
from engine.model.weights.stored import StoredTensor, damaged

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


class SafetensorsFolder(TensorSource):
    """The tensors of a model folder, in one safetensors file or several (with an index).

    Opening reads headers only. Any defect (missing or truncated files, tensors that overlap or
    leave their file, names outside the folder) is a `UserFixable`. Tensors of bytes ("U8") are
    handed on as they are.
    """

    __slots__ = ("folder",)

    def __init__(self, folder: Path, tensors: dict[str, StoredTensor]) -> None:
        super().__init__(tensors)
        self.folder = folder

    @classmethod
    def open(cls, folder: Path) -> SafetensorsFolder:
        """Find and check the folder's weight files."""
        if (folder / SINGLE_FILE).exists():
            return cls(folder, read_header(folder / SINGLE_FILE))
        if (folder / INDEX_FILE).exists():
            return cls(folder, _read_shards(folder))
        raise _no_weights(folder)


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
