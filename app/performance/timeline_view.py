"""The timeline: a draft lane above a verify lane, so that overlap and waiting can be seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QMouseEvent,
    QPainter,
    QPen,
    QPolygonF,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from app.performance import wording
from app.performance.frames import PaintedView
from app.performance.idle import Gap, gaps
from app.performance.sight import Sight
from app.performance.tables import of_rounds
from app.performance.timeline import Lane, Stretch, TimelineBlock, blocks, overlaps
from app.theme.fonts import keep_sized, scaled
from app.theme.icons import IconButton
from app.theme.theme import current
from app.theme.tokens import Tokens
from app.widgets.painted import SIDE, TOP, blend, hatch
from app.widgets.painting import shortened
from app.widgets.table import Table
from app.widgets.terms import explained
from engine.events import RoundFinished
from engine.language import later, tr

if TYPE_CHECKING:
    from app.performance.series import Floats

_LANE = 26
_ROOMY_LANE = 40
_COPY_LANE = 12
_LANE_GAP = 6
_LEGEND = later("Draft: solid useful, hatched wasted, outlined undecided. Tinted: both busy.")
_COLUMNS_LEGEND = later("The height says how busy each was. Zoom in to see every round.")
_NARROWEST = 8.0
"""Pixels of a round below which columns are drawn instead of rounds."""
_COLUMN = 2
_METER = 6
"""Height of the little bar that shows a round's accepted share."""
_BUTTON = 24
_NEAR = 20
"""Rounds on either side among which the gap under the mouse is looked for."""
_NOTCH = 120
"""Angle that one click of a mouse wheel turns."""


