"""Moves the data folder at a start, with a small window when it takes a while."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from PySide6.QtCore import QEventLoop, QLockFile, QObject, Qt, Signal
from PySide6.QtWidgets import QProgressDialog

from app.data_folder.paths import Paths
from app.data_folder.relocation import carry_out, read_pointer
from app.engine_link.background import in_background
from engine.errors import UserFixable
from engine.language import tr

_SHOW_AFTER_MS = 400


class _Progress(QObject):
    arrived = Signal(int)
    """Thousandths of all bytes."""


def settle_data(paths: Paths) -> tuple[Paths, UserFixable | None]:
    """The paths to use in this run, and what to tell about the data folder.

    A move that was asked for is carried out. A folder that is not there, such as one on a drive
    that is not connected, is not made anew: an empty history would look like a lost one.
    """
    if paths.pointer is None:
        return paths, None
    pointer = read_pointer(paths.pointer)
    if pointer.folder and not paths.data.is_dir():
        return replace(paths, data=Path(mkdtemp(prefix="duotail-")), pointer=None), UserFixable(
            tr("The data folder {folder} is not there.").format(folder=paths.data),
            tr("Connect its drive and start Duotail again. Until then, nothing is saved."),
        )
    if not pointer.wanted:
        return paths, None
    paths.data.mkdir(parents=True, exist_ok=True)
    lock = QLockFile(str(paths.lock))
    if not lock.tryLock(100):
        return paths, None  # another window works with these data
    try:
        return _moved(paths, paths.pointer), None
    except UserFixable as error:
        return paths, error
    finally:
        lock.unlock()


def _moved(paths: Paths, pointer: Path) -> Paths:
    dialog = QProgressDialog(tr("Moving your data…"), "", 0, 1000, minimumDuration=_SHOW_AFTER_MS)
    dialog.setCancelButton(None)
    dialog.setWindowModality(Qt.WindowModality.ApplicationModal)
    dialog.setAutoClose(False)
    progress = _Progress()
    progress.arrived.connect(dialog.setValue)
    loop = QEventLoop()
    moved: list[Path] = []
    failed: list[Exception] = []

    def copy() -> Path:
        return carry_out(
            pointer,
            paths.data,
            lambda done, total: progress.arrived.emit(done * 1000 // max(total, 1)),
        )

    def keep(folder: Path) -> None:
        moved.append(folder)
        loop.quit()

    def fail(error: Exception) -> None:
        failed.append(error)
        loop.quit()

    in_background(progress, copy, keep, fail, long=True)
    loop.exec()
    dialog.close()
    dialog.deleteLater()
    if failed:
        raise failed[0]
    return replace(paths, data=moved[0])
