"""Offers PyTorch where it is needed and not here, and shows its download with a way to cancel."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from PySide6.QtCore import QCoreApplication, QObject, Qt
from PySide6.QtWidgets import QProgressBar, QProgressDialog, QWidget

from app.engine_link.background import in_background
from app.notices import Notice, report, tell
from app.signals import TypedSignal
from engine.errors import Cancelled, UserFixable
from engine.events import Failed
from engine.hub.pytorch_download import download_pytorch
from engine.language import tr
from engine.language.units import file_size
from engine.pytorch import DOWNLOAD_BYTES

_STEPS, _WIDTH = 1000, 380


def offer_pytorch(event: Failed, window: QWidget, then: Callable[[], None]) -> Notice:
    """Report what needs PyTorch, with a button that downloads it.

    Args:
        event: the failure.
        window: lies below the progress.
        then: called when PyTorch is here.
    """
    words = tr("It is a download of about {size}, once.").format(size=file_size(DOWNLOAD_BYTES))
    problem = UserFixable(event.cause, words, event.details)
    button = tr("Download PyTorch"), lambda: PyTorchDownload(window, then).start()
    return report(problem, button)


class PyTorchDownload(QObject):
    """The download, in a thread of its own, with a small window until it has ended.

    Args:
        window: belongs below it.
        then: called when PyTorch is here.
    """

    progressed = TypedSignal[str, float]()

    def __init__(self, window: QWidget, then: Callable[[], None]) -> None:
        super().__init__(window)
        self._then, self._window = then, window
        self._stop = Event()
        self.dialog = QProgressDialog("", tr("Cancel"), 0, _STEPS, window, minimumDuration=0)
        self.dialog.setWindowTitle("Duotail")
        self.dialog.setMinimumWidth(_WIDTH)
        self.dialog.setBar(QProgressBar(self.dialog, textVisible=False))
        self.dialog.setWindowModality(Qt.WindowModality.WindowModal)
        self.dialog.setAutoReset(False)
        self.dialog.setAutoClose(False)
        self.dialog.canceled.connect(self._stop.set)
        self.progressed.connect(self._show)
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self._stop.set)

    def start(self) -> None:
        """Begin."""
        self._show(tr("Looking for PyTorch"), 0.0)
        in_background(self, self._fetch, self._done, self._failed)

    def _fetch(self) -> None:
        download_pytorch(self.progressed.emit, self._stop.is_set)

    def _show(self, stage: str, fraction: float) -> None:
        if self._stop.is_set():
            return
        whole = fraction >= 1.0
        self.dialog.setLabelText(tr("Installing PyTorch") if whole else stage)
        self.dialog.setRange(0, 0 if whole else _STEPS)  # busy: pip does not tell
        self.dialog.setValue(round(fraction * _STEPS))

    def _done(self, _: None) -> None:
        self._close()
        tell(tr("PyTorch is installed."))
        self._then()

    def _failed(self, error: Exception) -> None:
        self._close()
        if isinstance(error, Cancelled):
            return
        if not isinstance(error, UserFixable):
            raise error
        window, then = self._window, self._then
        report(error, (tr("Try again"), lambda: PyTorchDownload(window, then).start()))

    def _close(self) -> None:
        self.dialog.close()
        self.dialog.deleteLater()
        self.deleteLater()
