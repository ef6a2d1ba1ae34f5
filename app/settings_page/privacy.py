"""Data and privacy: what is kept where, what is sent and when, and how each of it is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtCore import QLocale, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QMessageBox, QPushButton, QWidget

from app.data_folder.exported_file import show_folder
from app.data_folder.paths import Paths
from app.data_folder.relocation import ask_to_move, delete_old, read_pointer
from app.diagnostics.reports import ReportFolder
from app.engine_link.background import in_background
from app.settings_page.reports_dialog import ReportsDialog
from app.settings_page.stored import Stored, StoredData, empty, everything, folder_size
from app.widgets.boxes import Spacing, vbox
from app.widgets.confirm import confirm
from app.widgets.file_dialog import ask_for_path
from app.widgets.labels import LabelledRow, plain_label
from app.widgets.text_button import text_button
from engine.errors import UserFixable
from engine.language import tr


class PlaceRow(LabelledRow):
    """One place: what is in it, where it is, how large it is, and buttons."""

    def __init__(self, label: str, about: str, path: Path, parent: QWidget) -> None:
        self.buttons = QWidget()
        super().__init__(label, about, self.buttons, parent)
        vbox(to=self.buttons, spacing=6, margins=0)
        self.path_label = plain_label(_breakable(path), self, "small")
        self.path_label.setToolTip(str(path))
        self.size_label = QLabel(self)
        self.size_label.setProperty("look", "small")
        self._texts.addSpacing(2)
        self._texts.addWidget(self.path_label)
        self._texts.addWidget(self.size_label)

    def add_button(
        self, text: str, call: Callable[[], object], *, danger: bool = False
    ) -> QPushButton:
        """Add one more button, under the others."""
        button = text_button(text, self.buttons, look="danger" if danger else "")
        button.clicked.connect(lambda _=False: call())
        button.setAccessibleName(f"{self.label.text()}: {text}")
        layout = self.buttons.layout()
        assert layout is not None  # noqa: S101 - told to the type checker
        layout.addWidget(button)
        return button

    def measure(self, size: Callable[[], int]) -> None:
        """Find out the size beside the window."""
        in_background(self, size, self._show_size, lambda _error: self.size_label.clear())

    def _show_size(self, size: int) -> None:
        self.size_label.setText(QLocale().formattedDataSize(size) if size else tr("Empty"))


class PrivacyPage(QWidget):
    """The page. Its rows can be searched with those of the settings."""

    delete_conversations_asked = Signal()
    """The user has confirmed that all conversations shall go."""
    reset_settings_asked = Signal()
    restart_asked = Signal(bool)
    forget_measured_asked = Signal()
    """The speeds of answers that are known in this run, too."""

    def __init__(self, paths: Paths, parent: QWidget | None = None, *, hub_cache: str = "") -> None:
        super().__init__(parent)
        self._paths, self._hub_cache = paths, hub_cache
        self._reports = ReportFolder(paths)
        self._layout = vbox(_promise(self), Spacing(8), to=self, spacing=0, margins=0)
        self.rows: list[LabelledRow] = []
        self.data_folder = self._data_folder()
        self.old_folder = self._old_folder()
        self.places: dict[StoredData, PlaceRow] = {}

    def fill(self) -> Iterator[None]:
        """Add the rows of all that is stored, one a step."""
        for each in self._everything():
            self.places[each.place] = self._place(each)
            yield

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Sizes are those of the moment."""
        super().showEvent(event)
        self.refresh()

    def refresh(self) -> None:
        """Find out all sizes anew."""
        self.data_folder.measure(lambda: folder_size(self._paths.data))
        for stored in self._everything():
            if stored.place in self.places:
                self.places[stored.place].measure(stored.size)

    def _everything(self) -> list[Stored]:
        return everything(self._paths, self._hub_cache)

    def _add(self, row: PlaceRow) -> PlaceRow:
        self.rows.append(row)
        self._layout.addWidget(row)
        return row

    def _data_folder(self) -> PlaceRow:
        about = tr("Conversations, log and crash reports are in this folder.")
        if self._paths.pointer is None:
            about += " " + tr("It was set on the command line or in the environment.")
        row = self._add(PlaceRow(tr("Data folder"), about, self._paths.data, self))
        row.add_button(tr("Open the folder"), lambda: show_folder(self._paths.data))
        move = row.add_button(tr("Move…"), self._move)
        move.setEnabled(self._paths.pointer is not None)
        return row

    def _old_folder(self) -> PlaceRow | None:
        pointer = self._paths.pointer
        old = read_pointer(pointer).old if pointer is not None else ""
        if not old:
            return None
        row = self._add(
            PlaceRow(
                tr("Previous data folder"),
                tr("Your data was moved from here. Delete this copy once everything works."),
                Path(old),
                self,
            )
        )
        row.add_button(tr("Open the folder"), lambda: show_folder(Path(old)))
        row.add_button(tr("Delete…"), self._confirm_old, danger=True)
        return row

    def _place(self, stored: Stored) -> PlaceRow:
        row = self._add(PlaceRow(tr(stored.label), tr(stored.about), stored.path, self))
        match stored.place:
            case StoredData.CONVERSATIONS:
                row.add_button(tr("Delete all…"), self._confirm_conversations, danger=True)
            case StoredData.SETTINGS:
                row.add_button(tr("Reset all…"), self._confirm_settings, danger=True)
            case StoredData.REPORTS:
                row.add_button(tr("Show…"), self.show_reports)
            case StoredData.MODELS | StoredData.CACHE:
                row.add_button(tr("Open the folder"), lambda: show_folder(stored.path))
            case _:
                row.add_button(tr("Delete"), lambda: self._empty(stored))
        return row

    def _empty(self, stored: Stored) -> None:
        row = self.places[stored.place]
        if stored.place is StoredData.MEASURED:
            self.forget_measured_asked.emit()
        in_background(
            self,
            lambda: empty(stored, self._paths),
            lambda _none: row.measure(stored.size),
            self._tell_error,
        )

    def _confirm_conversations(self) -> None:
        confirm(
            self,
            tr("Delete all conversations?"),
            tr("They are erased from the disk when Duotail closes. Settings and models are kept."),
            tr("Delete all"),
            self.delete_conversations_asked.emit,
        )

    def _confirm_settings(self) -> None:
        confirm(
            self,
            tr("Reset all settings?"),
            tr("Your own presets are deleted, too. Conversations are kept."),
            tr("Reset all"),
            self.reset_settings_asked.emit,
        )

    def _confirm_old(self) -> None:
        confirm(
            self,
            tr("Delete the data in the previous folder?"),
            tr("The data in use is in {folder} and is kept.").format(folder=self._paths.data),
            tr("Delete"),
            self._delete_old,
        )

    def _delete_old(self) -> None:
        if self._paths.pointer is None or self.old_folder is None:
            return
        pointer, row = self._paths.pointer, self.old_folder
        in_background(
            self, lambda: delete_old(pointer), lambda _none: self._forget(row), self._tell_error
        )

    def _forget(self, row: PlaceRow) -> None:
        self.rows.remove(row)
        row.hide()
        row.deleteLater()
        self.old_folder = None
        self.data_folder.measure(lambda: folder_size(self._paths.data))

    def _move(self) -> None:
        title = tr("Choose an empty folder for Duotail's data")
        ask_for_path(self, title, self.move_to, folder=True)

    def move_to(self, target: Path) -> None:
        """Have the data moved at the next start, which is offered at once."""
        pointer, data = self._paths.pointer, self._paths.data
        if pointer is not None:
            in_background(
                self,
                lambda: ask_to_move(pointer, data, target),
                lambda _none: self._offer_restart(target),
                self._tell_error,
            )

    def _offer_restart(self, target: Path) -> None:
        box = QMessageBox(self)
        box.setWindowTitle("Duotail")
        box.setText(tr("Your data will be moved at the next start."))
        box.setInformativeText(
            tr(
                "It is copied to {folder} and verified first. The current folder is kept until "
                "you delete it."
            ).format(folder=target)
        )
        now = box.addButton(tr("Restart now"), QMessageBox.ButtonRole.AcceptRole)
        box.addButton(tr("Later"), QMessageBox.ButtonRole.RejectRole)
        now.clicked.connect(lambda: self.restart_asked.emit(False))
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()

    def show_reports(self) -> None:
        """Open the list of crash reports."""
        dialog = ReportsDialog(self._reports, self.window())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.restart_asked.connect(self.restart_asked)
        dialog.changed.connect(self.refresh)
        dialog.open()

    def _tell_error(self, error: Exception) -> None:
        problem = error
        if not isinstance(problem, UserFixable):
            problem = UserFixable(
                tr("Not everything could be deleted."),
                tr("Close Duotail and delete the files in their folder."),
                str(error),
            )
        box = QMessageBox(QMessageBox.Icon.Warning, "Duotail", problem.cause, parent=self)
        box.setInformativeText(problem.remedy)
        box.setDetailedText(problem.details)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()


