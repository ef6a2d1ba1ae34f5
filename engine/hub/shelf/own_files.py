"""Which files a model consists of: what is copied, moved, checked and deleted, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.gguf_files import PACKED, chosen_file
from engine.hub.local import SIDECAR
from engine.language import tr
from engine.model.gguf.file import part_names

_OF_MODELS = re.compile(
    r"config\.json|generation_config\.json|.*\.safetensors(\.index\.json)?|tokenizer.*|"
    r"vocab\.(json|txt)|merges\.txt|.*\.tiktoken|special_tokens_map\.json|added_tokens\.json|"
    r"chat_template.*|preprocessor_config\.json|(README|LICEN[SC]E|NOTICE|USE_POLICY).*|"
    + "|".join(map(re.escape, (SIDECAR, PACKED))),
    re.IGNORECASE,
)


def own_files(path: Path) -> tuple[Path, ...]:
    """The files of a model, in its folder or beside it; those of a split one all together.

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


def size_of(files: tuple[Path, ...]) -> int:
    """Bytes of them all."""
    return sum(file.stat().st_size for file in files)


def _of_gguf(file: Path) -> tuple[Path, ...]:
    """All parts, and the note about name and draft that belongs to this file alone."""
    parts = [file.with_name(name) for name in part_names(file)] or [file]
    note = parts[0].with_suffix(f".{SIDECAR}")
    return tuple(each for each in (*parts, note) if each.is_file())
