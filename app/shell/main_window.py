"""Assembles the window: conversations, the chat or a page, performance, the line of memory below.

Owns nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QKeyEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QMainWindow, QSplitter, QStyle, QWidget

from app.chat.page import ChatPage
from app.conversations.sidebar import Sidebar
from app.engine_link.bridge import EngineBridge
from app.history import Conversation, Hit
from app.models.choice import ModelChoice
from app.models.host_badge import HostBadge
from app.models.model_button import ModelButton
from app.models.server_book import ServerBook
from app.models.starter_offer import StarterOffer
from app.notices import report
from app.serving.model_server import ModelServer
from app.session.session import ChatSession
from app.settings import SettingsStore
from app.shell.actions import WindowActions
from app.shell.banner_stack import BannerStack
from app.shell.drop_overlay import DropOverlay
from app.shell.load_notices import LoadNotices
from app.shell.memory_strip import MemoryStrip
from app.shell.navigation import Navigation
from app.shell.page_names import PageName
from app.shell.page_stack import PageMakers, PageStack
from app.shell.server_indicator import ServerIndicator
from app.theme.fonts import scaled
from app.theme.icons import icon
from app.theme.keys import with_keys
from app.theme.theme import Theme, ThemeChoice
from app.tools.access import ToolAccess
from app.tuning.run_button import RunButton
from app.tuning.run_choice import RunChoice
from app.widgets.boxes import hbox, vbox
from app.widgets.enter import enter_presses
from engine.events import DeviceSample, MachineFound, MemoryHeld
from engine.language import tr

if TYPE_CHECKING:
    from pathlib import Path

_SIDEBAR_WIDTH = 256
_PERFORMANCE_WIDTH = 320
_USUAL_WIDTH = 1280
"""Width of a window from which on the performance panel gets wider with it."""
_WIDE = (PageName.PERFORMANCE, PageName.MODELS)
"""Pages that leave no room for the performance panel, or need none."""
_ROOM_FOR_THREE = 980
_ROOM_FOR_TWO = 680
_ROOM_FOR_MODE = 520
"""Narrower, how the model runs is in the menu of the model only."""


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that the window works with."""

    bridge: EngineBridge
    session: ChatSession
    settings: SettingsStore
    theme: Theme
    models: ModelChoice
    servers: ServerBook
    choosing: RunChoice
    performance: QWidget
    """The performance panel; shown as it is."""
    pages: PageMakers
    model_server: ModelServer
    tools: ToolAccess


