"""Joins the open conversation with its tools; nothing of them is made before one uses some."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.engine_link.bridge import EngineBridge
from app.history import HistoryStore, StoredMessage
from app.session.session import ChatSession
from engine.request import NO_TOOLS, Role, ToolChoice

if TYPE_CHECKING:
    from app.tools.loop import ToolLoop
    from app.tools.toolbox import Toolbox


class ToolAccess(QObject):
    """Joins a session with the tools that its conversations use.

    Args:
        session: offers them to its answers.
        store: keeps calls and results.
        bridge: to the engine.
        path: file of what is kept of tools.
        parent: the owner.
    """

    began = Signal()
    """The loop is made."""
    changed = Signal()
    """A call is another phase on, or there are other tools."""

    def __init__(
        self,
        session: ChatSession,
        store: HistoryStore,
        bridge: EngineBridge,
        path: Path,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._store = session, store
        self._bridge, self._path = bridge, path
        session.offers = self._offers
        session.opened.connect(lambda _: self._look())
        session.changed.connect(self._look)

    @cached_property
    def toolbox(self) -> Toolbox:
        """All tools there are."""
        from app.tools.toolbox import Toolbox

        toolbox = Toolbox(self._path, self)
        toolbox.changed.connect(self.changed)
        return toolbox

    @cached_property
    def loop(self) -> ToolLoop:
        """Runs calls, and knows how far they are."""
        from app.tools.loop import ToolLoop

        loop = ToolLoop(self._session, self._store, self.toolbox, self._bridge, self)
        loop.changed.connect(self.changed)
        self.began.emit()
        return loop

    @property
    def host(self) -> str:
        """The server whose model answers; empty: it runs here."""
        plan = self._bridge.status.plan
        return "" if plan is None else plan.host

    @property
    def chosen(self) -> int:
        """Number of tools that the conversation on show may use."""
        keys = self._session.setup.tools
        return len(self.toolbox.chosen(keys)) if keys else 0

    def close(self) -> None:
        """End whatever was started for tools."""
        if "toolbox" in self.__dict__:
            self.toolbox.close()

    def _offers(self) -> ToolChoice:
        keys = self._session.setup.tools
        if not keys or _repeated(self._session.messages):
            return NO_TOOLS
        return self.toolbox.choice(keys)

    def _look(self) -> None:
        """Make the loop where the conversation on show needs it."""
        if "loop" in self.__dict__:
            return
        called = any(message.role is Role.TOOL for message in self._session.messages[-1:])
        if called or self._session.setup.tools:
            self.loop.show_stored()


def _repeated(messages: Sequence[StoredMessage]) -> bool:
    """Tell whether the branch ends in a call that gave the same as the same one just before.

    Small models ask again and again for what they have been told. Without tools they answer.
    """
    said: list[tuple[str, str, str]] = []
    for message in reversed(messages):
        if message.role is Role.USER or len(said) > 1:
            break
        if message.role is Role.TOOL:
            said += [(call.name, call.arguments, message.text) for call in message.calls]
    return said[1:] != [] and said[0] == said[1]
