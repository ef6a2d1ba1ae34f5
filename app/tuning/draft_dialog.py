"""Asks the user for a draft: a folder or a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QWidget

from app.engine_link.running import Running
from app.widgets.file_dialog import ask_for_path, gguf_filters
from engine.language import tr


def ask_for_draft(
    parent: QWidget, running: Running, chosen: Callable[[Path], object], *, folder: bool
) -> None:
    """Let the user choose a folder with a head or a model, or a GGUF file with a model."""
    title = tr("Open a draft folder") if folder else tr("Open a draft file")
    start = running.drafts[0].parent if running.drafts else None
    window, filters = parent.window(), gguf_filters()
    ask_for_path(window, title, chosen, folder=folder, start=start, filters=filters, kind="models")
