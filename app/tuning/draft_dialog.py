"""Asks the user for a draft: a folder or a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from app.engine_link.running import Running
from app.widgets.file_dialog import file_dialog
from engine.language import tr

AskDraft = Callable[[QWidget, Running, Callable[[Path], None]], None]


def ask_draft_folder(parent: QWidget, running: Running, chosen: Callable[[Path], None]) -> None:
    """Let the user choose a folder with a draft: a head, or a model."""
    _ask(parent, running, chosen, tr("Open a draft folder"), QFileDialog.FileMode.Directory)


def ask_draft_file(parent: QWidget, running: Running, chosen: Callable[[Path], None]) -> None:
    """Let the user choose a draft model in a GGUF file."""
    kinds = [tr("Models in GGUF format (*.gguf)"), tr("All files (*)")]
    title, mode = tr("Open a draft file"), QFileDialog.FileMode.ExistingFile
    _ask(parent, running, chosen, title, mode, kinds)


def _ask(
    parent: QWidget,
    running: Running,
    chosen: Callable[[Path], None],
    title: str,
    mode: QFileDialog.FileMode,
    kinds: list[str] | None = None,
) -> None:
    known = running.drafts
    dialog = file_dialog(parent.window(), title, known[0].parent if known else None)
    dialog.setFileMode(mode)
    if kinds:
        dialog.setNameFilters(kinds)
    dialog.fileSelected.connect(lambda name: chosen(Path(name)))
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
