"""Models that are dragged onto the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData

_WEIGHTS = (".gguf", ".safetensors")


def dropped_model(dragged: QMimeData) -> Path | None:
    """The folder or file that is being dragged, if a model can be in it.

    A file of weights in safetensors stands for its folder, where config and words are.
    """
    paths = [Path(url.toLocalFile()) for url in dragged.urls() if url.isLocalFile()]
    if len(paths) != 1:
        return None
    path = paths[0]
    if path.is_dir():
        return path
    if path.suffix.lower() not in _WEIGHTS:
        return None
    return path.parent if path.suffix.lower() == ".safetensors" else path