class TimelineView(PaintedView):
    """The whole answer to scale, or a part of it. Rounds too short to see become columns.

    Verification is solid, plain rounds are outlined, copies have a lane below.

    Drafting is solid as high up as the share of it that was useful, hatched above, where it was
    thrown away, and only outlined where nobody knows yet. Gaps say what the lane waits for, where
    there is room. Below each round stand accepted/drafted and a bar, solid as far as tokens were
    accepted and hollow for the rejected rest. Where both lanes work at once the ground between is
    tinted.

    Args:
        sight: the stretch of time on show.
        roomy: with high lanes, where there is room.
    """

    def __init__(self, sight: Sight, parent: QWidget | None = None, *, roomy: bool = False) -> None:
        self._lane = _ROOMY_LANE if roomy else _LANE
        self._roomy = roomy
        super().__init__(tr("Timeline of drafting and verifying"), sight, parent)
        self.setMouseTracking(True)
        self._turned = 0
        # As they lie, from left to right: Tab goes so.
        self.whole = IconButton("fit", tr("Show the whole answer"), self, shortcut="0")
        self.farther = IconButton("minus", tr("Show more time"), self, shortcut="-")
        self.closer = IconButton("plus", tr("Show less time"), self, shortcut="+")
        self.whole.clicked.connect(self.sight.fit)
        self.closer.clicked.connect(lambda: self.sight.zoom(1))
        self.farther.clicked.connect(lambda: self.sight.zoom(-1))
        keep_sized(self, self._size_buttons)

    def _size_buttons(self) -> None:
        for button in self._buttons:
            button.setFixedSize(scaled(_BUTTON), scaled(_BUTTON))
        self._place_buttons()

    @property
    def _buttons(self) -> tuple[IconButton, ...]:
        """Return the buttons of the header, from left to right."""
        return self.whole, self.farther, self.closer

    def height_for(self, room: float) -> float:  # noqa: ARG002
        """Header, the lanes, the rounds' bars and counts, the axis."""
        lanes = self._lowest.bottom() - self.header_height
        return self.header_height + lanes + 6 + _METER + 2 * self.small_metrics.height() + 4

    def set_fonts(self) -> None:
        """The lanes' names stand to the left of them."""
        super().set_fonts()
        names = (tr("Draft"), tr("Verify"), tr("Copy"))
        self._left = math.ceil(max(map(self.small_metrics.horizontalAdvance, names))) + 8

    @property
    def header_height(self) -> float:
        """The buttons need a little more."""
        return max(super().header_height, scaled(_BUTTON))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The buttons stand at the right end of the header."""
        super().resizeEvent(event)
        self._place_buttons()

    def _place_buttons(self) -> None:
        side = scaled(_BUTTON)
        left = self.width() - SIDE - len(self._buttons) * side
        for place, button in enumerate(self._buttons):
            button.move(left + place * side, 3)

    def describe(self) -> str:
        """Return where the time goes, and the round pointed at or else the newest one."""
        sight = self.sight
        sentence = wording.where_time_goes(sight.timeline, sight.tally)
        if not sight.timeline.rounds:
            return sentence
        done = sight.rounds[0] if sight.rounds else sight.timeline.rounds[-1]
        return f"{sentence} {wording.one_round(done)}."

    def table(self) -> Table:
        """See `tables.of_rounds`."""
        return of_rounds(self.accessibleName(), self.sight.timeline)

    # -- geometry --------------------------------------------------------------------------

    def _lane_rect(self, lane: Lane) -> QRectF:
        top = self.header_height + list(Lane).index(lane) * (self._lane + _LANE_GAP)
        height = _COPY_LANE if lane is Lane.COPY else self._lane
        return QRectF(self._left, top, self.room - self._left, height)

    @property
    def _lanes(self) -> list[Lane]:
        """Return the lanes on show."""
        return [lane for lane in Lane if lane is not Lane.COPY or self.sight.timeline.copies]

    @property
    def _lowest(self) -> QRectF:
        return self._lane_rect(self._lanes[-1])

    @property
    def _view(self) -> Stretch | None:
        return self.sight.stretch(self.room - self._left)

    # -- the picture -----------------------------------------------------------------------

    def paint(self, painter: QPainter) -> None:
        """Draw tracks, blocks, then what each round brought."""
        tokens, view = current(), self._view
        self._paint_header(painter, view)
        self._paint_tracks(painter, tokens)
        if view is None:
            return
        rounds = self.sight.timeline.between(view.start, view.end)
        if self._dense:
            self._paint_columns(painter, tokens, view)
        else:
            self._paint_rounds(painter, tokens, view, rounds)
        self._paint_axis(painter, tokens, self._lowest, view)

    @property
    def _dense(self) -> bool:
        """True if the rounds in view are too narrow to be seen one by one."""
        view = self._view
        if view is None:
            return False
        rounds = self.sight.timeline.between(view.start, view.end)
        return len(rounds) * _NARROWEST > view.width

    def _paint_rounds(
        self, painter: QPainter, tokens: Tokens, view: Stretch, rounds: list[RoundFinished]
    ) -> None:
        lanes = {lane: self._lane_rect(lane) for lane in Lane}
        draft, verify = lanes[Lane.DRAFT], lanes[Lane.VERIFY]
        shown = blocks(rounds, view)
        for left, right in overlaps(shown):
            band = QRectF(
                draft.left() + left, draft.top(), right - left, verify.bottom() - draft.top()
            )
            painter.fillRect(band, blend(tokens.warning, tokens.sunken, 0.28))
        for block in shown:
            self._paint_block(painter, tokens, block, lanes[block.lane])
        pixel = (view.end - view.start) / view.width
        for gap in gaps(rounds, view.start, view.end, fine=pixel):
            self._paint_gap(painter, tokens, gap, view)
        self._paint_outcomes(painter, tokens, shown, self._lowest)

    def _paint_columns(self, painter: QPainter, tokens: Tokens, view: Stretch) -> None:
        """Paint how busy each lane was, and below them the accepted share of the drafted tokens."""
        import numpy as np  # a start does without

        timeline, width = self.sight.timeline, view.width
        count = max(int(width / _COLUMN), 1)
        edges = np.linspace(view.start, view.end, count + 1)
        step = (view.end - view.start) / count
        colours = {Lane.DRAFT: tokens.draft, Lane.VERIFY: tokens.verify, Lane.COPY: tokens.muted}
        for lane in self._lanes:
            rect, colour = self._lane_rect(lane), QColor(colours[lane])
            shares = timeline.busy[lane].between(edges) / step
            if lane is Lane.DRAFT:
                painter.fillRect(rect, blend(tokens.draft, tokens.sunken, 0.15))
                painter.fillRect(rect, hatch(colour))
                _fill(painter, rect, shares, QColor(tokens.sunken), above=True)
                shares = timeline.useful.between(edges) / step
            _fill(painter, rect, shares, colour)
        drafted = timeline.drafted.between(edges)
        accepted = timeline.accepted.between(edges) / np.maximum(drafted, 1e-9)
        lowest = self._lowest
        meter = QRectF(lowest.left(), lowest.bottom() + 6, width, _METER)
        painter.fillRect(meter, QColor(tokens.sunken))
        _fill(painter, meter, accepted, QColor(tokens.success))
        painter.setFont(self.small)
        painter.setPen(QColor(tokens.muted))
        below = QRectF(meter.left(), meter.bottom() + 2, width, self.small_metrics.height())
        tally = self.sight.tally
        if tally is not None and tally.drafted:
            said = tr("{share} of the drafted tokens accepted")
            said = said.format(share=wording.percent(tally.accepted_share))
            painter.drawText(below, Qt.AlignmentFlag.AlignLeft, shortened(said, self.small, width))

    def _paint_header(self, painter: QPainter, view: Stretch | None) -> None:
        shown, taken, sight = "", float(len(self._buttons) * scaled(_BUTTON)), self.sight
        if view is not None:
            span = wording.duration(sight.span)
            shown = tr("whole answer, {time}") if sight.fits else tr("{time} of it")
            shown = shown.format(time=span)
        title, legend = tr("Timeline"), tr(_COLUMNS_LEGEND if self._dense else _LEGEND)
        if self._roomy and shown:
            both = tr("{shown}    {legend}").format(shown=shown, legend=legend)
            left = self.title_metrics.horizontalAdvance(title) + 8
            fits = self.small_metrics.horizontalAdvance(both) <= self.room - left - taken
            shown = both if fits else shown
        painter.save()
        painter.translate(0, (self.header_height - self.title_metrics.height() - 4) / 2)
        self.paint_title(painter, title, shown, taken)
        painter.restore()

    def _paint_tracks(self, painter: QPainter, tokens: Tokens) -> None:
        painter.setFont(self.small)
        names = (tr("Draft"), tr("Verify"), tr("Copy"))
        for lane, name in zip(self._lanes, names, strict=False):
            rect = self._lane_rect(lane)
            painter.fillRect(rect, QColor(tokens.sunken))
            painter.setPen(QColor(tokens.muted))
            label = QRectF(0, rect.center().y() - _LANE / 2, self._left, _LANE)
            painter.drawText(label, Qt.AlignmentFlag.AlignVCenter, name)

    def _paint_gap(self, painter: QPainter, tokens: Tokens, gap: Gap, view: Stretch) -> None:
        """Paint what a lane waits for, where the words have room."""
        lane = self._lane_rect(gap.lane)
        left, right = max(view.x(gap.start), 0.0), min(view.x(gap.end), view.width)
        if right - left < self.small_metrics.averageCharWidth() + 6:
            return  # hundreds of them
        wordings = (gap.cause.words, gap.cause.short)
        for words in (gap.cause.full, *wordings) if self._roomy else wordings:
            if self.small_metrics.horizontalAdvance(words) + 6 <= right - left:
                break
        else:
            return
        painter.setFont(self.small)
        painter.setPen(QColor(tokens.muted))
        area = QRectF(lane.left() + left, lane.top(), right - left, lane.height())
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter, words)

    def _paint_block(
        self, painter: QPainter, tokens: Tokens, block: TimelineBlock, lane: QRectF
    ) -> None:
        left = lane.left() + block.left
        # A hair of space tells neighbours apart; the shortest work is still seen.
        width = max(block.right - block.left - 1, 1.0)
        rect = QRectF(left, lane.top() + 1, width, lane.height() - 2)
        outlined = rect.adjusted(0.5, 0.5, -0.5, -0.5)
        if block.lane is Lane.COPY:
            painter.fillRect(rect, QColor(tokens.muted))
            return
        if block.lane is Lane.DRAFT:
            colour = QColor(tokens.draft)
            self._fill_drafting(painter, tokens, block.round, rect)
        elif block.plain:
            colour = QColor(tokens.verify)
            painter.fillRect(rect, blend(tokens.verify, tokens.sunken, 0.12))
        else:
            painter.fillRect(rect, QColor(tokens.verify))
            return
        if width < 3:
            painter.fillRect(rect, blend(colour.name(), tokens.sunken, 0.6))
            return
        painter.setPen(QPen(colour, 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(outlined)

    def _fill_drafting(
        self, painter: QPainter, tokens: Tokens, done: RoundFinished, rect: QRectF
    ) -> None:
        """Solid below, hatched above: the useful share of the drafting that the round decided."""
        colour = QColor(tokens.draft)
        painter.fillRect(rect, blend(tokens.draft, tokens.sunken, 0.15))
        decided = done.useful_s + done.wasted_s
        if decided <= 0:
            return
        split = round(rect.height() * done.wasted_s / decided)
        painter.fillRect(rect.adjusted(0, 0, 0, split - rect.height()), hatch(colour))
        painter.fillRect(rect.adjusted(0, split, 0, 0), blend(tokens.draft, tokens.sunken, 0.8))

    def _paint_outcomes(
        self, painter: QPainter, tokens: Tokens, blocks: list[TimelineBlock], lowest: QRectF
    ) -> None:
        top, verify = lowest.bottom() + 6, self._lane_rect(Lane.VERIFY)
        free_from = -1.0
        for block in blocks:
            if block.lane is not Lane.VERIFY:
                continue
            left, width = verify.left() + block.left, max(block.right - block.left - 1, 1.0)
            done = block.round
            if done.drafted:
                share = width * done.accepted / done.drafted
                painter.setPen(QPen(QColor(tokens.muted), 1))
                painter.drawRect(QRectF(left + 0.5, top + 0.5, max(width - 1, 0), _METER - 1))
                painter.fillRect(QRectF(left, top, share, _METER), QColor(tokens.success))
            text = f"{done.accepted}/{done.drafted}" if done.drafted else "–"
            needed = self.small_metrics.horizontalAdvance(text)
            text_left = min(left + width / 2 - needed / 2, verify.right() - needed)
            if text_left >= max(free_from, self._left - 2):
                painter.setPen(QColor(tokens.text if done.drafted else tokens.muted))
                line = top + _METER + 2 + self.small_metrics.ascent()
                painter.drawText(QPointF(text_left, line), text)
                free_from = text_left + needed + 4

    def _paint_axis(self, painter: QPainter, tokens: Tokens, lowest: QRectF, view: Stretch) -> None:
        """Write the time since the answer's first round below both ends and the middle."""
        top = lowest.bottom() + 6 + _METER + 2 + self.small_metrics.height()
        below = QRectF(lowest.left(), top, lowest.width(), self.small_metrics.height())
        painter.setFont(self.small)
        painter.setPen(QColor(tokens.muted))
        first = view.start - (self.sight.timeline.begun or 0.0)
        for share, side in (
            (0.0, Qt.AlignmentFlag.AlignLeft),
            (0.5, Qt.AlignmentFlag.AlignHCenter),
            (1.0, Qt.AlignmentFlag.AlignRight),
        ):
            at = first + share * (view.end - view.start)
            painter.drawText(below, side, wording.since_begin(at))

    def paint_over(self, painter: QPainter) -> None:
        """Paint a frame around the round pointed at, and the cursor."""
        view, at = self._view, self.sight.cursor
        if view is None or at is None:
            return
        tokens = current()
        top, bottom = self._lane_rect(Lane.DRAFT).top(), self._lowest.bottom()
        painter.setPen(QPen(QColor(tokens.text), 1))
        for block in blocks(list(self.sight.rounds[:1]), view):
            lane = self._lane_rect(block.lane)
            width = max(block.right - block.left - 1, 1.0)
            box = QRectF(lane.left() + block.left, lane.top(), width, lane.height())
            painter.drawRect(box.adjusted(-1.5, -1.5, 1.5, 1.5))
        if view.start <= at <= view.end:
            x = math.floor(self._left + view.x(at)) + 0.5
            painter.drawLine(QPointF(x, top - 3), QPointF(x, bottom + 3))

    # -- mouse and keyboard ----------------------------------------------------------------

    def _round_at(self, x: float, y: float) -> RoundFinished | None:
        """The round under a point of the lanes."""
        view = self._view
        if view is None or not 0 <= x - self._left <= view.width:
            return None
        time = view.time(x - self._left)
        found = self.sight.timeline.between(time, time)
        if not found:
            return None
        on_draft = self._lane_rect(Lane.DRAFT).contains(QPointF(x, y))
        drafting = [
            each for each in found if each.draft and each.draft.start <= time <= each.draft.end
        ]
        return (drafting if on_draft and drafting else found)[0]

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Point at the round under the mouse."""
        super().mouseMoveEvent(event)
        x, y, view = event.position().x() - SIDE, event.position().y() - 6, self._view
        if view is None or x < self._left:
            self.sight.point(None)
            return
        done = self._round_at(x, y)
        self.sight.point(view.time(x - self._left), (done,) if done else ())

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Hide the cursor without a mouse."""
        super().leaveEvent(event)
        self.sight.point(None)

    def words_at(self, place: QPointF) -> str:
        """Return a description of the round, the gap or the name of a lane at a place."""
        x, y = place.x() - SIDE, place.y() - TOP
        if x < self._left:
            terms = ((Lane.DRAFT, tr("Draft")), (Lane.VERIFY, tr("Round")))
            rects = ((self._lane_rect(lane), term) for lane, term in terms)
            return next((explained(each) for r, each in rects if r.top() <= y <= r.bottom()), "")
        view, done = self._view, self._round_at(x, y)
        if view is None:
            return ""
        time = view.time(x - self._left)
        words = [wording.one_round(done)] if done else []
        near = self.sight.span / max(len(self.sight.timeline.rounds), 1) * _NEAR
        start, end = time - near, time + near
        words += [
            tr("{cause}: {time}").format(
                cause=gap.cause.full, time=wording.duration(gap.end - gap.start)
            )
            for gap in gaps(self.sight.timeline.between(start, end), start, end)
            if gap.start <= time < gap.end and self._lane_rect(gap.lane).contains(QPointF(x, y))
        ]
        return "\n".join(words)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Turning zooms; sideways, or with Shift, moves through time."""
        turn = event.angleDelta()
        sideways = turn.x() or (
            turn.y() if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 0
        )
        view = self._view
        if view is None:
            event.ignore()
            return
        if sideways:
            self.sight.go_to(view.end - sideways / _NOTCH * 0.2 * self.sight.span)
        else:
            self._turned += turn.y()
            steps, self._turned = int(self._turned / _NOTCH), int(math.fmod(self._turned, _NOTCH))
            if steps:
                x = event.position().x() - SIDE - self._left
                self.sight.zoom(steps, view.time(min(max(x, 0.0), view.width)))
        event.accept()

    def key(self, key: Qt.Key) -> bool:
        """Arrows walk the rounds, + and - zoom, Escape follows the newest round again."""
        match key:
            case Qt.Key.Key_Left:
                self.sight.walk(-1)
            case Qt.Key.Key_Right:
                self.sight.walk(1)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self.sight.zoom(1, self.sight.cursor)
            case Qt.Key.Key_0:
                self.sight.fit()
            case Qt.Key.Key_Minus:
                self.sight.zoom(-1, self.sight.cursor)
            case Qt.Key.Key_Home if self.sight.timeline.rounds:
                self.sight.point_round(self.sight.timeline.rounds[0])
                self.sight.reveal(self.sight.timeline.rounds[0])
            case Qt.Key.Key_End | Qt.Key.Key_Escape if self.sight.lags or self.sight.cursor:
                self.sight.point(None)
                self.sight.go_to(None)
            case _:
                return False
        return True


def _fill(
    painter: QPainter, area: QRectF, shares: Floats, colour: QColor, *, above: bool = False
) -> None:
    """Fill columns up to their shares, 0 to 1 of an area's height, or what is `above` them."""
    step, base = area.width() / len(shares), area.top() if above else area.bottom()
    corners = [QPointF(area.left(), base)]
    tops = area.bottom() - shares.clip(0.0, 1.0) * area.height()
    for place, top in enumerate(tops.round().tolist()):
        left = area.left() + place * step
        corners += [QPointF(left, top), QPointF(left + step, top)]
    corners.append(QPointF(area.right(), base))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawPolygon(QPolygonF(corners))
