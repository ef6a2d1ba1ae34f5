"""Dialogs for files that begin where the user keeps things, not where the program lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QDir, QStandardPaths, Qt
from PySide6.QtWidgets import QFileDialog, QWidget

from engine.language import tr


def file_dialog(parent: QWidget, title: str, folder: Path | None = None) -> QFileDialog:
    """Return a dialog in `folder`, else in the one used last, at first in the user's documents."""
    dialog = QFileDialog(parent, title)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if folder is not None and folder.is_dir():
        dialog.setDirectory(str(folder))
    elif dialog.directory() == QDir.current():  # Qt knows of no folder that was used before
        places = QStandardPaths.StandardLocation.DocumentsLocation
        documents = Path(QStandardPaths.writableLocation(places))
        dialog.setDirectory(str(documents if documents.is_dir() else Path.home()))
    return dialog


def ask_for_path(
    parent: QWidget,
    title: str,
    chosen: Callable[[Path], object],
    *,
    folder: bool,
    start: Path | None = None,
    filters: Sequence[str] = (),
) -> None:
    """Let the user choose a file that there is, or a folder.

    Args:
        parent: the window.
        title: of the dialog.
        chosen: called with the path.
        folder: ask for a folder.
        start: the folder to begin in; None: the one that was used last.
        filters: kinds of files, as Qt writes them.
    """
    dialog = file_dialog(parent, title, start)
    if folder:
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    else:
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilters(filters)
    dialog.fileSelected.connect(lambda name: chosen(Path(name)))
    dialog.open()


def gguf_filters() -> list[str]:
    """Return the kinds of files to choose weights from."""
    return [tr("Models in GGUF format (*.gguf)"), tr("All files (*)")]


def ask_for_files(
    parent: QWidget,
    title: str,
    chosen: Callable[[list[Path]], object],
    filters: Sequence[str] = (),
) -> None:
    """Let the user choose several files; see `ask_for_path`."""
    dialog = file_dialog(parent, title)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    dialog.setNameFilters(filters)
    dialog.filesSelected.connect(lambda names: chosen([Path(name) for name in names]))
    dialog.open()


def ask_where_to_save(
    parent: QWidget, title: str, chosen: Callable[[Path], object], name: str, kind: str
) -> None:
    """Let the user choose where a file goes.

    Args:
        parent: the window.
        title: of the dialog.
        chosen: called with the path.
        name: proposed for the file; its suffix is added to a name without one.
        kind: the kind of file, as Qt writes filters.
    """
    dialog = file_dialog(parent, title)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilter(kind)
    dialog.setDefaultSuffix(Path(name).suffix[1:])
    dialog.selectFile(name)
    dialog.fileSelected.connect(lambda path: chosen(Path(path)))
    dialog.open()
