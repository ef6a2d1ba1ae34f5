"""The middle of the window: a title, the messages or the greeting, the composer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QMessageBox, QStackedWidget, QWidget

from app.chat.composer.composer import Composer
from app.chat.composer.composer_state import composer_state
from app.chat.composer.context_card import ContextCard
from app.chat.composer.context_full import ContextChoices
from app.chat.composer.left_out_note import LeftOutNote
from app.chat.composer.message_field import local_files
from app.chat.composer.message_queue import MessageQueue
from app.chat.composer.outgoing import Outgoing
from app.chat.composer.prompt_menu import PromptMenu
from app.chat.composer.waiting_messages import WaitingMessages
from app.chat.conversation_search import ConversationSearch
from app.chat.find_bar import FindBar
from app.chat.greeting import Greeting
from app.chat.messages.transcript import Transcript
from app.chat.sampling.setup_control import SetupControl
from app.chat.status_line import StatusLine
from app.engine_link.running import Running
from app.engine_link.status import EngineStatus
from app.history import StoredMessage, UndoToken
from app.notices import Notice, tell, withdraw
from app.session.conversation_list import Deletion, shown_title
from app.session.session import ChatSession
from app.settings import Settings, SettingsStore
from app.theme.icons import IconButton
from app.theme.tokens import COLUMN
from app.tools.access import ToolAccess
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.elided import ElidedLabel
from app.widgets.scroller import scroller
from app.widgets.tab_order import tab_before
from engine.language import tr

if TYPE_CHECKING:
    from app.chat.composer.tool_control import ToolControl
    from app.chat.sampling.setup_panel import SetupPanel


class ChatPage(QWidget):
    """Shows a `ChatSession` and hands the user's wishes to it."""

    tools_managed = Signal()
    """The settings of tools are asked for."""

    def __init__(
        self,
        session: ChatSession,
        running: Running,
        settings: SettingsStore,
        tools: ToolAccess,
        offer: QWidget,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._undo_notices: dict[Deletion | UndoToken, Notice] = {}
        bridge = self._bridge = running.bridge
        self._settings = settings
        self.setAutoFillBackground(True)  # opaque: nothing below is painted for what changes here
        self.setAcceptDrops(True)
        self.sidebar_button = IconButton("sidebar", tr("Show or hide the conversations"), self)
        self.performance_button = IconButton(
            "chart", tr("Show or hide the performance panel"), self
        )
        self._title = ElidedLabel(self)
        self._title.setProperty("look", "title")
        self.greeting = Greeting(offer, self)
        self.transcript = Transcript(self)
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._add_next)
        self.find_bar = FindBar(self)
        self._search = ConversationSearch(self.find_bar, session, self.transcript)
        self.body = QStackedWidget(self)
        """Area between the header and the composer."""
        self._empty = scroller(self.greeting, self)
        self.body.addWidget(self._empty)
        self.body.addWidget(self.transcript)
        self.context_card = ContextCard(self)
        self.left_out = LeftOutNote(session, self)
        self.composer = Composer(self)
        self.status_line = StatusLine(self)
        self._choices = ContextChoices(self.context_card, session, running)
        self.prompt_menu = PromptMenu(self.composer, settings, self)
        self.waiting = WaitingMessages(self)
        self.waiting.followed_by = self.composer.field
        queue = MessageQueue(self.waiting, session, bridge)
        self.outgoing = Outgoing(
            self.composer, session, bridge, session.drafts, self._choices, queue
        )
        self._setup = SetupControl(self.composer, session, settings, bridge, self)
        self._tools = tools
        self.composer.tools_asked.connect(self.open_tools)
        tools.began.connect(lambda: self.tools)
        tools.changed.connect(self._update)
        self._arrange()
        self._connect_session()
        self._connect_widgets()
        self.status_line.cancel_asked.connect(running.call_off)
        bridge.status_changed.connect(self._show_status)
        settings.changed.connect(self._show_reading)
        self._show_reading(settings.value)
        self._show_status(bridge.status)

    def _arrange(self) -> None:
        self._header = hbox(
            self.sidebar_button,
            Spacing(6),
            (self._title, 1),
            self.performance_button,
            margins=(10, 8, 10, 8),
        )
        self._find = vbox(self.find_bar)
        self._bottom = vbox(
            self.context_card,
            self.left_out,
            self.waiting,
            self.composer,
            self.status_line,
            spacing=10,
        )
        vbox(self._header, self._find, (self.body, 1), self._bottom, to=self, spacing=0, margins=0)

    def _connect_session(self) -> None:
        session = self._session
        session.opened.connect(self._show_conversation)
        session.message_added.connect(self._expect_message)
        session.branch_changed.connect(self._change_branch)
        session.answer_resumed.connect(self._resume)
        session.answer_finished.connect(self.transcript.take_in)
        session.changed.connect(self._update)
        session.context_full.connect(self._offer_room)
        session.ending.connect(self.outgoing.end)
        session.deleted.connect(self._offer_undo)
        session.undeleted.connect(self._undone)

    def _connect_widgets(self) -> None:
        session, requests = self._session, self.transcript.requests
        self.greeting.example_chosen.connect(self.outgoing.ask)
        requests.resume.connect(session.continue_answer)
        requests.regenerate.connect(session.regenerate)
        requests.vary.connect(session.vary)
        requests.edit.connect(self._edit)
        requests.rewrite.connect(session.edit_answer)
        requests.fork.connect(session.duplicate)
        requests.show_version.connect(session.show_version)
        requests.delete.connect(session.delete_message)
        requests.underline.connect(lambda on: self._settings.change(token_tint=on))
        self.transcript.link_clicked.connect(self._ask_to_open)
        self.find_bar.closed.connect(self._search.close)
        self.find_bar.closed.connect(self.composer.field.setFocus)
        self.left_out.moved.connect(self.transcript.set_unseen)
        self.composer.stop_asked.connect(session.stop)
        self.outgoing.waits_changed.connect(self._update)

    def add_to_header(self, widget: QWidget) -> None:
        """Put something into the line above the messages, left of the last button."""
        self._header.insertWidget(self._header.count() - 1, widget)
        tab_before(self.performance_button, [widget])

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The composer is as wide as the text above it."""
        super().resizeEvent(event)
        side = max(24, (self.width() - COLUMN) // 2)
        self._bottom.setContentsMargins(side, 4, side, 10)
        self._find.setContentsMargins(side, 0, side, 0)
        self.composer.field.set_most_height(self.height() // 5)

    @cached_property
    def tools(self) -> ToolControl:
        """Joins the tools of a conversation with what is seen; most conversations have none."""
        from app.chat.composer.tool_control import ToolControl

        parts = self.composer, self.transcript, self._session, self._tools
        control = ToolControl(*parts, self)
        control.manage_asked.connect(self.tools_managed)
        return control

    @property
    def setup_panel(self) -> SetupPanel:
        """The panel that says how answers are drawn; made when it is first wanted."""
        return self._setup.panel

    def open_setup(self) -> None:
        """Open the panel that says how answers are drawn."""
        self._setup.open()

    def open_tools(self) -> None:
        """Open the panel in which the conversation's tools are chosen."""
        self.tools.open()

    def show_waiting_call(self) -> None:
        """Lead the keyboard to the tool call that waits for the user."""
        self.tools.show_waiting()

    def toggle_thinking(self) -> None:
        """Turn thinking on or off, where the model leaves the choice."""
        self._setup.toggle_thinking()

    def open_search(self) -> None:
        """Open the search in the conversation on show."""
        self._search.open()

    def reveal(self, message_id: int, words: Sequence[str] = ()) -> None:
        """Scroll to a message of the conversation on show, with `words` highlighted in it."""
        self._session.show_message(message_id)
        self.transcript.reveal(message_id, words)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Files may be dropped anywhere on the chat."""
        if local_files(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """Dropped files go along with the message; a model is loaded."""
        event.acceptProposedAction()
        self.outgoing.attach(local_files(event.mimeData()))
        self.composer.field.setFocus()

    def _show_conversation(self, messages: Sequence[StoredMessage]) -> None:
        self.transcript.show_messages(messages)
        self._show_page(empty=not messages)
        self._go_on_live()

    def _change_branch(self, first: int, messages: Sequence[StoredMessage]) -> None:
        self.transcript.replace_from(first, messages)
        self._show_page(empty=not messages)
        self._go_on_live()

    def _show_page(self, *, empty: bool) -> None:
        if empty:
            self.greeting.set_status(self._bridge.status)
        self.body.setCurrentWidget(self._empty if empty else self.transcript)

    def _go_on_live(self) -> None:
        """The answer at the end may be the one being written."""
        if (live := self._session.live) is not None and self._session.shows_live:
            self.transcript.follow(live)

    def _expect_message(self) -> None:
        self.body.setCurrentWidget(self.transcript)
        self._turn.start()

    def _add_next(self) -> None:
        """Show one new message: question and answer in one turn would hold up the window.

        It may have been shown meanwhile, with all of its conversation.
        """
        live = self._session.live
        new = self._session.messages[self.transcript.row_count :]
        for message in new[:1]:
            written = live is not None and message.id == live.base.id
            self.transcript.add(live.message if live and written else message)
            self._go_on_live()
        if len(new) > 1:
            self._turn.start()

    def _resume(self, _message: StoredMessage) -> None:
        self._go_on_live()
        self.transcript.jump_to_end()

    def _show_reading(self, settings: Settings) -> None:
        self.transcript.set_reading(
            tinted=settings.token_tint, thoughts_open=settings.show_thinking
        )

    def _edit(self, message_id: int, text: str) -> None:
        """Send a changed question; what is said next is typed below again."""
        if self._session.edit(message_id, text):
            self.composer.field.setFocus()

    def _offer_room(self, needed: int | None) -> None:
        """Let the user choose how an answer goes on that found no room."""
        go_on = partial(self._session.continue_answer, made_room=True)
        self._choices.open(needed, (), go_on)

    def _offer_undo(self, what: str, token: Deletion | UndoToken) -> None:
        self._undo_notices[token] = tell(what, (tr("Undo"), lambda: self._session.undelete(token)))

    def _undone(self, token: Deletion | UndoToken) -> None:
        withdraw(self._undo_notices.pop(token, None))

    def _show_status(self, status: EngineStatus) -> None:
        self.status_line.show_status(status)
        if self.body.currentWidget() is self._empty:
            self.greeting.set_status(status)
        answer = self.transcript.last_answer()
        if answer is not None:
            answer.say(status.words)
        self._update()

    def _update(self) -> None:
        live = self._session.live
        elsewhere = live.conversation.title if live and not self._session.shows_live else ""
        state = composer_state(
            self._bridge.status,
            answering=self._session.busy,
            elsewhere=elsewhere,
            waits=self.outgoing.waits,
        )
        self.composer.set_state(state)
        self.composer.show_tools(self._tools.chosen)
        self._show_title()

    def _show_title(self) -> None:
        current = self._session.current
        self._title.setText(shown_title(current) if current else tr("New chat"))

    def _ask_to_open(self, address: str) -> None:
        """Open a link only when the reader has seen where it leads."""
        url = QUrl(address)
        box = QMessageBox(self, textFormat=Qt.TextFormat.PlainText)
        box.setWindowTitle(tr("Open this address?"))
        if url.scheme().lower() not in {"http", "https", "mailto"}:
            box.setText(tr("This link does not lead to a web page, so it is not opened."))
            box.setInformativeText(address)
            box.setStandardButtons(QMessageBox.StandardButton.Close)
        else:
            box.setText(tr("Open this address in your browser?"))
            box.setInformativeText(address)
            box.setStandardButtons(
                QMessageBox.StandardButton.Open | QMessageBox.StandardButton.Cancel
            )
            box.setDefaultButton(QMessageBox.StandardButton.Cancel)
            box.accepted.connect(lambda: QDesktopServices.openUrl(url))
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setModal(True)
        box.open()
