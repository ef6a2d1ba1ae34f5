"""Models that are dragged onto the page."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtGui import QDropEvent

_WEIGHTS = (".gguf", ".safetensors")


def dropped_model(event: QDropEvent) -> Path | None:
    """The folder or file that is being dragged, if a model can be in it.

    A file of weights in safetensors stands for its folder, where config and words are.
    """
    urls = event.mimeData().urls()
    paths = [Path(url.toLocalFile()) for url in urls if url.isLocalFile()]
    if len(paths) != 1:
        return None
    path = paths[0]
    if path.is_dir():
        return path
    if path.suffix.lower() not in _WEIGHTS:
        return None
    return path.parent if path.suffix.lower() == ".safetensors" else path
