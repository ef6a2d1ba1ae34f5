"""The one account of what the engine does: fed by the bridge, looked at by panel and page."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from app.engine_link.status import is_aside
from app.performance.model import PerformanceModel
from app.performance.sight import Sight
from engine.events import Event


class Feed(QObject):
    """Takes the engine's events in, on the window's thread.

    Panel and page share the model, and what of it is looked at: what is frozen in one is frozen in
    the other.
    """

    arrived = Signal()
    """There is something for `model.advance`."""
    cleared = Signal()
    looked_at = Signal()
    """Somebody looks who did not before."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.model = PerformanceModel()
        self.sight = Sight(self.model, self)
        self._lookers: set[QObject] = set()

    def handle_all(self, events: Iterable[Event]) -> None:
        """Note events; costs next to nothing, the rest comes with a frame of who looks."""
        if self.model.feed(event for event in events if not _aside(event)):
            self.arrived.emit()

    def handle(self, event: Event) -> None:
        """Note one event."""
        self.handle_all((event,))

    def asked(self, at: float) -> None:
        """Note when the user pressed send, on the events' clock, for the time to first token."""
        self.model.asked(at)

    @property
    def watched(self) -> bool:
        """True if somebody looks."""
        return bool(self._lookers)

    def look(self, looker: QObject, *, looks: bool) -> None:
        """Note that somebody begins to look, or does so no longer."""
        if not looks:
            self._lookers.discard(looker)
        elif looker not in self._lookers:
            self._lookers.add(looker)
            self.looked_at.emit()

    def clear(self) -> None:
        """Forget everything measured so far."""
        self.model.clear()
        self.cleared.emit()


def _aside(event: Event) -> bool:
    request_id = getattr(event, "request_id", None)
    return request_id is not None and is_aside(request_id)
