"""The text of one message on the screen: rendered as it comes, with what is painted around it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
    QTextCursor,
)
from PySide6.QtWidgets import QToolTip, QWidget

from app.chat.text.backdrop import is_code, paint_region, region_box
from app.chat.text.highlight import CodeColours, load_lexer
from app.chat.text.line_boxes import BlockLines
from app.chat.text.markdown import BlockKind, MarkdownBlock
from app.chat.text.message_source import MessageSource
from app.chat.text.overlay import OverlayPainter
from app.chat.text.regions import Region, RegionKind
from app.chat.text.styles import CODE_HEADER, CODE_PADDING, prose_size
from app.chat.text.surface import TextSurface, changes_look
from app.chat.text.thought_view import QUIET, ThoughtView
from app.chat.text.tint import Ghost, Marks
from app.chat.text.writer import DocumentWriter
from app.markdown.formula_object import FormulaObject, paint_formulas
from app.theme.icons import IconButton
from app.theme.theme import current
from engine.events import TokenSpan
from engine.language import number, tr

_LONGEST = 200_000
"""Characters of one message that are laid out; the rest is only copied."""
_AT_ONCE = 4_000
"""Texts up to this length are laid out without a pause."""
_SLICE_S = 0.004
_COLOUR_S = 0.003
_PIECE = 500
"""Characters that are taken in or written between two looks at the clock."""
_FRAME_MS = 16
_AROUND = CODE_HEADER + CODE_PADDING
"""Pixels above and below a text that its background covers."""
_FOREVER = float("inf")


class TextView(TextSurface):
    """Shows the text of one message, all at once or while it is being written.

    `hovered` carries the place in the source text under the mouse (-1: none), at most once a
    frame. `settled` comes when a long text is laid out to its end. Places in the source count
    UTF-16 units.
    """

    hovered = Signal(int)
    settled = Signal()

    def __init__(
        self, name: str, parent: QWidget | None = None, *, within: TextView | None = None
    ) -> None:
        """`within`: the view of the answer that this is a thought of."""
        super().__init__(name, parent)
        self._within = within
        self._marks = Marks() if within is None else within.marks
        self._source = MessageSource()
        scale = QUIET if within else 1.0
        paint_formulas(self.document(), FormulaObject(self))
        self._writer = DocumentWriter(self.document(), self._source.offsets, scale)
        self._colours = CodeColours(self.document())
        self._overlay = OverlayPainter(self.document(), self._marks)
        self._thoughts: list[ThoughtView] = []
        self._thoughts_open = False
        self._buttons: list[IconButton] = []
        self._placed_width = 0
        self._waiting: deque[str] = deque()
        self._beyond: list[str] = []
        self._length = self._shown = self._restarts = 0
        self._live = self._ending = self._ended = False
        self._working = self._told_half = False
        """True if text is being written; whether a part of it was the last that was told of."""
        self.last_render_s = 0.0
        """Seconds that the last rendering took."""
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._go_on)
        self._pointer = QPointF(-1, -1)
        self._under = -1
        self._hover = QTimer(self, singleShot=True, interval=_FRAME_MS)
        self._hover.timeout.connect(self._say_hovered)
        self._wear_look()
        self.document().documentLayout().documentSizeChanged.connect(self._fit)

    @property
    def writer(self) -> DocumentWriter:
        """Return the writer of the blocks, for code that paints over them."""
        return self._writer

    @property
    def thoughts(self) -> int:
        """Return the number of thoughts in the text."""
        return len(self._thoughts)

    @property
    def marks(self) -> Marks:
        """Return the marks in the text."""
        return self._marks

    @property
    def raw_text(self) -> str:
        """The whole text as it came, also what is too long to show."""
        return "".join([self._source.text, *self._waiting, *self._beyond])

    def show_markdown(self, text: str) -> None:
        """Show a whole, finished text; the rest of a long one follows in slices."""
        self.prepare(text)
        self._begin_work(len(text))

    def prepare(self, text: str, *, start: int = 0, markdown: bool = True) -> None:
        """Get ready to show a whole text, found at `start` of its source; `work` lays it out."""
        self._restart(MessageSource(start, markdown=markdown))
        self._take(text)
        self._ending = True

    def reopen(self, text: str, *, start: int = 0, thoughts: bool = True) -> None:
        """Show a text, found at `start` of its source, that more will be appended to."""
        self._restart(MessageSource(start, thoughts=thoughts))
        self._take(text)
        self._begin_work(len(text))

    def append(self, text: str) -> None:
        """Show more of a text that is being written."""
        self._live = True
        self._take(text)
        self._begin_work(len(text))

    def finish(self) -> None:
        """Make all blocks final, as no more text comes."""
        self._ending = True
        self._begin_work(0)

    def complete(self) -> None:
        """Lay out at once what would follow in slices."""
        self.work(_FOREVER)
        self._colours.finish()

    def work(self, until: float) -> bool:
        """Lay out more, until about the time `until`; whether all of it is there."""
        started = time.perf_counter()
        self._working = True
        try:
            done = self._work(until)
        finally:
            self._working = False
        self._fit()
        self._place_widgets()
        if done and self._told_half:
            self._told_half = False
            self.resized.emit()  # nobody could rely on the places of lines before
        self.last_render_s = time.perf_counter() - started
        if done and self._colours.busy:
            self._colours.work(_COLOUR_S)
            if self._colours.busy:
                self._turn.start(0 if self._colours.ready else _FRAME_MS)
        return done

    @property
    def laid_out(self) -> bool:
        """True if all that has come is laid out."""
        source = self._source
        behind = bool(self._waiting) or self._shown < len(source.committed)
        return not behind and (self._ended or not self._ending)

    def set_tint(self, spans: Sequence[TokenSpan] | None) -> None:
        """Show where each stretch of text came from; None shows it no more."""
        self._marks.set_tint(spans or ())
        self._repaint()

    def add_tint(self, spans: Sequence[TokenSpan]) -> None:
        """Show where some more, later stretches came from."""
        self._marks.add_tint(spans)
        self._repaint()

    def add_ghost(self, at: int, text: str) -> None:
        """Show drafted `text` that the target refused, at the place where it would have stood."""
        self._marks.add_ghost(Ghost(at, text))
        self._repaint()

    def clear_ghosts(self) -> None:
        """Show no refused text any more."""
        self._marks.clear_ghosts()
        self._repaint()

    def mark_source(self, start: int, end: int) -> None:
        """Mark one stretch of the source text."""
        if self._marks.mark != (start, end):
            self._marks.mark = (start, end)
            self._repaint()

    def clear_mark(self) -> None:
        """Take the mark away."""
        if self._marks.mark is not None:
            self._marks.mark = None
            self._repaint()

    def highlight_words(self, words: Sequence[str]) -> None:
        """Mark every occurrence of any of `words`, whatever their case; none: take marks away."""
        self._marks.set_words(words)
        self._repaint()

    def first_hit(self) -> QRectF | None:
        """Return where the first highlighted word is, in this widget."""
        block = self.document().begin()
        while block.isValid():
            for start, end in self._marks.hits(block):
                return self._rect(block.position() + start, block.position() + end)
            block = block.next()
        return None

    def source_rect(self, start: int, end: int) -> QRectF | None:
        """Return where the first line of a stretch of source is shown, in this widget."""
        shown = next(self._writer.map.shown(start, end), None)
        return None if shown is None else self._rect(*shown)

    def unfolded_rect(self, start: int, end: int) -> QRectF | None:
        """Return the same as `source_rect`; a thought that holds the stretch is opened."""
        rect = self.source_rect(start, end)
        holding = [each for each in self._thoughts if each.start <= start]
        if rect is not None or not holding:
            return rect
        thought, opened = holding[-1], holding[-1].opened
        thought.set_opened(True)
        thought.text.complete()
        rect = thought.text.source_rect(start, end)
        if rect is None:
            thought.set_opened(opened)
            return None
        return rect.translated(QPointF(thought.text.mapTo(self, QPoint(0, 0))))

    def _rect(self, start: int, end: int) -> QRectF | None:
        block = self.document().findBlock(start)
        return next(BlockLines(block).shown([(start, end)]), None)

    def source_at(self, point: QPointF | QPoint) -> int:
        """The place in the source text shown at `point` of this widget; -1: none."""
        point = QPointF(point)
        for thought in self._thoughts:
            if thought.opened and QRectF(thought.geometry()).contains(point):
                return thought.text.source_at(thought.text.mapFrom(self, point))
        layout = self.document().documentLayout()
        return self._writer.map.source_at(layout.hitTest(point, Qt.HitTestAccuracy.ExactHit))

    def refused_at(self, point: QPointF) -> str:
        """The refused text that is painted at `point`, in full; empty: none."""
        return self._overlay.tip_at(point)

    def set_thoughts_open(self, *, open_: bool) -> None:
        """Open or close all thoughts."""
        self._thoughts_open = open_
        for thought in self._thoughts:
            thought.set_opened(open_)

    def _repaint(self) -> None:
        self.viewport().update()
        for thought in self._thoughts:
            thought.text.viewport().update()

    def _take(self, text: str) -> None:
        """Put `text` in line; what of it is too long to show is only kept."""
        room = max(_LONGEST - self._length, 0)
        self._length += len(text)
        shown, beyond = text[:room], text[room:]
        self._waiting.extend(
            shown[start : start + _PIECE] for start in range(0, len(shown), _PIECE)
        )
        if beyond:
            self._beyond.append(beyond)

    def _restart(self, source: MessageSource) -> None:
        self._source = source
        self._waiting.clear()
        self._beyond.clear()
        self._length = 0
        self._live = self._ending = self._ended = False
        self._clear()

    def _clear(self) -> None:
        """Show nothing, and begin again with the first block."""
        self._restarts = self._source.restarts
        self._shown = 0  # first: clearing tells of another height
        self._writer.clear(self._source.offsets)
        self._colours.clear()
        for thought in self._thoughts:
            thought.hide()
            thought.deleteLater()
        self._thoughts.clear()

    def _begin_work(self, length: int) -> None:
        at_once = length <= _AT_ONCE and not self._turn.isActive()
        if not self.work(_FOREVER if at_once else time.perf_counter() + _SLICE_S):
            self._turn.start(0)

    def _go_on(self) -> None:
        """Do another slice of long work, then colour the code."""
        if not self.work(time.perf_counter() + _SLICE_S):
            self._turn.start(0)
        elif not self._colours.busy:
            self.settled.emit()

    def _work(self, until: float) -> bool:
        source = self._source
        while True:
            blocks = source.committed
            if self._shown >= len(blocks) and self._waiting:
                source.feed(self._waiting.popleft())
            elif self._shown >= len(blocks) and self._ending and not self._ended:
                source.finish()
                self._ended = True
                self._say_what_is_hidden()
            if self._restarts != source.restarts:
                self._clear()
            self._sync_thoughts()
            self._write()
            if self._shown >= len(source.committed) and not self._waiting:
                if self._ended or not self._ending:
                    return True
            elif time.perf_counter() >= until:
                return False

    def _write(self) -> None:
        """Write the next few blocks, with the tail when they are the last."""
        blocks = self._source.committed
        end, length = self._shown, 0
        while end < len(blocks) and length < _PIECE:
            length += _cost(blocks[end])
            end += 1
        last = end == len(blocks) and not self._waiting
        tail = self._source.tail if last else ()
        if tail and tail[-1].kind is BlockKind.CODE and "\n" in tail[-1].source:
            load_lexer(tail[-1].language)
        for region in self._writer.update(blocks[self._shown : end], tail):
            self._colours.add(region)
        self._shown = end

    def _say_what_is_hidden(self) -> None:
        hidden = self._length - _LONGEST
        if hidden > 0:
            words = tr("… {n} more characters are not shown. Copy the message to get all of them.")
            note = MarkdownBlock(BlockKind.PLAIN, words.format(n=number(hidden)), start=-1)
            self._source.committed.append(note)

    def _sync_thoughts(self) -> None:
        """Keep one widget for every thought, with what was thought so far."""
        for index, thought in enumerate(self._source.thoughts):
            if index == len(self._thoughts):
                view = ThoughtView(TextView(tr("Thought"), self, within=self), thought.start, self)
                view.resized.connect(self._place_thoughts)
                view.text.link_clicked.connect(self.link_clicked)
                view.text.hovered.connect(self.hovered)
                view.set_opened(self._thoughts_open)
                view.show()
                if self._live and not thought.over:
                    view.begin()
                self._thoughts.append(view)
            view = self._thoughts[index]
            view.add(thought.take())
            if thought.over or self._ended:
                view.end()

    def _wear_look(self) -> None:
        """Take the theme's fonts and colours."""
        self._worn = (current(), prose_size())
        font = self.font()
        font.setPointSizeF(self._writer.look.size)
        self.document().setDefaultFont(font)
        if self._within is not None:
            palette = self.palette()
            palette.setColor(QPalette.ColorRole.Text, QColor(current().muted))
            self.setPalette(palette)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Write the document again when colours or fonts change."""
        super().changeEvent(event)
        worn = getattr(self, "_worn", None)
        if worn is not None and changes_look(event) and worn != (current(), prose_size()):
            QTimer.singleShot(0, self, self._rewrite)

    def _rewrite(self) -> None:
        if self._worn == (current(), prose_size()):
            return
        self._shown = 0
        self._writer.clear(self._source.offsets)
        self._colours.clear()
        self._wear_look()
        self._begin_work(self._length)
        self.viewport().update()

    def _fit(self, *_: object) -> None:
        """Take as much height as the text needs."""
        if self._working:
            return
        self._told_half = self._told_half or not self.laid_out
        extra = CODE_PADDING if is_code(self.document().lastBlock()) else 0
        self.take_height(int(self.document().size().height()) + extra + 1)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Buttons and thoughts follow the text."""
        super().resizeEvent(event)
        self._fit()
        self._place_widgets()

    def _place_widgets(self) -> None:
        self._place_thoughts()
        self._place_buttons()

    def _place_thoughts(self) -> None:
        """Give every thought the room it needs, and put it there."""
        regions = [each for each in self._writer.regions if each.kind is RegionKind.THOUGHT]
        for view, region in zip(self._thoughts, regions, strict=False):
            view.setFixedWidth(self.viewport().width())
            block = self.document().findBlockByNumber(region.first)
            style = block.blockFormat()
            room = self._writer.room(view.height())
            if style.lineHeight() != room.lineHeight():
                style.merge(room)
                QTextCursor(block).setBlockFormat(style)
                self._fit()
            view.move(self._box(region).topLeft().toPoint())

    def _box(self, region: Region) -> QRectF:
        return region_box(self.document(), region, self.viewport().width())

    def _regions_in(self, visible: QRectF) -> Iterator[tuple[Region, QRectF]]:
        """The regions in sight, and where they are: asking that of all of them would take long."""
        regions = self._writer.regions
        if not regions:
            return
        first = self._block_at(visible.top() - _AROUND)
        last = self._block_at(visible.bottom() + _AROUND)
        for region in regions:
            if region.first <= last and first <= region.last:
                box = self._box(region)
                if box.intersects(visible):
                    yield region, box

    def _block_at(self, y: float) -> int:
        """The number of the text block at, or nearest to, the height `y`."""
        layout = self.document().documentLayout()
        place = layout.hitTest(QPointF(0, y), Qt.HitTestAccuracy.FuzzyHit)
        return self.document().findBlock(place).blockNumber()

    def _place_buttons(self) -> None:
        """Put a copy button on every code block; where text is only added those before it stay."""
        regions = [each for each in self._writer.regions if each.kind is RegionKind.CODE]
        width = self.viewport().width()
        only_grows = self._live and not self._thoughts and width == self._placed_width
        first = max(min(len(self._buttons), len(regions)) - 1, 0) if only_grows else 0
        self._placed_width = width
        while len(self._buttons) < len(regions):
            button = IconButton("copy", tr("Copy code"), self.viewport())
            button.clicked.connect(partial(self.copy_code, len(self._buttons)))
            QWidget.setTabOrder(self._buttons[-1] if self._buttons else self, button)
            self._buttons.append(button)
        for index, button in enumerate(self._buttons[first:], first):
            button.setVisible(index < len(regions))
            if index < len(regions):
                box = self._box(regions[index])
                button.resize(28, 28)
                button.move(int(box.right()) - 32, int(box.top()) + 3)

    def copy_code(self, index: int, _checked: bool = False) -> None:
        """Copy the code block number `index`; its button shows a tick for a moment."""
        regions = [each for each in self._writer.regions if each.kind is RegionKind.CODE]
        QGuiApplication.clipboard().setText(regions[index].code)
        button = self._buttons[index]
        button.set_icon("check", "success")
        QTimer.singleShot(1500, button, lambda: button.set_icon("copy"))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Backgrounds, the text, and what is marked in it."""
        visible = QRectF(event.rect())
        regions = list(self._regions_in(visible))
        if regions:
            painter = QPainter(self.viewport())
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            for region, box in regions:
                paint_region(painter, self.document(), region, box, visible)
            painter.end()
        super().paintEvent(event)
        if self._marks.any:
            painter = QPainter(self.viewport())
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._overlay.paint(painter, self._writer.map, visible)
            painter.end()

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """Refused text is told in full where there was no room for it."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            refused = self.refused_at(QPointF(event.pos()))
            if refused:
                words = tr("Drafted and rejected: {text}").format(text=refused)
                QToolTip.showText(event.globalPos(), words, self)
                return True
        return super().viewportEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Note where the pointer is; it is told with the next frame."""
        super().mouseMoveEvent(event)
        self._pointer = event.position()
        if not self._hover.isActive():
            self._hover.start()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Forget what was under the pointer."""
        super().leaveEvent(event)
        self._hover.stop()
        self._tell(-1)

    def _say_hovered(self) -> None:
        self._tell(self.source_at(self._pointer))

    def _tell(self, place: int) -> None:
        if place != self._under:
            self._under = place
            self.hovered.emit(place)


def _cost(block: MarkdownBlock) -> int:
    """Return the cost of writing a block, in characters of running text."""
    cells = block.source.count("|") if block.kind is BlockKind.TABLE else 0
    return max(len(block.source), 60) + 20 * cells
