"""The trash dialog: restore what was deleted in the last 30 days, or empty the trash."""

from __future__ import annotations

from PySide6.QtCore import QDateTime, QLocale, Qt
from PySide6.QtWidgets import QDialog, QListWidget, QListWidgetItem, QWidget

from app.history import UndoToken
from app.history.trash import Trash, TrashItem
from app.notices import report
from app.signals import TypedSignal
from app.theme.theme import ui_font
from app.widgets.boxes import hbox, vbox
from app.widgets.confirm import confirm
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.errors import UserFixable
from engine.language import sentences, tr, tr_count


class TrashDialog(QDialog):
    """A list of deletions, the latest first, each of which can be undone; Enter restores one."""

    restore_asked = TypedSignal[UndoToken]()

    def __init__(self, trash: Trash, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._trash = trash
        self.setWindowTitle(tr("Trash"))
        self.about = plain_label("", self, "muted")
        self.list = QListWidget(self)
        self.list.setAccessibleName(tr("Deleted conversations and messages"))
        self.list.setWordWrap(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.restore_button = text_button(tr("Restore"), self, self._restore)
        self.empty_button = text_button(tr("Empty the trash"), self, self._ask_to_empty)
        self.close_button = text_button(tr("Close"), self, self.reject)
        vbox(
            self.about,
            (self.list, 1),
            hbox(self.restore_button, self.empty_button, 1, self.close_button, spacing=8),
            to=self,
            spacing=12,
            margins=(20, 18, 20, 16),
        )
        em = ui_font().pointSizeF()
        self.resize(min(700, round(56 * em)), min(560, round(38 * em)))
        self.list.itemActivated.connect(self._restore)
        self.fill()

    def fill(self) -> None:
        """Show what lies there now."""
        try:
            items = self._trash.items()
        except UserFixable as error:
            report(error)
            items = []
        row = self.list.currentRow()
        self.list.clear()
        for item in items:
            shown = QListWidgetItem(_words(item))
            shown.setData(Qt.ItemDataRole.UserRole, item)
            self.list.addItem(shown)
        self.list.setCurrentRow(min(max(row, 0), len(items) - 1))
        empty = tr("The trash is empty.")
        kept = tr("Deleted conversations and messages stay here for 30 days.")
        self.about.setText(kept if items else sentences(empty, kept))
        self.restore_button.setEnabled(bool(items))
        self.empty_button.setEnabled(bool(items))
        if not items:  # nothing else can show that it has the keyboard
            self.close_button.setFocus()

    def _restore(self) -> None:
        item: TrashItem = self.list.currentItem().data(Qt.ItemDataRole.UserRole)
        self.restore_asked.emit(item.token)
        self.fill()

    def _ask_to_empty(self) -> None:
        what = tr("Its contents are erased from the disk when Duotail closes.")
        confirm(self, tr("Empty the trash?"), what, tr("Empty"), self._empty)

    def _empty(self) -> None:
        try:
            self._trash.empty()
        except UserFixable as error:
            report(error)
        self.fill()


def _words(item: TrashItem) -> str:
    deleted = QDateTime.fromSecsSinceEpoch(int(item.deleted_at))
    when = QLocale().toString(deleted, QLocale.FormatType.ShortFormat)
    title = " ".join(item.title.split()) or tr("New chat")
    if len(title) > 80:
        title = title[:79] + "\u2026"
    about = [tr("Conversation") if item.token.message_id is None else tr("Message")]
    if item.messages > 1:
        about.append(tr_count("{n} message", "{n} messages", item.messages))
    return f"{title}\n" + " \u00b7 ".join([*about, when])