def _promise(parent: QWidget) -> QFrame:
    """Return the notice on what is sent: nothing unless the user searches, downloads or serves."""
    card = QFrame(parent)
    card.setProperty("look", "notice")
    text = plain_label(
        tr(
            "Everything you write stays on this computer, and answers are computed here, unless "
            "you choose a model on a server that you have added: then the conversation is sent "
            "there, and the badge above it names the server. Duotail sends no statistics or "
            "crash reports, and looks for new versions only when you ask or allow it (General)."
        ),
        card,
    )
    hub = plain_label(
        tr(
            "Besides, only the Models page uses the network, when you search for models or "
            "download one. The model hub (huggingface.co, or the address in the settings) then "
            "sees your search words, the models you choose, your IP address and, if you entered "
            "one, your access token; nothing else. The token is stored in your system's "
            "keyring."
        ),
        card,
    )
    server = plain_label(
        tr(
            "The server for other programs is off until you switch it on. It keeps nothing of "
            "what is asked or answered."
        ),
        card,
    )
    vbox(text, hub, server, to=card, spacing=8, margins=(14, 12, 14, 12))
    return card


def _breakable(path: Path) -> str:
    """The path with places where a line may end: folders' names have none of their own."""
    return str(path).replace("/", "/\u200b").replace("\\", "\\\u200b")
