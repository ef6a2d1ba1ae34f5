"""Choosing a model on this disk: in a dialog, among several in a folder, or by dragging it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QListWidget, QListWidgetItem, QWidget

from app.session.attachments import holds_weights
from app.signals import TypedSignal
from app.theme.theme import ui_font
from app.widgets.boxes import vbox
from app.widgets.file_dialog import ask_for_path, gguf_filters
from app.widgets.labels import plain_label
from engine.language import tr
from engine.language.units import file_size

_WEIGHTS = (".gguf", ".safetensors")
_WIDTH, _HEIGHT = 44, 28
"""Width and height of the dialog, in sizes of running text."""


class FileChooser(QDialog):
    """The models of a folder with their bytes; Return or a double click opens one."""

    chosen = TypedSignal[Path]()

    def __init__(self, files: Sequence[tuple[Path, int]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Choose a model"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.list = QListWidget(self)
        self.list.setAccessibleName(tr("Models in this folder"))
        for file, nbytes in files:
            item = QListWidgetItem(f"{file.name}  \N{MIDDLE DOT}  {file_size(nbytes)}")
            item.setData(Qt.ItemDataRole.UserRole, file)
            item.setToolTip(str(file))
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        self.list.itemDoubleClicked.connect(lambda _item: self.accept())
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.open_button = buttons.addButton(tr("Load"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.open_button.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        heading = tr("This folder contains several models. Which one do you want to load?")
        vbox(plain_label(heading, self), (self.list, 1), buttons, to=self, spacing=12)
        unit = ui_font().pointSizeF()
        self.resize(round(_WIDTH * unit), round(_HEIGHT * unit))
        self.list.setFocus()

    def accept(self) -> None:
        """Hand on what is chosen."""
        item = self.list.currentItem()
        if item is not None:
            self.chosen.emit(item.data(Qt.ItemDataRole.UserRole))
        super().accept()


def ask_for_model(
    parent: QWidget, chosen: Callable[[Path], None], *, folder: bool, start: Path | None = None
) -> None:
    """Let the user choose a GGUF file, or a folder with a model; see `ask_for_path`."""
    title = tr("Open a model folder") if folder else tr("Open a model file")
    ask_for_path(
        parent, title, chosen, folder=folder, start=start, filters=gguf_filters(), kind="models"
    )


def dropped_model(dragged: QMimeData) -> Path | None:
    """The folder or file that is being dragged, if a model can be in it.

    A file of weights in safetensors stands for its folder, where config and words are.
    """
    paths = [Path(url.toLocalFile()) for url in dragged.urls() if url.isLocalFile()]
    if len(paths) != 1:
        return None
    path = paths[0]
    if path.is_dir():  # any other one holds files to attach
        return path if holds_weights(path) else None
    if path.suffix.lower() not in _WEIGHTS:
        return None
    return path.parent if path.suffix.lower() == ".safetensors" else path
