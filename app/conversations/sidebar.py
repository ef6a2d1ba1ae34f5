"""The left area of the window: new chat, search, the list or what was found, a few tools."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QListView,
    QProgressBar,
    QPushButton,
    QStackedWidget,
    QWidget,
)

from app.conversations.actions import ListActions
from app.conversations.archive import ExportFormat
from app.conversations.finder import FileSearcher, Finder
from app.conversations.hits import HitsView
from app.conversations.transfer import Transfer
from app.conversations.view import ConversationView
from app.history import Conversation, Hit, UndoToken
from app.history.search_text import words_of
from app.session.conversation_list import ConversationList
from app.signals import TypedSignal
from app.theme.fonts import scaled
from app.theme.icons import IconButton, icon
from app.theme.keys import with_keys
from app.theme.theme import current
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.search_field import SearchField
from engine.language import tr

if TYPE_CHECKING:
    from app.conversations.trash_dialog import TrashDialog


class Sidebar(QWidget):
    """Shows a `ConversationList`; opening one, and what the window does, goes out as signals.

    Args:
        conversations: the list to show.
        navigation: buttons that lead to the pages, shown below the list.
    """

    opened = TypedSignal[Conversation]()
    """The user wants to see it."""
    hit_opened = TypedSignal[Hit, list[str]]()
    """The user wants to see it; the words that were looked for."""
    restore_asked = TypedSignal[UndoToken]()
    """Something in the trash."""

    def __init__(
        self,
        conversations: ConversationList,
        navigation: QWidget,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._navigation = navigation
        self._list = conversations
        self.setProperty("look", "sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumWidth(210)
        self.setAcceptDrops(True)
        self.list = ConversationView(conversations, self)
        self.hits = HitsView(self)
        self.finder = Finder(FileSearcher(conversations.path), self)
        self.transfer = Transfer(conversations, self)
        self.commands = ListActions(self.list, conversations, self.transfer)
        self._make_controls()
        self._arrange()
        self._connect()
        self._show_state()

    # -- for the window --------------------------------------------------------------------

    def select(self, conversation: Conversation | None) -> None:
        """Mark the conversation that is open."""
        self.list.show_open(conversation.id if conversation else None)

    def focus_list(self) -> None:
        """Give the keyboard to the list, or to what was found."""
        shown = self._stack.currentWidget()
        first = None if self.list.currentIndex().isValid() else self.list.neighbour(1)
        if first is not None:
            self.list.setCurrentIndex(self.list.rows.index_of(first.id))
        (shown if isinstance(shown, QListView) else self.new_button).setFocus()

    def export(self, chosen: Conversation | None, form: str) -> None:
        """Export a conversation to read: as "md", "html" or "pdf"; None: nothing."""
        if chosen is None:
            return
        if form == ExportFormat.MARKDOWN:
            self.transfer.choose_reading_copy(chosen)
        else:
            self.transfer.choose_export([chosen], ExportFormat(form))

    def open_next(self, step: int) -> None:
        """Open the conversation below (1) or above (-1) the one that is open."""
        following = self.list.neighbour(step)
        if following is not None:
            self.opened.emit(following)

    def recolour(self) -> None:
        """Draw icons in the theme's colours."""
        tokens = current()
        self._mark.setPixmap(icon("duotail", tokens.accent).pixmap(scaled(22), scaled(22)))
        self.new_button.setIcon(icon("plus", tokens.text))
        self.commands.recolour()

    # -- made of ---------------------------------------------------------------------------

    def _make_controls(self) -> None:
        self.new_button = QPushButton(tr("New chat"), self)
        self.new_button.setToolTip(with_keys(tr("Start a new conversation"), "Ctrl+N"))
        self.new_button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.new_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.search = SearchField(self)
        self.search.setPlaceholderText(tr("Search"))
        self.search.setAccessibleName(tr("Search conversations"))
        self.search.setToolTip(with_keys(tr("Search titles and messages"), "Ctrl+K"))
        self.search.setClearButtonEnabled(True)
        self._more = IconButton("more", tr("Folders, import and export"), self)
        self._empty = plain_label("", self, "muted")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._empty.setContentsMargins(8, 4, 8, 4)
        self._doing = plain_label("", self, "muted")
        self._bar = QProgressBar(self, textVisible=False)
        self._bar.setFixedHeight(4)
        self._cancel = IconButton("close", tr("Cancel"), self)
        self.theme_button = IconButton("contrast", tr("Light, dark or same as system"), self)

    def _arrange(self) -> None:
        self._mark = QLabel(self)
        name = QLabel("Duotail", self)
        name.setProperty("look", "title")
        finding = hbox(self.search, self._more, spacing=4, margins=0)
        finding.setStretch(0, 1)
        self.settings_button = IconButton("gear", tr("Settings"), self, shortcut="Ctrl+,")
        self.shortcuts_button = IconButton("help", tr("Keyboard shortcuts"), self, shortcut="F1")
        self.about_button = IconButton("info", tr("About Duotail"), self)
        about = (
            self.settings_button,
            self.theme_button,
            self.shortcuts_button,
            self.about_button,
        )
        self._stack = QStackedWidget(self)
        for page in (self.list, self.hits, self._empty):
            self._stack.addWidget(page)
        doing = hbox(self._doing, self._cancel, spacing=4, margins=0)
        doing.setStretch(0, 1)
        vbox(
            hbox(self._mark, name, 1, spacing=8, margins=(8, 2, 0, 6)),
            self.new_button,
            finding,
            (self._stack, 1),
            doing,
            self._bar,
            self._navigation,
            hbox(*about, 1, spacing=2, margins=0),
            to=self,
            spacing=8,
            margins=(12, 12, 12, 10),
        )
        # As one sees them, not as they were made.
        walk = (
            self.new_button,
            self.search,
            self._more,
            self.list,
            self.hits,
            self._cancel,
            *self._navigation.findChildren(QPushButton),
            *about,
        )
        for one, following in pairwise(walk):
            self.setTabOrder(one, following)
        self._show_progress("", 0)
        self.recolour()

    def _connect(self) -> None:
        self._more.clicked.connect(self._pop_up_more)
        self.search.textChanged.connect(self._look_for)
        self.search.down_asked.connect(self.focus_list)
        self.search.open_asked.connect(self._open_first)
        self.finder.found.connect(self._show_found)
        self.list.open_asked.connect(self.opened)
        self.hits.chosen.connect(self._open_hit)
        self.hits.left_upwards.connect(self.search.setFocus)
        self.commands.trash_asked.connect(self.show_trash)
        self.transfer.imported.connect(self._show_imported)
        self._cancel.clicked.connect(self.transfer.cancel)
        self.transfer.progressed.connect(self._show_progress)
        for news in (self._list.refreshed, self._list.changed, self._list.removed):
            news.connect(self._list_changed)
        self._list.folder_changed.connect(self._show_state)
        self._list.folder_removed.connect(self._show_state)

    # -- search ----------------------------------------------------------------------------

    def _look_for(self, query: str) -> None:
        self.finder.look_for(query)
        if not self.finder.query:
            self.hits.show_hits([])
            self._show_state()

    def _show_found(self, _query: str, hits: list[Hit]) -> None:
        self.hits.show_hits(hits)
        self._show_state()

    def _open_first(self) -> None:
        """Enter in the field: the first result, when it is there."""
        self.finder.hurry()
        if not self.finder.busy:
            self.hits.choose(0)

    def _open_hit(self, hit: Hit) -> None:
        self.hit_opened.emit(hit, words_of(self.finder.query))

    def _list_changed(self) -> None:
        self.finder.again()
        self._show_state()

    def _show_state(self) -> None:
        """The list, what was found, or a sentence where there is neither."""
        searching = bool(self.finder.query)
        something = bool(self.hits.found.rows) if searching else bool(self.list.rows.rowCount())
        if something:
            self._stack.setCurrentWidget(self.hits if searching else self.list)
            return
        if not searching:
            self._empty.setText(tr("Your conversations appear here."))
        elif not self.finder.busy:
            text = tr("No results for “{words}”.").format(words=self.finder.query)
            self._empty.setText(text)
        else:
            return
        focus = QApplication.focusWidget()
        if focus is not None and self._stack.isAncestorOf(focus):
            # A sentence has no use for the keyboard.
            (self.search if searching else self.new_button).setFocus()
        self._stack.setCurrentWidget(self._empty)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape clears the search from wherever the keyboard is in here."""
        if event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
            self.search.setFocus()
        else:
            super().keyPressEvent(event)

    # -- files -----------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Files with conversations can be dropped anywhere on the sidebar."""
        if _files(event):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """Take them in."""
        event.acceptProposedAction()
        self.transfer.import_files(_files(event))

    def _show_imported(self, conversations: Sequence[Conversation]) -> None:
        """Open one of the conversations: it may be far down, under the day it was written on."""
        if len(conversations) == 1:
            self.opened.emit(conversations[0])

    def _pop_up_more(self) -> None:
        menu = self.commands.list_menu()
        menu.popup(self._more.mapToGlobal(QPoint(0, self._more.height())))

    def show_trash(self) -> TrashDialog:
        """Open the trash."""
        from app.conversations.trash_dialog import TrashDialog

        dialog = TrashDialog(self._list.trash, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.restore_asked.connect(self.restore_asked)
        dialog.open()
        return dialog

    def _show_progress(self, text: str, percent: int) -> None:
        self._doing.setText(text)
        self._bar.setValue(percent)
        self._bar.setAccessibleName(text)
        for part in (self._doing, self._cancel, self._bar):
            part.setVisible(bool(text))


def _files(event: QDropEvent) -> list[Path]:
    """The files being dragged that conversations can be in."""
    paths = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
    return [path for path in paths if path.suffix.lower() in {".json", ".jsonl", ".md"}]
