"""The stack of banners: it lies over the page on show and keeps clear of the pointer."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QCursor
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QBoxLayout,
    QFrame,
    QScrollArea,
    QWidget,
)
from shiboken6 import isValid

from app.notices import Notice, NoticeKind, board
from app.shell.banner import NARROWEST, Banner
from app.theme.tokens import COLUMN
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import tr, tr_count

_SHOWN = 3
"""Banners at once; older ones wait until there is room."""
_KEPT = 20
_TOAST_MS = 12_000
_PROBLEM_MS = 60_000
_LOOK_AGAIN_MS = 100
_EDGE = 8
_SIDE = 24


class BannerStack(QScrollArea):
    """Shows the newest notices of the board; the same text is not shown twice.

    The stack lies at the upper edge of what it covers, or at the lower one where the pointer or
    the keyboard is above, or more buttons are as it appears. It grows away from its edge, the
    newest outermost, so that nothing moves under the pointer; while that is inside, nothing goes
    away by itself either. It is as high as it needs to be, up to half of the window; then it
    scrolls.
    """

    covers = Signal(int)
    """Pixels that it takes at the upper edge of what it covers."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self._body: QWidget | None = None
        self._above = True
        self._banners: list[Banner] = []
        self._before: QWidget | None = None
        """The widget that had the focus before `take_keyboard`."""
        self._inside = QWidget()
        self._waiting = plain_label("", self, "muted")
        dismiss = text_button(tr("Dismiss all"), self, self.clear)
        self._rest = QFrame(self)
        self._rest.setProperty("look", "notice")
        hbox((self._waiting, 1), dismiss, to=self._rest, margins=(14, 4, 8, 4))
        self._layout = vbox(self._rest, to=self._inside, spacing=_EDGE, margins=0)
        self.setWidget(self._inside)
        self.setWidgetResizable(True)
        self._inside.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._look_again = QTimer(self, interval=_LOOK_AGAIN_MS)
        self._look_again.timeout.connect(self._refresh)
        board().posted.connect(self.add)
        board().withdrawn.connect(self.withdraw)
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._place)
        self.hide()

    @property
    def texts(self) -> list[str]:
        """Return the texts of all notices, newest first."""
        return [banner.text for banner in self._banners]

    @property
    def in_use(self) -> bool:
        """True if the pointer or the keyboard is inside."""
        if self.isHidden():
            return False
        focus = QApplication.focusWidget()
        pointed = self.rect().contains(self.mapFromGlobal(QCursor.pos()))
        return pointed or (focus is not None and self.isAncestorOf(focus))

    def take_keyboard(self) -> None:
        """Move the focus to the newest notice; it goes back once that has been left."""
        newest = next((each for each in self._banners if not each.isHidden()), None)
        if newest is None:
            return
        focus = QApplication.focusWidget()
        if focus is not None and not self.isAncestorOf(focus):
            self._before = focus
        newest.take_keyboard()

    def _give_keyboard_back(self) -> None:
        before, self._before = self._before, None
        if before is not None and isValid(before) and before.isVisible():
            before.setFocus(Qt.FocusReason.OtherFocusReason)

    def lie_over(self, body: QWidget) -> None:
        """Cover this part of the window from now on."""
        if self._body is not None:
            self._body.removeEventFilter(self)
        self._body = body
        body.installEventFilter(self)
        self._place()

    def add(self, notice: Notice) -> None:
        """Show a notice, in the place of one with the same text."""
        for other in [each for each in self._banners if each.text == notice.text]:
            self._remove(other)
        for other in self._banners[_KEPT - 1 :]:
            self._remove(other)
        banner = Banner(notice, self._inside)
        banner.hide()
        self._banners.insert(0, banner)
        toast = notice.kind is NoticeKind.TOAST
        centre = Qt.AlignmentFlag.AlignHCenter if toast else Qt.AlignmentFlag(0)
        self._layout.insertWidget(1, banner, 0, centre)
        banner.dismissed.connect(lambda: self._leave(banner))
        banner.resized.connect(self._place)
        asks = bool(notice.actions or notice.choices)
        if toast or (notice.kind is NoticeKind.PROBLEM and not asks):
            timer = QTimer(banner, interval=_TOAST_MS if toast else _PROBLEM_MS)
            timer.timeout.connect(lambda: None if self.in_use else self._remove(banner))
            timer.start()
        self._refresh()
        QAccessible.updateAccessibility(
            QAccessibleAnnouncementEvent(banner, banner.accessibleName())
        )

    def withdraw(self, notice: Notice) -> None:
        """Take a notice away unanswered."""
        for banner in [each for each in self._banners if each.text == notice.text]:
            self._remove(banner)

    def clear(self) -> None:
        """Dismiss everything."""
        for banner in list(self._banners):
            self._leave(banner)

    def _leave(self, banner: Banner) -> None:
        if banner in self._banners:
            self._remove(banner)
            banner.notice.left()

    def _remove(self, banner: Banner) -> None:
        self._banners.remove(banner)
        self._layout.removeWidget(banner)
        focus = QApplication.focusWidget()
        if focus is not None and banner.isAncestorOf(focus):
            self._give_keyboard_back()
        banner.hide()
        banner.deleteLater()
        self._refresh()

    def _refresh(self) -> None:
        """Show the newest; while the stack is in use, only fill up what room there is."""
        shown = [each for each in self._banners if not each.isHidden()]
        if shown and self.in_use:
            newer = self._banners[: self._banners.index(shown[0])]
            room = _SHOWN - len(shown)
            shown = [*newer[max(len(newer) - room, 0) :], *shown]
        else:
            shown = self._banners[:_SHOWN]
        for banner in self._banners:
            banner.setVisible(banner in shown)
        hidden = len(self._banners) - len(shown)
        self._waiting.setText(tr_count("{n} more message", "{n} more messages", hidden))
        self._rest.setVisible(hidden > 0)
        wanted = shown == self._banners[:_SHOWN]
        if wanted is self._look_again.isActive():
            self._look_again.stop() if wanted else self._look_again.start()
        self._place()

    # -- where it lies ---------------------------------------------------------------------

    def _place(self) -> None:
        """Take the edge that is out of the way; stay where hands are."""
        if not isValid(self._over):  # the window goes: the focus moves for the last time
            return
        if not self._banners:
            self.hide()
            self._above = True
            self.covers.emit(0)
        if self._body is None or not self._banners or not self._over.isVisible():
            return
        size = self._wanted_size()
        # A bar that is not needed would take the width, so that texts wrap and seem to need it.
        fits = size.height() < self.window().height() // 2
        bar = (
            Qt.ScrollBarPolicy.ScrollBarAlwaysOff if fits else Qt.ScrollBarPolicy.ScrollBarAsNeeded
        )
        self.setVerticalScrollBarPolicy(bar)
        if not self.in_use:
            here, there = self._rect(size, self._above), self._rect(size, not self._above)
            disturbs = self._in_the_way(there) - self._in_the_way(here)
            if not disturbs and self.isHidden():
                disturbs = self._buttons(there) - self._buttons(here)
            self._above ^= disturbs < 0
        direction = QBoxLayout.Direction
        self._layout.setDirection(direction.BottomToTop if self._above else direction.TopToBottom)
        self.setGeometry(self._rect(size, self._above))
        self.show()
        self.raise_()
        self.covers.emit(size.height() + 2 * _EDGE if self._above else 0)

    def _wanted_size(self) -> QSize:
        assert self._body is not None  # noqa: S101 - asked with a body only
        width = min(self._body.width() - 2 * _SIDE, COLUMN)
        if all(each.notice.kind is NoticeKind.TOAST for each in self._banners):
            width = min(width, max(each.sizeHint().width() for each in self._banners))
        width = max(width, NARROWEST)
        self._layout.activate()
        height = self._layout.heightForWidth(width)
        return QSize(width, min(height, self.window().height() // 2))

    def _rect(self, size: QSize, above: bool) -> QRect:
        """Return the place of this size at the upper or the lower edge."""
        assert self._body is not None  # noqa: S101 - asked with a body only
        body = QRect(self._body.mapTo(self._over, QPoint()), self._body.size())
        left = body.left() + (body.width() - size.width()) // 2
        top = body.top() + _EDGE if above else body.bottom() + 1 - _EDGE - size.height()
        return QRect(QPoint(left, top), size)

    def _in_the_way(self, place: QRect) -> int:
        """Return how much it would disturb there: the pointer weighs more than the keyboard."""
        pointed = place.contains(self._over.mapFromGlobal(QCursor.pos()))
        focus = QApplication.focusWidget()
        typed = False
        if focus is not None and self._over.isAncestorOf(focus) and not self.isAncestorOf(focus):
            typed = place.intersects(QRect(focus.mapTo(self._over, QPoint()), focus.size()))
        return 2 * pointed + typed

    def _buttons(self, place: QRect) -> int:
        """Return how many buttons would be covered there."""
        assert self._body is not None  # noqa: S101 - asked with a body only
        seen = (each for each in self._body.findChildren(QAbstractButton) if each.isVisible())
        return sum(
            place.intersects(QRect(each.mapTo(self._over, QPoint()), each.size())) for each in seen
        )

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow what is covered."""
        moved = QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Show
        if watched is self._body and event.type() in moved:
            self._place()
        return False
