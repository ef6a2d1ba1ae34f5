"""Dialogs for files that begin where the user keeps things, not where the program lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QDir, QStandardPaths, Qt
from PySide6.QtWidgets import QFileDialog, QWidget

from engine.language import tr


@dataclass(frozen=True, slots=True)
class FolderMemory:
    """The folder in which dialogs of a kind begin, and a use for the one they were left in."""

    read: Callable[[str], Path | None]
    keep: Callable[[str, Path], None]


memory = FolderMemory(lambda _kind: None, lambda _kind, _folder: None)
"""Set once there are settings."""


def file_dialog(
    parent: QWidget, title: str, folder: Path | None = None, *, kind: str = "files"
) -> QFileDialog:
    """Return a dialog; it begins in the first of these folders that is there.

    The one that the last dialog of its `kind` was left in; `folder`; the one used last; the
    user's documents.
    """
    dialog = QFileDialog(parent, title)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    known = (each for each in (memory.read(kind), folder) if each is not None and each.is_dir())
    if (begin := next(known, None)) is not None:
        dialog.setDirectory(str(begin))
    elif dialog.directory() == QDir.current():  # Qt knows of no folder that was used before
        places = QStandardPaths.StandardLocation.DocumentsLocation
        documents = Path(QStandardPaths.writableLocation(places))
        dialog.setDirectory(str(documents if documents.is_dir() else Path.home()))
    dialog.accepted.connect(lambda: memory.keep(kind, Path(dialog.directory().absolutePath())))
    return dialog


def ask_for_path(
    parent: QWidget,
    title: str,
    chosen: Callable[[Path], object],
    *,
    folder: bool,
    start: Path | None = None,
    filters: Sequence[str] = (),
    kind: str = "files",
) -> None:
    """Let the user choose a file that there is, or a folder.

    Args:
        parent: the window.
        title: of the dialog.
        chosen: called with the path.
        folder: ask for a folder.
        start: the folder to begin in; None: the one that was used last.
        filters: kinds of files, as Qt writes them.
        kind: what the path is for; dialogs for the same begin where the last one was left.
    """
    dialog = file_dialog(parent, title, start, kind=kind)
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
    dialog.setNameFilters(filters or [tr("All files (*)")])
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
    dialog = file_dialog(parent, title, kind="saved")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilter(kind)
    dialog.setDefaultSuffix(Path(name).suffix[1:])
    dialog.selectFile(name)
    dialog.fileSelected.connect(lambda path: chosen(Path(path)))
    dialog.open()
