"""Actions on conversations and folders, one each for keys and menus alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from app.conversations.archive import ExportFormat
from app.conversations.transfer import Transfer
from app.conversations.view import ConversationView
from app.history import Conversation
from app.session.conversation_list import ConversationList
from app.theme.icons import icon
from app.theme.keys import key_words
from app.theme.theme import current
from engine.language import tr, tr_count


class ListActions(QObject):
    """The actions on what is chosen in the list, and the menus they are shown in."""

    trash_asked = Signal()

    def __init__(
        self, view: ConversationView, conversations: ConversationList, transfer: Transfer
    ) -> None:
        super().__init__(view)
        self._view = view
        self._list = conversations
        self._transfer = transfer
        self.rename = self._make(tr("Rename"), "pencil", "F2", view.rename_current)
        self.pin = self._make(tr("Pin"), "pin", "Ctrl+D", self._pin)
        self.move = self._make(
            tr("Move to folder\u2026"), "folder", "Ctrl+Shift+M", self._pop_up_move
        )
        self.export_text = self._make(
            tr("Export as Markdown\u2026"),
            "export",
            "Ctrl+E",
            lambda: self._export(ExportFormat.MARKDOWN),
        )
        self.export_json = self._make(
            tr("Export as JSON\u2026"),
            "export",
            "Ctrl+Shift+E",
            lambda: self._export(ExportFormat.JSON),
        )
        self.export_clean = self._make(
            tr("Export to read, as Markdown\u2026"), "export", "", self._export_clean
        )
        self.export_html = self._make(
            tr("Export as HTML\u2026"), "export", "", lambda: self._export(ExportFormat.HTML)
        )
        self.export_pdf = self._make(
            tr("Export as PDF\u2026"), "export", "", lambda: self._export(ExportFormat.PDF)
        )
        self.duplicate = self._make(tr("Duplicate"), "copy", "", self._duplicate)
        self.delete = self._make(tr("Delete"), "trash", "Del", self._delete)
        self._make_general()
        view.menu_asked.connect(self.pop_up)
        self.recolour()

    def _make_general(self) -> None:
        """Make the actions that are not about what is chosen."""
        self.new_folder = self._make(
            tr("New folder"), "folder-plus", "Ctrl+Shift+N", self.make_folder
        )
        self.import_file = self._make(
            tr("Import conversations\u2026"), "import", "Ctrl+I", self._transfer.choose_import
        )
        self.export_all_text = self._make(
            tr("Export all as Markdown\u2026"),
            "export",
            "",
            lambda: self._transfer.choose_export(self._list.newest_first(), ExportFormat.MARKDOWN),
        )
        self.export_all_json = self._make(
            tr("Export all as JSON\u2026"),
            "export",
            "",
            lambda: self._transfer.choose_export(self._list.newest_first(), ExportFormat.JSON),
        )
        self.trash = self._make(tr("Trash\u2026"), "trash", "", self.trash_asked.emit)
        self.general = (
            self.new_folder,
            self.import_file,
            self.export_all_text,
            self.export_all_json,
            self.trash,
        )

    def _make(self, text: str, icon_name: str, keys: str, call: Callable[[], object]) -> QAction:
        action = QAction(text, self)
        action.setProperty("icon_name", icon_name)
        if keys:
            action.setShortcut(QKeySequence(keys))
        # Only while the list has the keyboard: Delete means something else in a text.
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.setShortcutVisibleInContextMenu(True)
        action.triggered.connect(lambda _=False: call())
        self._view.addAction(action)
        return action

    # -- menus -----------------------------------------------------------------------------

    def pop_up(self, place: QPoint) -> None:
        """The menu for what is chosen, or for the list as a whole."""
        chosen, folder = self._view.chosen(), self._view.chosen_folder()
        if chosen:
            menu = self._conversation_menu(chosen)
        elif folder is not None:
            self.rename.setText(tr("Rename folder"))
            self.delete.setText(tr("Delete folder"))
            menu = self._menu(self.rename, self.delete)
        else:
            menu = self.list_menu()
        menu.popup(place)

    def list_menu(self) -> QMenu:
        """Return the menu of what is not about one conversation."""
        some = bool(self._list.newest_first())
        self.export_all_text.setEnabled(some)
        self.export_all_json.setEnabled(some)
        exports = self.export_all_text, self.export_all_json
        return self._menu(self.new_folder, None, self.import_file, *exports, None, self.trash)

    def _conversation_menu(self, chosen: Sequence[Conversation]) -> QMenu:
        one = len(chosen) == 1
        pinned = all(each.pinned for each in chosen)
        self.rename.setText(tr("Rename"))
        self.rename.setEnabled(one)
        self.pin.setText(tr("Unpin") if pinned else tr("Pin"))
        words = tr_count("Delete {n} conversation", "Delete {n} conversations", len(chosen))
        self.delete.setText(tr("Delete") if one else words)
        menu = self._menu(self.rename, self.pin)
        keys = key_words("Ctrl+Shift+M")
        words = tr("Move to folder")
        menu.addMenu(self._fill_move(QMenu(f"{words}\t{keys}", menu), chosen))
        menu.addSeparator()
        self.export_clean.setEnabled(one)
        self.duplicate.setEnabled(one)
        menu.addActions([self.duplicate])
        menu.addSeparator()
        menu.addActions(
            [
                *(self.export_clean, self.export_html, self.export_pdf),
                *(self.export_text, self.export_json),
            ]
        )
        menu.addSeparator()
        menu.addAction(self.delete)
        menu.aboutToHide.connect(lambda: self.rename.setEnabled(True))
        return menu

    def _fill_move(self, menu: QMenu, chosen: Sequence[Conversation]) -> QMenu:
        tokens = current()
        ids = [each.id for each in chosen]
        menu.setIcon(icon("folder", tokens.muted))
        here = {each.folder_id for each in chosen}
        for folder in self._list.folders():
            name = folder.name.replace("&", "&&")
            move = menu.addAction(icon("folder", tokens.muted), name)
            move.setEnabled(here != {folder.id})
            move.triggered.connect(lambda _=False, to=folder.id: self._list.move(ids, to))
        if here != {None}:
            out = menu.addAction(tr("No folder"))
            out.triggered.connect(lambda _=False: self._list.move(ids, None))
        if not menu.isEmpty():
            menu.addSeparator()
        new = menu.addAction(icon("folder-plus", tokens.muted), tr("New folder\u2026"))
        new.triggered.connect(lambda _=False: self.make_folder(ids))
        return menu

    def _menu(self, *actions: QAction | None) -> QMenu:
        menu = QMenu(self._view)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for action in actions:
            if action is None:
                menu.addSeparator()
            else:
                menu.addAction(action)
        return menu

    def recolour(self) -> None:
        """Draw the icons in the theme's colours."""
        for action in self._view.actions():
            action.setIcon(icon(str(action.property("icon_name")), current().muted))

    # -- what they do ----------------------------------------------------------------------

    def make_folder(self, ids: Sequence[int] = ()) -> None:
        """Make a folder with these conversations in it, and let the user name it."""
        taken = {each.name for each in self._list.folders()}
        name, number = tr("New folder"), 2
        while name in taken:
            name, number = tr("New folder {n}").format(n=number), number + 1
        folder = self._list.create_folder(name)
        if folder is not None:
            self._list.move(ids, folder.id)
            # Not before the menu has given the keyboard back.
            QTimer.singleShot(0, self._view, lambda: self._view.edit_folder(folder.id))

    def _pin(self) -> None:
        chosen = self._view.chosen()
        pinned = all(each.pinned for each in chosen)
        self._list.pin([each.id for each in chosen], pinned=not pinned)

    def _pop_up_move(self) -> None:
        chosen = self._view.chosen()
        if chosen:
            menu = self._fill_move(self._menu(), chosen)
            area = self._view.visualRect(self._view.currentIndex())
            menu.popup(self._view.viewport().mapToGlobal(area.bottomLeft() + QPoint(24, 0)))
            menu.setActiveAction(next(each for each in menu.actions() if each.isEnabled()))

    def _delete(self) -> None:
        chosen, folder = self._view.chosen(), self._view.chosen_folder()
        if chosen:
            self._list.delete([each.id for each in chosen])
        elif folder is not None:
            self._list.delete_folder(folder.id)

    def _export_clean(self) -> None:
        for each in self._view.chosen()[:1]:
            self._transfer.choose_reading_copy(each)

    def _duplicate(self) -> None:
        for each in self._view.chosen()[:1]:
            self._list.duplicate(each)

    def _export(self, form: ExportFormat) -> None:
        chosen = self._view.chosen()
        if chosen:
            self._transfer.choose_export(chosen, form)
