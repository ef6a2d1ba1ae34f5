"""Which files a model consists of: what a path stands for, what belongs to it, what has changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.model.gguf.file import part_names
from engine.model.weights.safetensors_folder import INDEX_FILE, SINGLE_FILE

_MAGIC = b"GGUF"
_CUT = re.compile(r".+\.gguf(?:[.-]part-?\d+of\d+|[.-]part-?\d+|-split-[a-z])", re.IGNORECASE)
"""Names of pieces that are no files by themselves, unlike the parts that llama.cpp makes."""
_PICTURES = "mmproj"
"""Mark in the name of a file that only sees pictures, beside the model that it belongs to."""
_LISTED = 5
SIDECAR = "duotail.json"
"""The note beside a model that names it and its draft."""
TEMPLATE = ".jinja"
"""Ending of the file with the user's own chat template, beside a GGUF file of the same name."""
PACKED = "duotail-draft.gguf"
"""The tensors of a draft, by our names, beside the config.json that tells what they make."""


class SeveralModels(UserFixable):
    """A folder with more than one model in GGUF; `files` are those to choose from."""

    def __init__(self, folder: Path, files: tuple[Path, ...]) -> None:
        names = [file.name for file in files[:_LISTED]] + ["..."] * (len(files) > _LISTED)
        super().__init__(
            tr("{folder} holds {count} models in GGUF format: {names}.").format(
                folder=folder.name, count=len(files), names=listed(names)
            ),
            tr("Choose one of the files."),
            str(folder),
        )
        self.files = files

    @property
    def sizes(self) -> tuple[tuple[Path, int], ...]:
        """Each of the files with the bytes of all its parts."""
        return tuple((file, _bytes(file)) for file in self.files)


def _parts(file: Path) -> list[Path]:
    """Return all files of a split GGUF, or the only one."""
    return [file.with_name(name) for name in part_names(file)] or [file]


def _bytes(file: Path) -> int:
    return sum(part.stat().st_size for part in _parts(file) if part.exists())


def chosen_file(path: Path) -> Path | None:
    """Return the GGUF file that a path stands for; None for a folder that holds something else.

    Raises:
        SeveralModels: it is a folder with more than one.
        UserFixable: there is nothing there, or a file of another kind.
    """
    if _CUT.fullmatch(path.name):
        raise UserFixable(
            tr("{file} is a piece of a file that was cut.").format(file=path.name),
            tr(
                "Join all pieces in order, on Linux and macOS with “cat PIECES > MODEL.gguf”, on "
                "Windows with “copy /b PIECE1 + PIECE2 MODEL.gguf”, then open the whole."
            ),
            str(path),
        )
    if path.is_dir():
        if (path / "adapter_config.json").exists() and not (path / "config.json").exists():
            raise UserFixable(
                tr("{folder} holds an adapter (LoRA), not a whole model.").format(folder=path.name),
                tr("Choose a model into which the adapter has been merged."),
                str(path),
            )
        if (path / SINGLE_FILE).exists() or (path / INDEX_FILE).exists():
            return None
        files = models_in(path)
        if len(files) > 1:
            raise SeveralModels(path, files)
        return files[0] if files else None
    if is_gguf(path):
        return path
    raise _not_a_model(path)


def models_in(folder: Path) -> tuple[Path, ...]:
    """Return the GGUF models in a folder, by name; a split one by its first part."""
    files = [file for file in folder.iterdir() if file.suffix.lower() == ".gguf"]
    firsts = {_parts(file)[0] for file in files}
    return tuple(sorted(file for file in firsts if not _is_a_part(file.name.lower())))


def _is_a_part(name: str) -> bool:
    """Return whether a file is no model without those beside it."""
    return name.startswith(_PICTURES) or name == PACKED


def holds_model(folder: Path) -> bool:
    """Return whether a folder is one model: with a config.json, or with a single GGUF model."""
    return (folder / "config.json").exists() or len(models_in(folder)) == 1