class MainWindow(QMainWindow):
    """The one window."""

    settings_asked = Signal()
    comparison_asked = Signal()
    """The last question is to be answered with the draft and without it."""
    update_asked = Signal()
    """A newer version is to be looked for."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._leaves_unsaved = False
        settings = services.settings.value
        self.setWindowTitle("Duotail")
        self.setWindowIcon(icon("duotail", "#0d7480"))
        self.resize(settings.window_width, settings.window_height)
        self.setMinimumSize(420, 420)
        self.navigation = Navigation(self)
        self.sidebar = Sidebar(services.session.conversations, self.navigation, self)
        self.starter_offer = StarterOffer(self)
        self.chat = ChatPage(
            services.session,
            services.models.running,
            services.settings,
            services.tools,
            self.starter_offer,
            self,
        )
        self.model_button = ModelButton(services.models, services.servers, self)
        self.host_badge = HostBadge(services.bridge, self)
        self.run_button = RunButton(services.choosing, self)
        self.chat.add_to_header(self.model_button)
        self.chat.add_to_header(self.host_badge)
        self.chat.add_to_header(self.run_button)
        self.performance = services.performance
        self.pages = PageStack(self.chat, services.pages, self)
        self.drop_overlay = DropOverlay(self.pages, self._drop_words)
        self.setAcceptDrops(True)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self, handleWidth=1)
        self._splitter.setChildrenCollapsible(False)
        self.banners = BannerStack(self.pages)
        self.pages.currentChanged.connect(lambda _index: self.banners.lie_over(self.pages.body))
        self.banners.covers.connect(self.chat.greeting.keep_clear)
        self.banners.lie_over(self.pages.body)
        self._load_notices = LoadNotices(
            services.models.running, services.session, services.settings, self
        )
        for area in (self.sidebar, self.pages, self.performance):
            self._splitter.addWidget(area)
        self._splitter.setStretchFactor(1, 4)
        self._splitter.setStretchFactor(2, 1)  # a wide screen is not for the margins only
        panel = _PERFORMANCE_WIDTH + max(settings.window_width - _USUAL_WIDTH, 0) // 5
        centre = settings.window_width - _SIDEBAR_WIDTH - panel
        self._splitter.setSizes([_SIDEBAR_WIDTH, max(centre, 300), panel])
        self.memory = MemoryStrip(self)
        self.server_indicator = ServerIndicator(services.model_server, self)
        self._stack(self._splitter, self.memory, self.server_indicator)
        self.sidebar.setVisible(settings.sidebar_visible)
        self.performance.setVisible(settings.performance_visible)
        self.commands = WindowActions(self, services)
        self._connect()
        services.theme.changed.connect(self._recolour)
        self._recolour()
        self.chat.composer.field.setFocus()

    def _stack(self, above: QWidget, *below: QWidget) -> None:
        """The line at the bottom stays, whatever is shown above it."""
        whole = QWidget(self)
        vbox((above, 1), hbox(*below, spacing=0, margins=0), to=whole, spacing=0, margins=0)
        self.setCentralWidget(whole)

    def open_last(self) -> None:
        """Show the conversation that was open when Duotail was closed."""
        session, settings = self._services.session, self._services.settings
        session.conversations.refresh()
        last = settings.value.last_conversation if settings.value.reopen_last else None
        session.open(session.conversations.get(last))
        if settings.trouble is not None:
            report(settings.trouble)

    def show_fitted(self) -> None:
        """Show the window as it was closed, with all of it on the screen."""
        room = self.screen().availableGeometry()
        title = self.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)
        size = self.size().boundedTo(room.size() - QSize(0, title))
        self.resize(size)
        self.move(
            room.left() + (room.width() - size.width()) // 2,
            room.top() + (room.height() - title - size.height()) // 2,
        )
        if self._services.settings.value.window_maximised:
            self.showMaximized()
        else:
            self.show()

    def come_forward(self) -> None:
        """Show the window above others."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Watch what is dragged over the window, whichever widget would take it."""
        super().showEvent(event)
        self.windowHandle().installEventFilter(self.drop_overlay)  # again does no harm

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter presses a button."""
        if not enter_presses(event):
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Take a model where nothing else takes what is dragged."""
        if _model_in(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """Load the model."""
        path = _model_in(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            self._services.models.load_path(path)

    def _drop_words(self, dragged: QMimeData) -> str:
        """Return what dropping this on the page on show would do; "" where nothing."""
        model = _model_in(dragged)
        if model is not None and self.pages.shown is PageName.MODELS:
            return tr("Drop to add {name} to your models").format(name=model.name)
        if model is not None:
            return tr("Drop to load {name}").format(name=model.name)
        files = [url for url in dragged.urls() if url.isLocalFile()]
        return tr("Drop to attach to your message") if files and self.pages.shown is None else ""

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Side areas give way when the window gets narrow, and come back when it gets wide."""
        super().resizeEvent(event)
        before, now = event.oldSize().width(), event.size().width()
        settings = self._services.settings.value
        for area, limit, wanted in (
            (self.performance, scaled(_ROOM_FOR_THREE), settings.performance_visible),
            (self.sidebar, scaled(_ROOM_FOR_TWO), settings.sidebar_visible),
        ):
            if now < limit <= before or (before < 0 and now < limit):
                area.hide()
            elif 0 < before < limit <= now:
                area.setVisible(wanted and not self._replaces(area))
        self._show_run_button()

    def _show_run_button(self) -> None:
        """Show how the model runs where there is room, and where it runs here."""
        elsewhere = bool(self.host_badge.host)
        self.run_button.setVisible(self.width() >= scaled(_ROOM_FOR_MODE) and not elsewhere)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Remember the size; the rest is saved by whoever owns it.

        What cannot be saved at the moment keeps the window open until the user decides.
        """
        saving = self._services.session.writer.saving
        if saving.owes and not self._leaves_unsaved:
            event.ignore()
            saving.ask_to_leave(self._leave_unsaved)
            return
        normal = not (self.isMaximized() or self.isFullScreen())
        size = self.size() if normal else self.normalGeometry().size()
        self._services.settings.change(
            window_width=size.width(),
            window_height=size.height(),
            window_maximised=self.isMaximized(),
        )
        super().closeEvent(event)

    def _leave_unsaved(self) -> None:
        self._leaves_unsaved = True
        self.close()

    def _connect(self) -> None:
        session, sidebar, commands = self._services.session, self.sidebar, self.commands
        session.changed.connect(lambda: sidebar.select(session.current))
        sidebar.new_button.clicked.connect(commands.new_chat)
        sidebar.opened.connect(self._open)
        sidebar.hit_opened.connect(self._open_hit)
        sidebar.theme_button.clicked.connect(commands.next_theme)
        sidebar.restore_asked.connect(session.undelete)
        sidebar.settings_button.clicked.connect(self.settings_asked)
        sidebar.shortcuts_button.clicked.connect(commands.show_shortcuts)
        sidebar.about_button.clicked.connect(commands.show_about)
        self.chat.sidebar_button.clicked.connect(commands.toggle_sidebar)
        self.chat.performance_button.clicked.connect(commands.toggle_performance)
        self.pages.sidebar_asked.connect(commands.toggle_sidebar)
        self.pages.changed.connect(self._page_changed)
        self.navigation.chosen.connect(self.pages.toggle)
        session.opened.connect(self.pages.show_chat)
        for models_asked in (
            self.starter_offer.space_asked,
            self.chat.greeting.more_button.clicked,
        ):
            models_asked.connect(lambda: self.pages.open(PageName.MODELS))
        self.chat.outgoing.model_given.connect(self._services.models.load_path)
        self._services.models.several.connect(self._choose_file)
        self.chat.status_line.model_asked.connect(self.model_button.open_menu)
        self.model_button.running_asked.connect(self.run_button.open_panel)
        self.model_button.more_asked.connect(lambda: self.pages.open(PageName.MODELS))
        self.run_button.page_asked.connect(lambda: self.pages.open(PageName.TUNING))
        bridge = self._services.bridge
        bridge.plan_changed.connect(self._show_run_button)
        bridge.subscribe_newest(DeviceSample, self.memory.take_sample)
        bridge.subscribe_newest(MemoryHeld, self.memory.take_held)
        bridge.subscribe_newest(MachineFound, self.memory.take_machine)
        self.memory.clicked.connect(self._ask_of_memory)
        self.memory.details_asked.connect(commands.show_memory)

    def _ask_of_memory(self) -> None:
        """Show where memory is shared out; from there, open the details."""
        if self.pages.shown is PageName.TUNING:
            self.commands.show_memory()
        else:
            self.pages.open(PageName.TUNING)

    def _page_changed(self, name: PageName | None) -> None:
        """Follow the page on show, or the chat (None)."""
        self.navigation.show_page(name)
        self._show_performance()
        if name is None:
            self.chat.composer.field.setFocus()

    def _replaces(self, area: QWidget) -> bool:
        """Return whether the page on show makes a side area needless."""
        return area is self.performance and self.pages.shown in _WIDE

    def _show_performance(self) -> None:
        wanted = self._services.settings.value.performance_visible
        room = self.width() >= scaled(_ROOM_FOR_THREE)
        self.performance.setVisible(wanted and room and not self._replaces(self.performance))

    def _open(self, conversation: Conversation) -> None:
        self._services.session.open(conversation)
        self.chat.composer.field.setFocus()

    def _open_hit(self, hit: Hit, words: list[str]) -> None:
        if hit.message_id is None:
            self._open(hit.conversation)
            return
        self._services.session.open(hit.conversation)
        self.chat.reveal(hit.message_id, words)

    def _recolour(self) -> None:
        self.sidebar.recolour()
        self.host_badge.recolour()
        names = {
            ThemeChoice.SYSTEM: ("contrast", tr("Theme: same as system")),
            ThemeChoice.LIGHT: ("sun", tr("Theme: light")),
            ThemeChoice.DARK: ("moon", tr("Theme: dark")),
        }
        icon_name, words = names[self._services.theme.choice]
        self.sidebar.theme_button.set_icon(icon_name)
        self.sidebar.theme_button.setToolTip(with_keys(words, "Ctrl+Shift+L"))
        self.sidebar.theme_button.setAccessibleName(words)

    def _choose_file(self, files: tuple[tuple[Path, int], ...]) -> None:
        """Let the user choose where a folder holds more than one model."""
        from app.models.file_chooser import FileChooser  # not for the first picture

        chooser = FileChooser(files, self)
        chooser.chosen.connect(self._services.models.load)
        chooser.open()


def _model_in(dragged: QMimeData) -> Path | None:
    """Return the model among what is dragged."""
    from app.models.file_chooser import dropped_model  # not for the first picture

    return dropped_model(dragged)
