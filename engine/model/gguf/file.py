"""A model in GGUF: one file, or the parts that a large one was split into, and what it is for."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import UserFixable
from engine.language import later, tr
from engine.model.gguf.header import Header, read_header
from engine.model.json_object import JsonObject
from engine.model.weights.reader import TensorReader, stored_parts
from engine.model.weights.stored import StoredTensor, files_missing, merged_tensors

_PART = re.compile(
    r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.gguf)",
    re.DOTALL | re.IGNORECASE,
)
_MAX_PARTS = 1000
_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"
_ARCHITECTURE = "general.architecture"
_WORD = 60
_SHORT = 1024


class Metadata(JsonObject):
    """The key-value pairs of a GGUF file.

    Values are str, int, float, bool, `tuple[str, ...]` for lists of texts and read-only numpy
    arrays for lists of numbers. Texts are UTF-8; bytes that are not become U+FFFD.
    """

    __slots__ = ()

    @property
    def values(self) -> Mapping[str, object]:
        """All pairs, in the file's order."""
        return self.data

    def items(self, key: str) -> tuple[object, ...]:
        """The elements of a short list; a single value stands for a list of one."""
        value = self.data.get(key)
        if isinstance(value, np.ndarray | tuple) and len(value) > _SHORT:
            raise self.wrong(key, tr("a list of at most {count} entries").format(count=_SHORT))
        if isinstance(value, np.ndarray):
            return tuple(value.tolist())
        if isinstance(value, tuple):
            return value
        return () if value is None else (value,)

    def word(self, key: str) -> str | None:
        """A short text that can be shown as it is, or None when absent."""
        value = self.text(key)
        if value is not None and not (value.isprintable() and len(value) <= _WORD):
            raise self.wrong(key, tr("a word"))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty when absent."""
        value = self.data.get(key, ())
        if not isinstance(value, tuple):
            raise self.wrong(key, tr("a list of texts"))
        return value

    def numbers(self, key: str, low: float, high: float) -> tuple[float, ...]:
        """A short list of finite numbers in [low, high], or one; empty when absent."""
        return tuple(self._alone(key, one).number(key, low, high) for one in self.items(key))

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...]:
        """A short list of whole numbers in [low, high], or one; empty when absent."""
        return tuple(self._alone(key, one).integer(key, low, high) for one in self.items(key))

    def _alone(self, key: str, value: object) -> Metadata:
        return Metadata({key: value}, self.origin)


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The tables of contents of a model: its metadata, and where each tensor lies.

    `files` are its parts in order; the metadata are those of the first.
    """

    files: tuple[Path, ...]
    metadata: Metadata
    tensors: Mapping[str, StoredTensor]

    def reader(self, native: Collection[str] = ()) -> TensorReader:
        """Return a reader of the tensors by their stored names; for `native` see `FoundPart`."""
        return TensorReader(stored_parts(self.tensors, native))


def open_gguf(path: Path) -> GgufFile:
    """Read and check a model's headers; any part of a split model stands for all of them.

    Raises:
        UserFixable: a file has a defect, or parts (which it names) are missing.
    """
    header = read_header(path)
    metadata = Metadata(header.values, path.name)
    count = metadata.integer(_COUNT, 0, _MAX_PARTS, default=0)
    if count <= 1:
        return GgufFile((path,), metadata, header.tensors)
    if _goes_on(path, header):
        raise UserFixable(
            tr("{file} is made of the {count} parts of a model, one behind the other.").format(
                file=path.name, count=count
            ),
            tr(
                "Put the parts into a folder with the names they were downloaded with, or merge "
                "them with llama.cpp's gguf-split."
            ),
            str(path),
        )
    files = _part_files(path, count, metadata.integer(_NUMBER, 0, count - 1))
    headers = [header if file == path else read_header(file) for file in files]
    for number, (file, part) in enumerate(zip(files, headers, strict=True)):
        _check_part(file, Metadata(part.values, file.name), number, headers[0])
    tensors = merged_tensors(
        (file, part.tensors) for file, part in zip(files, headers, strict=True)
    )
    first = Metadata(headers[0].values, files[0].name)
    if len(tensors) != first.integer(_TENSORS, 0, 1 << 31, default=len(tensors)):
        raise _other_model(files[0])
    return GgufFile(tuple(files), first, tensors)


def _goes_on(path: Path, header: Header) -> bool:
    """Return whether another GGUF file begins where the tensors of this one end."""
    end = max((tensor.begin + tensor.nbytes for tensor in header.tensors.values()), default=0)
    with path.open("rb") as stream:
        stream.seek(end)
        return end > 0 and b"GGUF" in stream.read(1 << 16)