def is_gguf(path: Path) -> bool:
    """Return whether a file is in GGUF, by its name or, under any other name, by how it begins."""
    if not path.is_file():
        return False
    if path.suffix.lower() == ".gguf":
        return True
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _not_a_model(path: Path) -> UserFixable:
    """Return the most helpful error for a path that holds no model."""
    if not path.exists():
        return UserFixable(
            tr("There is no {path}.").format(path=path),
            tr("Choose a GGUF file, or the folder that holds the model."),
            str(path),
        )
    if path.suffix.lower() in (".bin", ".pt", ".pth", ".ckpt"):
        return UserFixable(
            tr(
                "{path} is in an old format (.bin or .pt) that can run hidden code when read."
            ).format(path=path.name),
            tr("Choose the model in GGUF format or in safetensors."),
            str(path),
        )
    return UserFixable(
        tr("{path} is a file, but not a model in GGUF format.").format(path=path.name),
        tr("Choose a GGUF file, or the folder that holds config.json and the weights."),
        str(path),
    )


_OF_MODELS = re.compile(
    r"config\.json|generation_config\.json|.*\.safetensors(\.index\.json)?|tokenizer.*|"
    r"vocab\.(json|txt)|merges\.txt|.*\.tiktoken|special_tokens_map\.json|added_tokens\.json|"
    r"chat_template.*|preprocessor_config\.json|(README|LICEN[SC]E|NOTICE|USE_POLICY).*|"
    + "|".join(map(re.escape, (SIDECAR, PACKED))),
    re.IGNORECASE,
)


def check_folder(folder: Path) -> None:
    """Refuse a model's folder with files that are none, or that lie elsewhere; nothing is opened.

    A pipe would be waited for, and a device has no end; a link could name any file of the user's.
    The Hugging Face cache keeps the files of its models beside them, in `blobs`.

    Raises:
        UserFixable: names the file.
    """
    homes = {real_path(folder), real_path(folder).parent.parent / "blobs"}
    for entry in folder.iterdir():
        if not _OF_MODELS.fullmatch(entry.name):
            continue
        if entry.exists() and not (entry.is_file() or entry.is_dir()):
            raise UserFixable(
                tr("{file} is not an ordinary file.").format(file=entry.name),
                tr("Download the model again from a source you trust."),
                str(entry),
            )
        if entry.is_symlink() and not homes.intersection(real_path(entry).parents):
            raise UserFixable(
                tr("{file} is a link out of the model's folder.").format(file=entry.name),
                tr("Put the file itself into the folder."),
                f"{entry} -> {real_path(entry)}",
            )


def own_files(path: Path) -> tuple[Path, ...]:
    """Return the files that are a model's own: what is copied, moved, checked and deleted.

    Raises:
        UserFixable: there is no model.
        OSError: the folder cannot be read.
    """
    file = chosen_file(path)
    if file is not None:
        return _of_gguf(file)
    if not (path / "config.json").is_file():
        raise UserFixable(
            tr("There is no model in {folder}.").format(folder=path.name),
            tr("Choose a GGUF file, or the folder that holds config.json and the weights."),
            str(path),
        )
    entries = sorted(path.iterdir())
    return tuple(each for each in entries if _OF_MODELS.fullmatch(each.name) and each.is_file())


def real_path(path: Path) -> Path:
    """Return where a link leads; the path itself where that cannot be told."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def size_of(files: tuple[Path, ...]) -> int:
    """Return the bytes of all files."""
    return sum(file.stat().st_size for file in files)


def _of_gguf(file: Path) -> tuple[Path, ...]:
    """Return all parts, the note about name and draft, and the user's own chat template."""
    parts = _parts(file)
    beside = [parts[0].with_suffix(ending) for ending in (f".{SIDECAR}", TEMPLATE)]
    return tuple(each for each in (*parts, *beside) if each.is_file())


@dataclass(frozen=True, slots=True)
class FilesState:
    """A model's files at one moment, to tell later whether any has changed.

    Attributes:
        path: a folder or a single file.
        files: name, bytes and time of last change (ns) of each.
    """

    path: Path
    files: frozenset[tuple[str, int, int]]

    @classmethod
    def of(cls, path: Path) -> FilesState:
        """Return the present state of a folder's files, or of a single one.

        Raises:
            OSError: they cannot be looked at.
        """
        return cls.of_files(path, path.iterdir() if path.is_dir() else [path])

    @classmethod
    def of_files(cls, path: Path, files: Iterable[Path]) -> FilesState:
        """Return the present state of some files of a model.

        Raises:
            OSError: they cannot be looked at.
        """
        stats = {file.name: file.stat() for file in files}
        return cls(
            path,
            frozenset((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()),
        )
