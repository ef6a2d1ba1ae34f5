"""Dialogs for files that begin where the user keeps things, not where the program lies."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QDir, QStandardPaths
from PySide6.QtWidgets import QFileDialog, QWidget


def file_dialog(parent: QWidget, title: str, folder: Path | None = None) -> QFileDialog:
    """Return a dialog in `folder`, else in the one used last, at first in the user's documents."""
    dialog = QFileDialog(parent, title)
    if folder is not None and folder.is_dir():
        dialog.setDirectory(str(folder))
    elif dialog.directory() == QDir.current():  # Qt knows of no folder that was used before
        places = QStandardPaths.StandardLocation.DocumentsLocation
        documents = Path(QStandardPaths.writableLocation(places))
        dialog.setDirectory(str(documents if documents.is_dir() else Path.home()))
    return dialog
