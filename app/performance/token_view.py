"""The answer as its tokens: accepted, the target's own, rejected; linked with the timeline."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QFontMetricsF, QHideEvent, QMouseEvent, QPainter, QWheelEvent
from PySide6.QtWidgets import QButtonGroup, QScrollBar, QToolButton, QWidget

from app.performance import tables, wording
from app.performance.chip_layout import ChipLayout, Measures, PlacedToken, TokenDisplay
from app.performance.chip_painter import ChipPainter
from app.performance.frames import PaintedView
from app.performance.sight import Sight
from app.performance.tokens import AnswerTokens
from app.theme.fonts import scaled
from app.theme.theme import current
from app.widgets.button_group import keep_tab_on_checked
from app.widgets.painted import SIDE, ground
from app.widgets.table import Table
from engine.language import tr

_TOP = 6
_HEIGHT, _LOW = 300, 190
"""Most logical pixels of tokens, where there is room and where there is little."""
_BAR = 12
_BUTTON = 24
_SLICE_S = 0.004
_NOTCH = 120
_LINES_PER_NOTCH = 3
_MOST_CACHED = 20_000

Place = tuple[int, int]
"""A row of the layout, and a chip in it."""


class TokenView(PaintedView):
    """Scrolls by itself: of ten thousand tokens only those in view are painted.

    Click, Enter and the arrows point at a token's round, in the timeline and in the chat; pointing
    at a round there shows its tokens here.
    """

    def __init__(self, sight: Sight, parent: QWidget | None = None, *, roomy: bool = True) -> None:
        self._most = _HEIGHT if roomy else _LOW
        self._tokens: AnswerTokens | None = None
        self._widths: dict[str, float] = {}
        self.mode = TokenDisplay.TRACE
        self.chosen: Place | None = None
        """The token that the keyboard is on."""
        self.hovered: Place | None = None
        self._wanted: int | None = None
        self._follows = True
        """True if the end stays in view."""
        self._moving = False
        super().__init__(tr("Tokens"), sight, parent)
        self.chips = self._empty()
        self.setMouseTracking(True)
        self._bar = QScrollBar(Qt.Orientation.Vertical, self)
        self._bar.setRange(0, 0)
        self._bar.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._bar.setAccessibleName(tr("Scroll the tokens"))
        self._bar.valueChanged.connect(self._scrolled)
        self.buttons = {mode: self._mode_button(mode) for mode in TokenDisplay}
        group = QButtonGroup(self)
        for button in self.buttons.values():
            group.addButton(button)
        keep_tab_on_checked(group)
        self._growing = QTimer(self, singleShot=True, interval=0)
        self._growing.timeout.connect(self._grow)
        sight.pointed.connect(self._pointed)

    def _mode_button(self, mode: TokenDisplay) -> QToolButton:
        button = QToolButton(self)
        button.setText(tr(mode.value))
        button.setProperty("look", "quiet")
        button.setCheckable(True)
        button.setChecked(mode is self.mode)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        told = {
            TokenDisplay.ACCEPTED: tr("Show the text with the drafted tokens underlined"),
            TokenDisplay.TRACE: tr("Show every round with what was rejected"),
        }
        button.setAccessibleName(told[mode])
        button.setToolTip(told[mode])
        button.clicked.connect(lambda: self.show_mode(mode))
        return button

    # -- size ------------------------------------------------------------------------------

    def set_fonts(self) -> None:
        """Chips are as high as their text."""
        super().set_fonts()
        self._metrics = QFontMetricsF(self.font())
        self._widths.clear()

    def height_for(self, room: float) -> float:  # noqa: ARG002
        """Header, a fixed height of tokens, the line that explains one; or a line of words."""
        if not self.sight.written.tokens.rounds:
            return self.header_height + self.small_metrics.height()
        return self.header_height + scaled(self._most) + self.small_metrics.height() + 6

    @property
    def header_height(self) -> float:
        """The buttons need a little more."""
        return max(super().header_height, scaled(_BUTTON) + 4)

    @property
    def area(self) -> QRectF:
        """Return where tokens stand, in the painter's coordinates."""
        width = self.room - _BAR - 4
        return QRectF(0, self.header_height, width, scaled(self._most))

    @property
    def _measures(self) -> Measures:
        trace = self.mode is TokenDisplay.TRACE
        line = self._metrics.height() + (12 if trace else 6)
        gutter = self.small_metrics.horizontalAdvance("00000  00/00") + 12 if trace else 8.0
        mark = 13.0 if trace else 0.0
        return Measures(self._width, line, gutter, pad=6.0, mark=mark)

    def _width(self, text: str) -> float:
        width = self._widths.get(text)
        if width is None:
            if len(self._widths) > _MOST_CACHED:
                self._widths.clear()
            width = self._widths[text] = self._metrics.horizontalAdvance(text)
        return width

    def resize_to_fit(self) -> None:
        """Lay out anew for another width; what was at the top stays in view."""
        self._place_parts()
        if not self._follows and self._wanted is None:
            self._wanted = self.chips.first(self._bar.value() + 1)
        self.chips = self._empty()
        super().resize_to_fit()

    def _place_parts(self) -> None:
        area = self.area
        self._bar.setGeometry(
            round(SIDE + area.right() + 4), round(_TOP + area.top()), _BAR, round(area.height())
        )
        right = self.width() - SIDE
        for button in reversed(self.buttons.values()):
            width = button.sizeHint().width()
            right -= width
            button.setGeometry(right, _TOP - 2, width, scaled(_BUTTON))
            right -= 2

    # -- what is shown ---------------------------------------------------------------------

    def _empty(self) -> ChipLayout:
        return ChipLayout(self.mode, max(self.area.width(), 120.0), self._measures)

    def show_mode(self, mode: TokenDisplay) -> None:
        """Running text, or a line for each round."""
        if mode is not self.mode:
            if not self._follows and self._wanted is None:
                self._wanted = self.chips.first(self._bar.value() + 1)
            self.mode = mode
            self.buttons[mode].setChecked(True)
            self.chosen = self.hovered = None
            self.chips = self._empty()
            self.refresh()

    def refresh(self) -> None:
        """Take in what is new of the answer, or another one."""
        tokens = self.sight.written.tokens
        rows = self.chips.rows
        stale = len(rows) > len(tokens.rounds) or (
            bool(rows) and rows[-1].round is not tokens.rounds[len(rows) - 1]
        )
        if tokens is not self._tokens:
            self.chosen = self.hovered = self._wanted = None
            self._follows = True
        if tokens is not self._tokens or stale:
            self._tokens = tokens
            self.chips = self._empty()
        self._grow()

    def _grow(self) -> None:
        tokens = self._tokens
        if tokens is None:
            return
        if not self.chips.grow(tokens.rounds, _SLICE_S) and self.isVisible():
            self._growing.start()
        area = self.area
        most = max(math.ceil(self.chips.height - area.height()), 0)
        self._bar.setPageStep(max(round(area.height()), 1))
        self._bar.setSingleStep(round(self._measures.line))
        self._moving = True
        self._bar.setRange(0, most)
        self._bar.setVisible(bool(tokens.rounds) and most > 0)
        wanted = self._wanted
        if wanted is not None and wanted < len(self.chips.rows):
            self._wanted = None
            self._bring(self.chips.rows[wanted].top, self.chips.rows[wanted].bottom)
        elif self._follows and wanted is None and self._tally_runs:
            self._bar.setValue(most)
        self._moving = False
        super().refresh()

    @property
    def _tally_runs(self) -> bool:
        """True if the answer is still being written, so that its end is what to look at."""
        tally = self.sight.tally
        return tally is not None and tally.stats is None

    def describe(self) -> str:
        """The token that is chosen, or else how many there are."""
        found = self._chip(self.chosen)
        if found is not None and self.chosen is not None:
            done = self.chips.rows[self.chosen[0]].round.done
            return wording.one_token(done, found.token)
        return wording.token_counts(self.sight.written.tokens, self.sight.tally)

    def table(self) -> Table:
        """See `tables.of_tokens`."""
        return tables.of_tokens(self.accessibleName(), self.sight.written.tokens)

    def _chip(self, place: Place | None) -> PlacedToken | None:
        if place is None or place[0] >= len(self.chips.rows):
            return None
        chips = self.chips.rows[place[0]].chips
        return chips[place[1]] if place[1] < len(chips) else None

    # -- painting --------------------------------------------------------------------------

    def paint(self, painter: QPainter) -> None:
        """The header, and the rows in view."""
        tokens = self.sight.written.tokens
        buttons = sum(button.width() + 2 for button in self.buttons.values())
        note = wording.token_counts(tokens, self.sight.tally) if tokens.rounds else ""
        painter.save()
        painter.translate(0, (self.header_height - self.title_metrics.height()) / 2 - 2)
        self.paint_title(painter, tr("Tokens"), note, buttons)
        painter.restore()
        if not tokens.rounds:
            self.paint_note(painter, wording.token_counts(tokens, self.sight.tally))
            return
        area, top = self.area, self._bar.value()
        painter.save()
        painter.setClipRect(area)
        painter.fillRect(area, QColor(current().surface))
        painter.translate(area.left(), area.top() - top)
        chips = ChipPainter(painter, self.mode, self.font(), self.small, self._measures)
        for row in self.chips.between(top, top + area.height()):
            chips.paint(row)
        painter.restore()

    def paint_over(self, painter: QPainter) -> None:
        """The round pointed at, the token that is chosen, and what there is to say about it."""
        if not self.chips.rows:
            return
        area, top = self.area, self._bar.value()
        place = self.hovered or self.chosen
        painter.save()
        painter.setClipRect(area)
        painter.translate(area.left(), area.top() - top)
        chips = ChipPainter(painter, self.mode, self.font(), self.small, self._measures)
        tokens = self.sight.written.tokens
        for done in self.sight.rounds:
            row = tokens.place(done)
            if row is not None and row < len(self.chips.rows):
                chips.frame_round(self.chips.rows[row])
        for each, strong in ((self.hovered, False), (self.chosen, True)):
            chip = self._chip(each)
            if chip is not None:
                chips.frame(chip, strong=strong)
        painter.restore()
        self._explain(painter, place)

    def _explain(self, painter: QPainter, place: Place | None) -> None:
        area, found = self.area, self._chip(place)
        line = QRectF(0, area.bottom() + 4, self.room, self.small_metrics.height())
        painter.fillRect(line, QColor(ground(self, current())))
        painter.setFont(self.small)
        painter.setPen(QColor(current().muted if found is None else current().text))
        if found is None or place is None:
            words = tr("Point at a token, or walk with the arrows.")
        else:
            words = wording.one_token(self.chips.rows[place[0]].round.done, found.token)
        elided = self.small_metrics.elidedText(words, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, elided)

    # -- scrolling -------------------------------------------------------------------------

    def _scrolled(self) -> None:
        if not self._moving:  # somebody scrolled, and not the answer that grows
            self._follows = self._bar.value() >= self._bar.maximum()
        super().refresh()

    def _bring(self, top: float, bottom: float) -> None:
        """Scroll so that a stretch can be seen, with a little around it."""
        height, value, around = self.area.height(), self._bar.value(), self._measures.line
        if top < value:
            self._bar.setValue(math.floor(top - around))
        elif bottom > value + height:
            self._bar.setValue(math.ceil(bottom + around - height))

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Scrolls the tokens, and at their end the page."""
        pixels = event.pixelDelta().y()
        if not pixels:
            pixels = round(event.angleDelta().y() / _NOTCH * _LINES_PER_NOTCH * self._measures.line)
        before = self._bar.value()
        self._bar.setValue(before - pixels)
        event.setAccepted(self._bar.value() != before)

    # -- pointing --------------------------------------------------------------------------

    def _pointed(self) -> None:
        """Show the tokens of the round that is pointed at, wherever that was."""
        if not self.isVisible():
            return
        tokens = self.sight.written.tokens
        rounds = self.sight.rounds
        row = tokens.place(rounds[0]) if rounds else None
        if row is None:
            self.chosen = None
        elif row < len(self.chips.rows):
            if self.chosen is not None and self.chosen[0] != row:
                self.chosen = None
            found = self.chips.rows[row]
            self._bring(found.top, found.bottom)
        else:
            self._wanted, self._follows = row, False
        self.update()

    def choose(self, place: Place) -> None:
        """Point at a token and its round."""
        chip = self._chip(place)
        if chip is None:
            return
        self.chosen = place
        done = self.chips.rows[place[0]].round.done
        self._bring(chip.y, chip.y + self._measures.line)
        self.sight.reveal(done)
        self.sight.point_round(done)
        self.chosen = place
        self.setAccessibleDescription(self.describe())
        self.update()

    def _place_at(self, position: QPointF) -> Place | None:
        x, y = position.x() - SIDE, position.y() - _TOP
        area = self.area
        if not area.contains(QPointF(x, y)):
            return None
        return self.chips.at(x - area.left(), y - area.top() + self._bar.value())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Explain the token under the mouse."""
        super().mouseMoveEvent(event)
        place = self._place_at(event.position())
        if place != self.hovered:
            self.hovered = place
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Point at the token's round."""
        super().mousePressEvent(event)
        place = self._place_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and place is not None:
            event.accept()
            self.choose(place)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Belongs to the press."""
        event.accept()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Forget what was under the mouse."""
        super().leaveEvent(event)
        self.hovered = None
        self.update()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Rest while nobody looks."""
        self._growing.stop()
        super().hideEvent(event)

    def key(self, key: Qt.Key) -> bool:
        """Walk tokens with left and right, rounds with up and down; M changes the display."""
        match key:
            case Qt.Key.Key_Left | Qt.Key.Key_Right:
                self._step(1 if key is Qt.Key.Key_Right else -1)
            case Qt.Key.Key_Up | Qt.Key.Key_Down:
                self._step_round(1 if key is Qt.Key.Key_Down else -1)
            case Qt.Key.Key_Home:
                self._to_row(0, 1)
            case Qt.Key.Key_End:
                self._to_row(len(self.chips.rows) - 1, -1)
            case Qt.Key.Key_PageUp | Qt.Key.Key_PageDown:
                sign = 1 if key is Qt.Key.Key_PageDown else -1
                self._bar.setValue(self._bar.value() + sign * self._bar.pageStep())
            case Qt.Key.Key_M:
                self.show_mode(
                    TokenDisplay.ACCEPTED if self.mode is TokenDisplay.TRACE else TokenDisplay.TRACE
                )
            case Qt.Key.Key_Escape if self.sight.cursor is not None:
                self.sight.point(None)
            case _:
                return False
        return True

    def _step(self, step: int) -> None:
        if self.chosen is None:
            self._to_row(self._present_row, step, inside=False)
            return
        row, chip = self.chosen
        if 0 <= chip + step < len(self.chips.rows[row].chips):
            self.choose((row, chip + step))
        else:
            self._to_row(row + step, step)

    def _step_round(self, step: int) -> None:
        fresh = self.chosen is None and not self.sight.rounds
        self._to_row(self._present_row + (0 if fresh else step), step, inside=False)

    @property
    def _present_row(self) -> int:
        """Return the row of the round pointed at, or else the first in view."""
        if self.chosen is not None:
            return self.chosen[0]
        rounds = self.sight.rounds
        row = self.sight.written.tokens.place(rounds[0]) if rounds else None
        if row is not None:
            return row
        return self.chips.first(self._bar.value() + 1)

    def _to_row(self, row: int, step: int, *, inside: bool = True) -> None:
        """Choose a token of the first round from `row` on that has any.

        Coming from behind, `inside`, it is the last one.
        """
        while 0 <= row < len(self.chips.rows):
            chips = self.chips.rows[row].chips
            if chips:
                self.choose((row, len(chips) - 1 if step < 0 and inside else 0))
                return
            row += step
