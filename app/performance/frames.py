"""Painting of what the engine does: a few times a second, and only where it can be seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QWidget

from app.performance.feed import Feed
from app.performance.model import ModelChange
from app.performance.sight import Sight
from app.theme.theme import current
from app.widgets.escape import claims_escape
from app.widgets.painted import Painted
from engine.machine.cores import available_cores

_FRAME_MS = 250
_FRAME_ON_FEW_CORES_MS = 500
"""Time between two frames where every core writes the answer and each picture slows it down."""
_FEW_CORES = 4
_GRAPHS_EVERY = 2
"""Graphs over a minute move by less than a pixel in a frame, so they are drawn in every second."""
_SLICE_S = 0.006
_WORDS_EVERY_S = 1.0


class PaintedView(Painted):
    """Shows the stretch of time that is in sight, and the cursor in it."""

    def __init__(self, name: str, sight: Sight, parent: QWidget | None = None) -> None:
        self.sight = sight
        super().__init__(name, parent)

    def event(self, event: QEvent) -> bool:
        """Escape takes the cursor away before it stops an answer."""
        return (self.sight.cursor is not None and claims_escape(event)) or super().event(event)

    def paint_note(self, painter: QPainter, words: str) -> None:
        """Say below the title why there is no picture."""
        painter.setFont(self.small)
        painter.setPen(QColor(current().muted))
        line = QRectF(0, self.header_height, self.room, self.small_metrics.height())
        painter.drawText(line, words)

    def renew_description(self) -> None:
        """Say in words what the picture shows now."""
        words = self.describe()
        if words != self.accessibleDescription():
            self.setAccessibleDescription(words)


class FramePainter(QObject):
    """Paints the views of one widget, two or four times a second, while it can be seen.

    Painting takes processor time from the engine: nothing is painted while hidden, minimised or
    frozen, or without news. Every view gets a turn of the event loop to itself, so that nothing
    else has to wait for all of them.

    Args:
        feed: the measurements to show.
        host: the widget that the views lie in.
        quick: drawn in every frame while an answer is written.
        answers: about the answer too, drawn in every second frame.
        graphs: drawn in every second frame with any news.
    """

    graphs_due = Signal()
    """Graphs are about to be drawn: those of what is not measured here must be hidden now."""
    left = Signal()
    """Nobody looks any more."""
    words_due = Signal()
    """Texts are to be renewed; rarely, so that a reader, human or machine, can follow."""

    def __init__(
        self,
        feed: Feed,
        host: QWidget,
        quick: Sequence[PaintedView],
        answers: Sequence[PaintedView],
        graphs: Sequence[PaintedView],
    ) -> None:
        super().__init__(host)
        self._feed, self._host = feed, host
        self._quick, self._answers, self._graphs = list(quick), list(answers), list(graphs)
        self._stale = ModelChange.NOTHING
        self._count = 0
        self._described_at = -math.inf
        self._described = _account(feed.sight)
        few = available_cores() <= _FEW_CORES
        self._interval = _FRAME_ON_FEW_CORES_MS if few else _FRAME_MS
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.next)
        self._turns: dict[Callable[[], None], None] = {}
        self._turn = QTimer(self, interval=0)
        self._turn.timeout.connect(self._take_turn)
        feed.arrived.connect(self.schedule)
        feed.cleared.connect(self._cleared)
        feed.sight.changed.connect(self.paint_all)
        feed.sight.turned.connect(self._cleared)
        host.installEventFilter(self)

    @property
    def views(self) -> list[PaintedView]:
        """Return all views that are painted."""
        return [*self._quick, *self._answers, *self._graphs]

    @property
    def painting(self) -> bool:
        """True if views wait for their turn."""
        return bool(self._turns)

    @property
    def at_rest(self) -> bool:
        """True if nothing is to be painted."""
        waits = self.painting or self._feed.model.behind
        return not self._timer.isActive() and not (self._host.isVisible() and waits)

    def schedule(self) -> None:
        """Paint soon."""
        if self._host.isVisible() and not self._timer.isActive():
            self._timer.start(self._interval)

    def next(self) -> None:
        """Take in what came, and paint what of it is due."""
        if not self._host.isVisible() or self._host.window().isMinimized():
            return
        model, sight = self._feed.model, self._feed.sight
        self._stale |= model.advance(_SLICE_S)
        if model.behind:
            self._timer.start(0)
            return
        self._count += 1
        if sight.frozen:
            return
        sight.follow()
        answer = ModelChange.ANSWER in self._stale
        if answer:
            self._refresh(self._quick)
        if self._count % _GRAPHS_EVERY == 0:
            self.graphs_due.emit()
            if self._stale:
                self._refresh(self._answers if answer else ())
                self._refresh(self._graphs)
            self._stale = ModelChange.NOTHING
        elif self._stale:
            self._timer.start(self._interval)
        due = not self._described_at <= model.now < self._described_at + _WORDS_EVERY_S
        if due or self._described != _account(sight):
            self._describe()

    def paint_all(self) -> None:
        """Paint all views, as another stretch of time is shown."""
        self.graphs_due.emit()
        self._refresh(self.views)
        self._describe()

    def renew(self, view: PaintedView) -> None:
        """Paint one view anew, and renew the words."""
        self._refresh((view,))
        self._enqueue(self.words_due.emit)

    def _describe(self) -> None:
        """Renew the words."""
        self._described_at, self._described = self._feed.model.now, _account(self._feed.sight)
        self._enqueue(self.words_due.emit)
        for view in self.views:
            self._enqueue(view.renew_description)

    def _refresh(self, views: Sequence[PaintedView]) -> None:
        for view in views:
            if view.isVisibleTo(self._host):
                self._enqueue(view.refresh)

    def _enqueue(self, turn: Callable[[], None]) -> None:
        self._turns[turn] = None
        if not self._turn.isActive():
            self._turn.start()

    def _take_turn(self) -> None:
        if not self._host.isVisible() or not self._turns:
            self._turns.clear()
            self._turn.stop()
            return
        turn = next(iter(self._turns))
        del self._turns[turn]
        turn()

    def _cleared(self) -> None:
        self._stale = ModelChange.ANSWER | ModelChange.TIME
        self._described_at = -math.inf
        self._count = _GRAPHS_EVERY - 1
        self.schedule()

    def _shown(self) -> None:
        """Catch up with what happened while hidden."""
        self._stale = ModelChange.ANSWER | ModelChange.TIME
        self._described_at = -math.inf
        self._count = _GRAPHS_EVERY - 1
        self._feed.look(self, looks=True)
        self.next()

    def _hidden(self) -> None:
        """Rest while nobody looks."""
        self._timer.stop()
        self._feed.look(self, looks=False)
        self._feed.sight.point(None)
        self.left.emit()

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow the host: shown, hidden, in other colours."""
        match event.type():
            case QEvent.Type.Show:
                self._shown()
            case QEvent.Type.Hide:
                self._hidden()
            case QEvent.Type.PaletteChange:
                self.schedule()
        return False


def _account(sight: Sight) -> tuple[str, bool]:
    """Return which answer is on show, and whether it has ended."""
    tally = sight.tally
    return sight.timeline.request_id, tally is not None and tally.stats is not None
