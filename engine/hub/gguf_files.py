"""Which GGUF file is meant by a path, and what its model is called."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from engine.errors import UserFixable
from engine.language import listed, tr
from engine.model.gguf.file import GgufFile, part_names
from engine.model.weights.safetensors_folder import INDEX_FILE, SINGLE_FILE

_MAGIC = b"GGUF"
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip
"""llama.cpp's numbers for the mixtures of types that it makes (see NOTICE)."""
_PICTURES = "mmproj"
"""What a file that only sees pictures is called, beside the model that it belongs to."""
_LISTED = 5
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


def _bytes(file: Path) -> int:
    parts = [file.with_name(name) for name in part_names(file)] or [file]
    return sum(part.stat().st_size for part in parts if part.exists())


def chosen_file(path: Path) -> Path | None:
    """The GGUF file that a path stands for; None for a folder that holds something else.

    Raises:
        SeveralModels: it is a folder with more than one.
        UserFixable: there is nothing there, or a file of another kind.
    """
    if path.is_dir():
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
    """The models in GGUF that lie in a folder, by name; a split one by its first part."""
    files = [file for file in folder.iterdir() if file.suffix.lower() == ".gguf"]
    firsts = {file.with_name(part_names(file)[0]) if part_names(file) else file for file in files}
    return tuple(sorted(file for file in firsts if not _is_a_part(file.name.lower())))


def _is_a_part(name: str) -> bool:
    """Whether a file is no model without those beside it."""
    return name.startswith(_PICTURES) or name == PACKED


def is_gguf(path: Path) -> bool:
    """Whether this is a file in GGUF, by its name or, under any other name, by how it begins."""
    if not path.is_file():
        return False
    if path.suffix.lower() == ".gguf":
        return True
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def model_name(file: GgufFile) -> str:
    """What the file calls its model, or the file's own name."""
    first = file.files[0]
    given = (file.metadata.text("general.name") or "").strip()
    stem = first.stem.removesuffix(f"-00001-of-{len(file.files):05}")
    return (given if given.isprintable() and given else stem)[:200]


def format_words(file: GgufFile) -> str:
    """The types of its weights in a word: what llama.cpp calls the mixture, or the commonest."""
    number = file.metadata.integer("general.file_type", 0, 1 << 31, default=1 << 31)
    if number in _FILE_TYPES:
        return _FILE_TYPES[number]
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        sizes[tensor.kind] += tensor.nbytes
    return sizes.most_common(1)[0][0] if sizes else "F32"


def _not_a_model(path: Path) -> UserFixable:
    """The most helpful thing to say about a path that holds no model."""
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
