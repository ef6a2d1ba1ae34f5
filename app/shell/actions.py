"""Table of everything that can be done by keyboard: shortcuts, command list and help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QDialog

from app.engine_link.status import Phase
from app.shell.page_names import KEYS as PAGE_KEYS
from app.shell.page_names import PageName
from app.theme.theme import ThemeChoice
from app.tuning.run_button import KEYS as RUN_KEYS
from engine.language import tr

if TYPE_CHECKING:
    from app.shell.main_window import MainWindow, Services


@dataclass(frozen=True, slots=True)
class _Row:
    """One thing to do; `keys` as Qt writes them."""

    words: str
    keys: str
    call: Callable[[], object]


class WindowActions(QObject):
    """The actions of a window, added to it."""

    def __init__(self, window: MainWindow, services: Services) -> None:
        super().__init__(window)
        self._window = window
        self._services = services
        self.all = [self._action(row) for row in self._rows()]
        window.addActions(self.all)

    @property
    def shortcuts(self) -> list[tuple[str, str]]:
        """Return the text of every action, and its keys."""
        return [(action.text(), action.shortcut().toString()) for action in self.all]

    def _rows(self) -> list[_Row]:
        window, chat = self._window, self._window.chat
        return [
            _Row(tr("New chat"), "Ctrl+N", self.new_chat),
            _Row(tr("Search conversations"), "Ctrl+K", self._focus_search),
            _Row(tr("Find in this conversation"), "Ctrl+F", self._find),
            _Row(tr("Go to the message field"), "Ctrl+L", chat.composer.field.setFocus),
            _Row(tr("Go to the conversations"), "Ctrl+1", self._focus_list),
            _Row(tr("Go to the newest notice"), "F6", window.banners.take_keyboard),
            *(
                _Row(tr(name.value), PAGE_KEYS[name], partial(window.pages.toggle, name))
                for name in PageName
            ),
            _Row(tr("Next conversation"), "Ctrl+PgDown", lambda: window.sidebar.open_next(1)),
            _Row(tr("Previous conversation"), "Ctrl+PgUp", lambda: window.sidebar.open_next(-1)),
            _Row(tr("Choose the model"), "Ctrl+M", window.model_button.open_menu),
            _Row(tr("How the model runs"), RUN_KEYS, window.run_button.open_panel),
            _Row(tr("Memory in detail"), "Ctrl+Alt+M", self.show_memory),
            _Row(tr("Open a draft folder"), "", window.run_button.ask_folder),
            _Row(tr("Open a draft file"), "", window.run_button.ask_file),
            _Row(tr("Open a model file"), "", window.model_button.ask_file),
            _Row(tr("Open a model folder"), "", window.model_button.ask_folder),
            *self._chat_rows(),
            _Row(tr("Show or hide the conversations"), "Ctrl+B", self.toggle_sidebar),
            _Row(tr("Show or hide the performance panel"), "Ctrl+P", self.toggle_performance),
            _Row(tr("Light, dark or same as system"), "Ctrl+Shift+L", self.next_theme),
            *(
                _Row(words, "", partial(self._services.settings.change, theme=choice))
                for choice, words in (
                    (ThemeChoice.LIGHT, tr("Theme: light")),
                    (ThemeChoice.DARK, tr("Theme: dark")),
                    (ThemeChoice.SYSTEM, tr("Theme: same as system")),
                )
            ),
            _Row(tr("Language"), "", self._ask_language),
            _Row(tr("Larger text"), "Ctrl++", lambda: self._resize_texts(1)),
            _Row(tr("Smaller text"), "Ctrl+-", lambda: self._resize_texts(-1)),
            _Row(tr("Reset text size"), "Ctrl+0", lambda: self._resize_texts(0)),
            _Row(tr("Settings"), "Ctrl+,", window.settings_asked.emit),
            _Row(tr("All commands"), "Ctrl+Shift+P", self.show_palette),
            _Row(tr("Keyboard shortcuts"), "F1", self.show_shortcuts),
            _Row(tr("Check for a new version"), "", window.update_asked.emit),
            _Row(tr("About Duotail"), "", self.show_about),
            _Row(tr("Close Duotail"), "Ctrl+Q", window.close),
        ]

    def _chat_rows(self) -> list[_Row]:
        """Return what is done with the chat on show."""
        session, chat = self._services.session, self._window.chat
        return [
            _Row(tr("Stop the answer or loading"), "Esc", self._stop),
            _Row(tr("Regenerate the last answer"), "Ctrl+R", session.regenerate),
            _Row(tr("Continue the last answer"), "Ctrl+Return", self._send_or_continue),
            _Row(tr("Copy the last answer"), "Ctrl+Shift+C", self._copy_answer),
            _Row(tr("Show the rounds of the last answer"), "Ctrl+Shift+R", self._show_rounds),
            _Row(tr("Compare side by side"), "", self._window.comparison_asked.emit),
            _Row(tr("Undo the last deletion"), "Ctrl+Z", session.undo_deletion),
            _Row(tr("Sampling"), "Ctrl+T", chat.open_setup),
            _Row(tr("Think before answering"), "Ctrl+Shift+K", chat.toggle_thinking),
            _Row(tr("Tools of this chat"), "Ctrl+Shift+U", chat.open_tools),
            _Row(tr("Go to the tool that waits"), "Ctrl+J", chat.show_waiting_call),
            _Row(tr("Attach files"), "Ctrl+O", chat.outgoing.ask_for_files),
            _Row(tr("Attach a folder"), "", chat.outgoing.ask_for_folder),
            _Row(tr("Edit prompts"), "", chat.prompt_menu.manage_asked.emit),
            _Row(tr("Jump to the end"), "Ctrl+End", chat.transcript.jump_to_end),
            _Row(tr("Temperature"), "", chat.open_setup),
            _Row(tr("System prompt"), "", chat.open_setup),
            *(
                _Row(words, "", partial(self._export, form))
                for form, words in (
                    ("md", tr("Export this chat as Markdown\N{HORIZONTAL ELLIPSIS}")),
                    ("html", tr("Export this chat as HTML\N{HORIZONTAL ELLIPSIS}")),
                    ("pdf", tr("Export this chat as PDF\N{HORIZONTAL ELLIPSIS}")),
                )
            ),
            _Row(tr("Duplicate this chat"), "", session.duplicate),
        ]

    def _action(self, row: _Row) -> QAction:
        action = QAction(row.words, self, shortcut=QKeySequence(row.keys))
        action.triggered.connect(lambda _=False: row.call())
        return action

    def new_chat(self) -> None:
        """Start a conversation."""
        self._services.session.open(None)
        self._window.chat.composer.field.setFocus()

    def toggle_sidebar(self) -> None:
        """Show or hide the conversations."""
        self._show_sidebar(visible=not self._window.sidebar.isVisible())

    def toggle_performance(self) -> None:
        """Show or hide the performance panel."""
        panel = self._window.performance
        panel.setVisible(not panel.isVisible())
        self._services.settings.change(performance_visible=panel.isVisible())

    def next_theme(self) -> None:
        """Go on to the next of light, dark and as the system."""
        order = list(ThemeChoice)
        choice = order[(order.index(self._services.theme.choice) + 1) % len(order)]
        self._services.settings.change(theme=choice)

    def _export(self, form: str) -> None:
        self._window.sidebar.export(self._services.session.current, form)

    def _ask_language(self) -> None:
        """Languages are among the settings, whose first page is that of looks."""
        self._window.settings_asked.emit()

    def _resize_texts(self, steps: int) -> None:
        settings = self._services.settings
        settings.change(font_scale=settings.value.font_scale_after(steps))

    def show_palette(self) -> None:
        """Open the list of all commands."""
        from app.shell.palette import CommandPalette

        _open(CommandPalette([*self.all, *self._window.sidebar.commands.general], self._window))

    def show_shortcuts(self) -> None:
        """Open the list of shortcuts."""
        from app.shell.about import ShortcutsDialog

        _open(ShortcutsDialog([each for each in self.shortcuts if each[1]], self._window))

    def show_about(self) -> None:
        """Open About."""
        from app.shell.about import AboutDialog

        _open(AboutDialog(self._window))

    def show_memory(self) -> None:
        """Open what is held of every memory, and what was foreseen."""
        from app.shell.memory_detail import MemoryDialog  # not before it is asked for

        _open(MemoryDialog(self._window.memory, self._window))

    def _show_sidebar(self, *, visible: bool) -> None:
        self._window.sidebar.setVisible(visible)
        self._services.settings.change(sidebar_visible=visible)

    def _focus_search(self) -> None:
        self._show_sidebar(visible=True)
        self._window.sidebar.search.setFocus()
        self._window.sidebar.search.selectAll()

    def _find(self) -> None:
        self._window.pages.show_chat()
        self._window.chat.open_search()

    def _focus_list(self) -> None:
        self._show_sidebar(visible=True)
        self._window.sidebar.focus_list()

    def _stop(self) -> None:
        search, status = self._window.sidebar.search, self._services.bridge.status
        if self._services.session.busy:
            self._services.session.stop()
        elif search.text():
            search.clear()
        elif self._window.pages.shown is None and self._services.settings.value.first_start:
            self._services.settings.change(first_start=False)
        elif status.phase is Phase.LOADING or status.measuring or status.aside is not None:
            self._services.models.running.call_off()
        elif self._window.pages.shown is not None:
            self._window.pages.show_chat()
        else:
            self._window.chat.composer.field.setFocus()

    def _send_or_continue(self) -> None:
        composer = self._window.chat.composer
        if composer.field.toPlainText().strip():
            composer.send()
        else:
            self._services.session.continue_answer()

    def _copy_answer(self) -> None:
        answer = self._window.chat.transcript.last_answer()
        if answer is not None:
            answer.copy()

    def _show_rounds(self) -> None:
        transcript = self._window.chat.transcript
        answer = transcript.last_answer()
        if answer is not None:
            transcript.requests.show_rounds.emit(answer.message.id)


def _open(dialog: QDialog) -> None:
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()
