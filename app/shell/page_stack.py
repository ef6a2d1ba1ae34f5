"""The middle of the window: the chat, or one of the pages, which are made when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.chat.page import ChatPage
from app.shell.page_names import PageName
from app.signals import TypedSignal
from app.widgets.page_frame import PageFrame

PageMakers = Mapping[PageName, Callable[[], PageFrame]]


class PageStack(QStackedWidget):
    """Shows the chat until told otherwise.

    Args:
        chat: the chat.
        makers: called once each.
    """

    changed = TypedSignal[PageName | None]()
    """The `PageName` on show, or None for the chat."""
    sidebar_asked = Signal()

    def __init__(self, chat: ChatPage, makers: PageMakers, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chat, self._makers = chat, makers
        self._pages: dict[PageName, PageFrame] = {}
        self._instead: PageFrame | None = None
        self.shown: PageName | None = None
        self.addWidget(chat)

    def page(self, name: PageName) -> PageFrame:
        """A page, made if it has not been."""
        if name not in self._pages:
            page = self._makers[name]()
            page.closed.connect(self.show_chat)
            page.sidebar_asked.connect(self.sidebar_asked)
            self._pages[name] = page
            self.addWidget(page)
        return self._pages[name]

    def open(self, name: PageName) -> None:
        """Show a page, with the keyboard in it."""
        page = self.page(name)
        self._show(name, page)
        page.take_keyboard()

    def open_instead(self, name: PageName, page: PageFrame) -> None:
        """Show another page in the place of one; it is gone as soon as anything else is shown."""
        page.closed.connect(self.show_chat)
        page.sidebar_asked.connect(self.sidebar_asked)
        self.addWidget(page)
        self._show(name, page)
        self._instead = page
        page.take_keyboard()

    @property
    def body(self) -> QWidget:
        """Area between header and foot of the page on show."""
        shown = self.currentWidget()
        return shown.body if isinstance(shown, PageFrame) else self._chat.body

    def toggle(self, name: PageName) -> None:
        """Show a page, or the chat again if it is shown already."""
        if self.shown is name:
            self.show_chat()
        else:
            self.open(name)

    def show_chat(self) -> None:
        """Go back to the chat."""
        self._show(None, self._chat)

    def _show(self, name: PageName | None, widget: QWidget) -> None:
        instead, self._instead = self._instead, None
        if widget is not self.currentWidget():
            self.setCurrentWidget(widget)
        if instead is not None:
            self.removeWidget(instead)
            instead.deleteLater()
        if name is not self.shown:
            self.shown = name
            self.changed.emit(name)
