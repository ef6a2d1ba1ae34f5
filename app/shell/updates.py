"""Newer versions: looked for when the user asks, or once a day where that is allowed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

from PySide6.QtCore import QObject, QStandardPaths, Qt
from PySide6.QtWidgets import QDialog, QLabel, QProgressBar, QTextBrowser, QWidget

from app.data_folder.exported_file import show_folder
from app.engine_link.background import in_background
from app.notices import offer, report_failure, tell
from app.settings import SettingsStore
from app.signals import TypedSignal
from app.theme.tokens import GAP
from app.version import version
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import LabelledRow, plain_label, say
from app.widgets.text_button import text_button
from engine.errors import Cancelled, UserFixable
from engine.hub.remote.addresses import RELEASES
from engine.language import sentences, tr
from engine.language.units import file_size
from engine.updates import Release, fetch, newer

_DAY_S = 24 * 3600
_WIDTH, _HEIGHT = 600, 480


class Updates(QObject):
    """Asks for newer versions, and shows what they bring."""

    def __init__(self, settings: SettingsStore, window: QWidget) -> None:
        super().__init__(window)
        self._settings, self._window = settings, window

    def row(self, parent: QWidget) -> LabelledRow:
        """Return a row for the settings: this version, and a button to look for another one."""
        button = text_button(tr("Check now"), parent, self.ask)
        return LabelledRow(tr("Version"), f"Duotail {version()}", button, parent)

    def ask(self) -> None:
        """Look, and tell whatever comes of it."""
        self._look(self._told, report_failure)

    def ask_if_allowed(self) -> None:
        """Look once a day where the settings allow it; only a newer version is told of."""
        settings, now = self._settings.value, int(time.time())
        if settings.look_for_updates and abs(now - settings.updates_looked) >= _DAY_S:
            self._settings.change(updates_looked=now)
            self._look(self._offer, lambda _error: None)

    def _look(
        self, done: Callable[[Release | None], None], failed: Callable[[Exception], None]
    ) -> None:
        address = self._settings.value.updates_address or RELEASES
        in_background(self, lambda: newer(address, version()), done, failed)

    def _told(self, release: Release | None) -> None:
        if release is not None:
            self._show(release)
        else:
            tell(tr("Duotail {version} is the newest version.").format(version=version()))

    def _offer(self, release: Release | None) -> None:
        if release is not None:
            words = tr("Duotail {version} is available.").format(version=release.version)
            show = tr("Show what is new"), lambda: self._show(release)
            offer(words, choices=(show, (tr("Later"), lambda: None)))

    def _show(self, release: Release) -> None:
        dialog = UpdateDialog(release, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()


class UpdateDialog(QDialog):
    """The changes of a newer version, and its file, downloaded on a click and never run.

    Args:
        release: the version.
        parent: lies below it.
        folder: where the file goes; None: the user's folder of downloads.
    """

    came = TypedSignal[int]()
    """Bytes that are here."""

    def __init__(
        self, release: Release, parent: QWidget | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(parent)
        self._folder = folder or _downloads()
        self._stop = Event()
        self.file, self.path = release.file(ending()), self._folder
        self.setWindowTitle(tr("New version"))
        words = tr("Duotail {version} is available.").format(version=release.version)
        title = plain_label(words, self, "heading")
        present = tr("You have {version}.").format(version=version())
        self.changes = QTextBrowser(self, openLinks=False)
        self.changes.setProperty("look", "reading")
        self.changes.setMarkdown(release.changes or tr("Its changes are not listed."))
        self.changes.setAccessibleName(tr("Changes"))
        self.how: QLabel = plain_label(self._how(), self, "muted")
        self.how.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.trouble = plain_label("", self, "danger")
        self.bar = QProgressBar(self, textVisible=False)
        self.bar.setAccessibleName(tr("Progress of the download"))
        size = file_size(self.file.nbytes) if self.file else ""
        load = tr("Download ({size})").format(size=size)
        self.fetch_button = text_button(load, self, self._fetch, look="primary")
        self.show_button = text_button(tr("Show in folder"), self, self._show_file)
        self.close_button = text_button(tr("Close"), self, self.reject)
        for hidden in (self.trouble, self.bar, self.show_button):
            hidden.hide()
        self.fetch_button.setVisible(self.file is not None)
        buttons = hbox(1, self.show_button, self.fetch_button, self.close_button, spacing=8)
        vbox(
            *(title, plain_label(present, self, "muted"), (self.changes, 1)),
            *(self.how, self.trouble, self.bar, buttons),
            to=self,
            spacing=GAP,
            margins=(24, 20, 24, 20),
        )
        self.resize(_WIDTH, _HEIGHT)
        self.came.connect(self.bar.setValue)
        self.finished.connect(lambda _result: self._stop.set())

    def _how(self) -> str:
        if self.file is not None:
            return tr(
                "The file is checked and put into {folder}. Nothing is installed: open it there "
                "when it suits you."
            ).format(folder=self._folder)
        words = tr("Install it the way this one was installed, as with “{command}”.")
        return words.format(command=_command())

    def _fetch(self) -> None:
        file = self.file
        if file is None:
            return
        say(self.trouble, "")
        self.fetch_button.setEnabled(False)
        self.bar.setRange(0, file.nbytes)
        self.bar.setValue(0)
        self.bar.show()
        self._stop.clear()
        call = partial(fetch, file, self._folder, self.came.emit, self._stop.is_set)
        in_background(self, call, self._done, self._failed, long=True)

    def _done(self, path: Path) -> None:
        self.path = path
        self.bar.hide()
        self.fetch_button.hide()
        self.show_button.show()
        self.show_button.setFocus()
        words = tr("{name} was downloaded, and it is the file that was published.")
        say(self.how, words.format(name=path.name))

    def _failed(self, error: Exception) -> None:
        self.bar.hide()
        self.fetch_button.setEnabled(True)
        if isinstance(error, Cancelled):
            return
        if not isinstance(error, UserFixable):
            raise error
        say(self.trouble, sentences(error.cause, error.remedy))

    def _show_file(self) -> None:
        show_folder(self.path)


def ending() -> str:
    """Return the end of the name of the file that brings this kind of installation; "" for none."""
    if os.environ.get("APPIMAGE"):
        return ".AppImage"
    prefix = Path(sys.prefix)
    if (prefix.parent / "uninstall.exe").exists():
        return "-setup.exe"
    if (prefix / "duotail").is_file():
        return ".deb" if prefix == Path("/usr/lib/duotail") else "-linux-x86_64.tar.xz"
    return ""


def _command() -> str:
    if "pipx" in Path(sys.prefix).parts:
        return "pipx upgrade duotail"
    return "uv tool upgrade duotail" if "uv" in Path(sys.prefix).parts else "pip install -U duotail"


def _downloads() -> Path:
    place = QStandardPaths.StandardLocation.DownloadLocation
    return Path(QStandardPaths.writableLocation(place))
