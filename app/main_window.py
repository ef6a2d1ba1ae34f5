"""Assembles the pages: conversations, chat, performance. Owns nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QCloseEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QMainWindow, QSplitter, QWidget

from app.bridge import EngineBridge
from app.chat.page import ChatPage
from app.chat.session import ChatSession
from app.chat.sidebar import Sidebar
from app.dialogs import AboutDialog, ShortcutsDialog
from app.history import Conversation
from app.settings import SettingsStore
from app.status import Phase
from app.theme.icons import icon
from app.theme.theme import Theme, ThemeChoice
from engine.commands import Load
from engine.errors import UserFixable
from engine.events import Failed

_SIDEBAR_WIDTH = 256
_PERFORMANCE_WIDTH = 320
_ROOM_FOR_THREE = 980
_ROOM_FOR_TWO = 680


@dataclass(frozen=True, slots=True)
class Services:
    """What the window is given to work with."""

    bridge: EngineBridge
    session: ChatSession
    settings: SettingsStore
    theme: Theme
    performance: QWidget
    """The performance panel; shown as it is."""


class MainWindow(QMainWindow):
    """The one window."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self.shortcuts: list[tuple[str, str]] = []
        settings = services.settings.value
        self.setWindowTitle("Duotail")
        self.setWindowIcon(icon("duotail", "#0d7480"))
        self.resize(settings.window_width, settings.window_height)
        self.setMinimumSize(420, 420)
        self.sidebar = Sidebar(self)
        self.chat = ChatPage(services.session, services.bridge, services.settings, self)
        self.performance = services.performance
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self._splitter.setHandleWidth(1)
        self._splitter.setChildrenCollapsible(False)
        for area in (self.sidebar, self.chat, self.performance):
            self._splitter.addWidget(area)
        self._splitter.setStretchFactor(1, 1)
        centre = settings.window_width - _SIDEBAR_WIDTH - _PERFORMANCE_WIDTH
        self._splitter.setSizes([_SIDEBAR_WIDTH, max(centre, 300), _PERFORMANCE_WIDTH])
        self.setCentralWidget(self._splitter)
        self.sidebar.setVisible(settings.sidebar_visible)
        self.performance.setVisible(settings.performance_visible)
        self._connect()
        self._make_actions()
        services.theme.changed.connect(self._recolour)
        self._recolour()
        self.chat.composer.field.setFocus()

    def open_last(self) -> None:
        """Show the conversation that was open when Duotail was closed."""
        session, settings = self._services.session, self._services.settings
        session.conversations.refresh()
        session.open(session.conversations.get(settings.value.last_conversation))
        if settings.trouble is not None:
            self.chat.show_trouble(settings.trouble)

    def load(self, model: Path) -> None:
        """Load a model; trouble is told in a banner."""
        self._services.bridge.submit(Load(model))

    def come_forward(self) -> None:
        """Show the window above others."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Side areas give way when the window gets narrow, and come back when it gets wide."""
        super().resizeEvent(event)
        before, now = event.oldSize().width(), event.size().width()
        settings = self._services.settings.value
        for area, limit, wanted in (
            (self.performance, _ROOM_FOR_THREE, settings.performance_visible),
            (self.sidebar, _ROOM_FOR_TWO, settings.sidebar_visible),
        ):
            if now < limit <= before or (before < 0 and now < limit):
                area.hide()
            elif 0 < before < limit <= now:
                area.setVisible(wanted)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Remember the size; the rest is saved by whoever owns it."""
        if not (self.isMaximized() or self.isFullScreen()):
            size = self.size()
            self._services.settings.change(window_width=size.width(), window_height=size.height())
        super().closeEvent(event)

    def _connect(self) -> None:
        session, sidebar = self._services.session, self.sidebar
        listed = session.conversations
        for news in (listed.refreshed, listed.changed, listed.removed):
            news.connect(lambda *_: sidebar.show_conversations(listed.newest_first()))
        sidebar.searched.connect(
            lambda query: sidebar.show_conversations(
                [e for e in listed.newest_first() if query.casefold() in e.title.casefold()]
            )
        )
        session.changed.connect(lambda: sidebar.select(session.current))
        sidebar.new_asked.connect(self._new)
        sidebar.opened.connect(self._open)
        sidebar.renamed.connect(lambda each, title: listed.rename(each.id, title))
        sidebar.delete_asked.connect(lambda each: listed.delete([each.id]))
        sidebar.theme_asked.connect(self._next_theme)
        sidebar.shortcuts_asked.connect(self.show_shortcuts)
        sidebar.about_asked.connect(self.show_about)
        self.chat.sidebar_asked.connect(self._toggle_sidebar)
        self.chat.performance_asked.connect(self._toggle_performance)
        self.chat.model_asked.connect(self._load_bundled)
        self._services.settings.problem.connect(self.chat.show_trouble)
        self._services.bridge.subscribe(Failed, self._failed)

    def _make_actions(self) -> None:
        session, chat = self._services.session, self.chat
        table: tuple[tuple[str, str, Callable[[], object]], ...] = (
            ("New chat", "Ctrl+N", self._new),
            ("Search conversations", "Ctrl+K", self._focus_search),
            ("Go to the message field", "Ctrl+L", chat.composer.field.setFocus),
            ("Go to the conversations", "Ctrl+1", self._focus_list),
            ("Stop the answer", "Esc", self._stop),
            ("Write the last answer anew", "Ctrl+R", session.regenerate),
            ("Continue the last answer", "Ctrl+Return", self._send_or_continue),
            ("Copy the last answer", "Ctrl+Shift+C", self._copy_answer),
            ("Temperature and seed", "Ctrl+T", chat.open_sampling),
            ("Jump to the end", "Ctrl+End", chat.transcript.jump_to_end),
            ("Show or hide the conversations", "Ctrl+B", self._toggle_sidebar),
            ("Show or hide the performance panel", "Ctrl+P", self._toggle_performance),
            ("Light, dark or as the system", "Ctrl+Shift+L", self._next_theme),
            ("Keyboard shortcuts", "F1", self.show_shortcuts),
            ("Close Duotail", "Ctrl+Q", self.close),
        )
        for text, keys, call in table:
            action = QAction(text, self)
            action.setShortcut(QKeySequence(keys))
            action.triggered.connect(lambda _=False, run=call: run())
            self.addAction(action)
            self.shortcuts.append((text, keys))

    def _load_bundled(self) -> None:
        from engine.hub.local import bundled_target  # the engine has imported it long ago

        self.load(bundled_target())

    def _new(self) -> None:
        self._services.session.open(None)
        self.chat.composer.field.setFocus()

    def _open(self, conversation: Conversation) -> None:
        self._services.session.open(conversation)
        self.chat.composer.field.setFocus()

    def _stop(self) -> None:
        if self._services.session.live is not None:
            self._services.session.stop()
        elif self.sidebar.search.text():
            self.sidebar.search.clear()
        else:
            self.chat.composer.field.setFocus()

    def _send_or_continue(self) -> None:
        if self.chat.composer.field.toPlainText().strip():
            self.chat.composer.send()
        else:
            self._services.session.continue_answer()

    def _copy_answer(self) -> None:
        answer = self.chat.transcript.last_answer()
        if answer is not None:
            answer.copy()

    def _focus_search(self) -> None:
        self._show_sidebar(visible=True)
        self.sidebar.search.setFocus()
        self.sidebar.search.selectAll()

    def _focus_list(self) -> None:
        self._show_sidebar(visible=True)
        self.sidebar.list.setFocus()
        if self.sidebar.list.currentRow() < 0:
            self.sidebar.list.setCurrentRow(1)

    def _toggle_sidebar(self) -> None:
        self._show_sidebar(visible=not self.sidebar.isVisible())

    def _show_sidebar(self, *, visible: bool) -> None:
        self.sidebar.setVisible(visible)
        self._services.settings.change(sidebar_visible=visible)

    def _toggle_performance(self) -> None:
        visible = not self.performance.isVisible()
        self.performance.setVisible(visible)
        self._services.settings.change(performance_visible=visible)

    def _next_theme(self) -> None:
        order = list(ThemeChoice)
        choice = order[(order.index(self._services.theme.choice) + 1) % len(order)]
        self._services.theme.apply(choice)
        self._services.settings.change(theme=choice)

    def _recolour(self) -> None:
        self.sidebar.recolour()
        names = {
            ThemeChoice.SYSTEM: ("contrast", "as the system"),
            ThemeChoice.LIGHT: ("sun", "light"),
            ThemeChoice.DARK: ("moon", "dark"),
        }
        icon_name, words = names[self._services.theme.choice]
        self.sidebar.theme_button.set_icon(icon_name)
        self.sidebar.theme_button.setToolTip(f"Colours: {words} (Ctrl+Shift+L)")
        self.sidebar.theme_button.setAccessibleName(f"Colours: {words}")

    def _failed(self, event: Failed) -> None:
        """A model that did not load, or an engine that did not start, can be tried again."""
        if event.request_id is not None:
            return
        bridge = self._services.bridge
        problem = UserFixable(event.cause, event.remedy, event.details)
        action: tuple[str, Callable[[], None]] | None = None
        if bridge.status.phase is Phase.BROKEN:
            action = ("Try again", self._restart_engine)
        elif bridge.last_load is not None:
            load = bridge.last_load
            action = ("Try again", lambda: bridge.submit(load))
        self.chat.banners.show_trouble(problem, action)

    def _restart_engine(self) -> None:
        bridge = self._services.bridge
        again = bridge.last_load
        bridge.start(None if again is None else lambda: again)

    def show_shortcuts(self) -> None:
        """Open the list of shortcuts."""
        self._open_dialog(ShortcutsDialog(self.shortcuts, self))

    def show_about(self) -> None:
        """Open About."""
        self._open_dialog(AboutDialog(self))

    @staticmethod
    def _open_dialog(dialog: ShortcutsDialog | AboutDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()