def part_names(path: Path) -> tuple[str, ...]:
    """The names of all parts of the split model that a file's name says it belongs to."""
    match = _PART.fullmatch(path.name)
    count = int(match["count"]) if match else 0
    if match is None or not 1 <= int(match["number"]) <= count <= _MAX_PARTS:
        return ()
    name, ending = match["name"], match["ending"]
    return tuple(_part_name(name, number, count, ending) for number in range(1, count + 1))


def _part_name(name: str, number: int, count: int, ending: str = ".gguf") -> str:
    return f"{name}-{number:05}-of-{count:05}{ending}"


def _part_files(path: Path, count: int, number: int) -> list[Path]:
    """All parts, beside this one."""
    names = part_names(path)
    if len(names) != count or names[number] != path.name:
        raise UserFixable(
            tr("{file} is part {number} of {count} of a model, but is not named as such.").format(
                file=path.name, number=number + 1, count=count
            ),
            tr("Give it back the name it was downloaded with, ending in “{ending}”.").format(
                ending=_part_name("", number + 1, count)
            ),
            str(path),
        )
    files = [path.with_name(name) for name in names]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise files_missing(path.parent, missing, count)
    return files


def _check_part(file: Path, part: Metadata, number: int, first: Header) -> None:
    """A part says which one it is; the first one's description, if repeated, is the same."""
    count = first.values.get(_COUNT)
    if part.values.get(_COUNT) != count or part.values.get(_NUMBER) != number:
        raise _other_model(file)
    architecture = part.values.get(_ARCHITECTURE)
    if architecture is not None and architecture != first.values.get(_ARCHITECTURE):
        raise _other_model(file)


def _other_model(file: Path) -> UserFixable:
    return UserFixable(
        tr("{file} and the files beside it are parts of different models.").format(file=file.name),
        tr("Download all parts of the model again, from the same source."),
        str(file),
    )


ARCHITECTURE = "general.architecture"
_PICTURES = later("{file} is the part of a model that sees or hears, not the model itself.")
_ADAPTER = later("{file} is an adapter (LoRA), not a whole model.")
_CONTROL = later("{file} is a control vector, which changes how another model writes.")
_STATISTICS = later("{file} holds statistics for quantising a model, not a model.")
_EMBEDDING = later("{file} is an embedding model; it cannot chat.")
_DRAFT = later("{file} only drafts for another model; it cannot chat by itself.")
_VOCABULARY = later("{file} holds a vocabulary only, without a model.")
_CHOOSE_MODEL = later("Choose the file of a chat model; often it lies beside this one.")

_TYPES = {"adapter": _ADAPTER, "mmproj": _PICTURES, "imatrix": _STATISTICS}
_BERTS = ("bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "modern-bert", "eurobert")
_SEARCHERS = ("jina-bert-v2", "jina-bert-v3", "gemma-embedding", "llama-embed", "t5encoder")
_ARCHITECTURES = {
    "clip": _PICTURES,
    "controlvector": _CONTROL,
    **dict.fromkeys(("duotail-draft", "eagle3", "dflash", "gemma4-assistant"), _DRAFT),
    **dict.fromkeys((*_BERTS, *_SEARCHERS), _EMBEDDING),
}
_NO_POOLING = 0
_MOST = (1 << 32) - 1


def language_model(file: GgufFile) -> str:
    """Return the architecture of a language model, in llama.cpp's words.

    Raises:
        UserFixable: the file holds something else.
    """
    architecture = file.metadata.word(ARCHITECTURE)
    kind = file.metadata.word("general.type") or "model"
    other = _TYPES.get(kind) or _ARCHITECTURES.get(architecture or "")
    if other is not None:
        raise _refusal(file, other)
    if architecture is None:
        raise file.metadata.wrong(ARCHITECTURE, tr("the name of a family of models"))
    pooling = file.metadata.integer(f"{architecture}.pooling_type", 0, _MOST, default=_NO_POOLING)
    causal = file.metadata.flag(f"{architecture}.attention.causal", default=True)
    if pooling not in (_NO_POOLING, _MOST) or not causal:
        raise _refusal(file, _EMBEDDING)
    if not file.tensors:
        raise _refusal(file, _VOCABULARY)
    return architecture


def _refusal(file: GgufFile, sentence: str) -> UserFixable:
    return UserFixable(
        tr(sentence).format(file=file.files[0].name), tr(_CHOOSE_MODEL), str(file.files[0])
    )
