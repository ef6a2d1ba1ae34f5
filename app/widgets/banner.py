"""Messages that lie over no one's work: what happened, what to do, details to read and copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QGuiApplication,
    QKeyEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.theme.icons import IconButton, icon
from app.theme.theme import current, font_scale, mono_font
from app.widgets.flow_layout import FlowLayout
from engine.errors import UserFixable
from engine.language import listed, tr, tr_count

Action = tuple[str, Callable[[], None]]
"""The text of a button, perhaps in two lines, and what a click calls."""

_SHOWN = 3
"""Messages at once; older ones wait until there is room."""
_KEPT = 20
_LONGEST = 600
"""Longer texts go on in the details."""
_NOTICE_MS = 12_000
_LINES = 8
"""Lines of details; the rest scrolls."""
_NARROWEST = 160
_ASIDE = 100
"""Pixels of the width that icon, close button and margins take."""
_BESIDE = 26
"""Widths of "m" that the text must have left for the buttons to be beside it."""


class Banner(QFrame):
    """One message with its buttons. `dismissed` asks to be removed; Escape inside does too."""

    dismissed = Signal()
    resized = Signal()
    """The area needs more or less room."""

    def __init__(
        self,
        text: str,
        remedy: str = "",
        details: str = "",
        *actions: Action | None,
        trouble: bool = True,
        choices: Sequence[Action] = (),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setMinimumWidth(_NARROWEST)  # not what the buttons need in a row
        self.text = text
        self._trouble = trouble
        self._details = details
        if len(text) > _LONGEST:
            text, self._details = f"{text[:_LONGEST]}…", f"{text}\n{details}"
        self.setProperty("look", "banner" if trouble else "notice")
        self.setAccessibleName(f"{text} {remedy}".strip())
        self._icon = QLabel(self)
        self._words = QVBoxLayout()
        self._words.setSpacing(2)
        for line, look in ((text, "title" if trouble else ""), (remedy, "")):
            if line:
                self._words.addWidget(self._label(line, look))
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(8)
        self._all_buttons = [
            self._button(action[0], action[1], closes=True) for action in actions if action
        ]
        if choices:
            flow = FlowLayout(spacing=8)
            buttons = [self._button(words, call, closes=True) for words, call in choices]
            height = max(button.sizeHint().height() for button in buttons)
            for button in buttons:
                button.setMinimumHeight(height)
                flow.addWidget(button)
            self._words.addSpacing(6)
            self._words.addLayout(flow)
        self._reader = self._make_reader() if self._details else None
        self._arrange()
        self._recolour()

    def _arrange(self) -> None:
        for button in self._all_buttons:
            self._buttons.addWidget(button)
        self._body = QHBoxLayout()
        self._body.setSpacing(10)
        self._body.addLayout(self._words, 1)
        self._body.addLayout(self._buttons)
        middle = QVBoxLayout()
        middle.setSpacing(8)
        middle.addLayout(self._body)
        if self._reader is not None:
            middle.addWidget(self._reader)
        close = IconButton("close", tr("Dismiss"), self)
        close.clicked.connect(self.dismissed)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 8, 10)
        row.setSpacing(10)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(middle, 1)
        row.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)

    def _label(self, text: str, look: str) -> QLabel:
        label = QLabel(text, self)
        label.setProperty("look", look)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _button(self, text: str, call: Callable[[], None], *, closes: bool = False) -> QPushButton:
        button = QPushButton(text, self)
        if "\n" in text:
            button.setAccessibleName(listed(text.splitlines()))
        button.setAutoDefault(False)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda _=False: call())
        if closes:
            button.clicked.connect(self.dismissed)
        return button

    def _make_reader(self) -> QWidget:
        """The details: hidden until they are asked for."""
        reader = QWidget(self)
        text = QPlainTextEdit(self._details, reader)
        text.setReadOnly(True)
        text.setTabChangesFocus(True)
        text.setAccessibleName(tr("Details"))
        text.setFont(mono_font())
        lines = min(_LINES, text.document().blockCount() + 1)
        text.setFixedHeight(text.fontMetrics().lineSpacing() * lines + 22)
        copy = self._button(tr("Copy details"), self._copy)
        column = QVBoxLayout(reader)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(text)
        column.addWidget(copy, 0, Qt.AlignmentFlag.AlignLeft)
        reader.hide()
        self._toggle = self._button(tr("Details"), self._show_details)
        self._all_buttons.append(self._toggle)
        return reader

    def _show_details(self) -> None:
        if self._reader is not None:
            self._reader.setVisible(self._reader.isHidden())
            self._toggle.setText(tr("Details") if self._reader.isHidden() else tr("Hide details"))
            self.resized.emit()

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._details)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape leaves the message."""
        if event.key() == Qt.Key.Key_Escape:
            self.dismissed.emit()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Buttons beside the text, or below it where the text would get too narrow."""
        super().resizeEvent(event)
        buttons = [each for each in self._all_buttons if not each.isHidden()]
        taken = sum(button.sizeHint().width() + 8 for button in buttons)
        left = self.width() - taken - round(_ASIDE * font_scale())
        beside = left >= _BESIDE * self.fontMetrics().horizontalAdvance("m")
        across, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        self._body.setDirection(across if beside else down)
        self._buttons.setDirection(across if left >= 0 else down)
        side = Qt.AlignmentFlag.AlignTop if beside else Qt.AlignmentFlag.AlignLeft
        self._body.setAlignment(self._buttons, side)
        self.resized.emit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour with the theme."""
        super().changeEvent(event)
        changed = event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange)
        if changed and hasattr(self, "_icon"):
            self._recolour()

    def _recolour(self) -> None:
        tokens = current()
        name, colour = ("warning", tokens.danger) if self._trouble else ("info", tokens.muted)
        size = self.fontMetrics().height() + 3
        self._icon.setPixmap(icon(name, colour).pixmap(size, size))


class BannerArea(QScrollArea):
    """The newest messages, the newest on top; the same one is not shown twice.

    It is as high as they need, up to half of the window; then they scroll.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._inside = QWidget()
        self._layout = QVBoxLayout(self._inside)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(8)
        self._banners: list[Banner] = []
        self._waiting = QLabel(self)
        self._waiting.setProperty("look", "muted")
        self._waiting.setWordWrap(True)
        self._all = QPushButton(tr("Dismiss all"), self)
        self._all.setAutoDefault(False)
        self._all.clicked.connect(self.clear)
        self._rest = QWidget(self)
        row = QHBoxLayout(self._rest)
        row.setContentsMargins(14, 0, 8, 0)
        row.addWidget(self._waiting, 1)
        row.addWidget(self._all)
        self._layout.addWidget(self._rest)
        self.setWidget(self._inside)
        self.setWidgetResizable(True)
        self._inside.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.hide()

    def keep_below(self, space: int) -> None:
        """Leave so many logical pixels below the last message."""
        self._layout.setContentsMargins(0, 0, 0, space)
        self.updateGeometry()

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Texts wrap."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Return the height that the messages need, but at most half of the window's."""
        return min(self._layout.heightForWidth(width), self.window().height() // 2)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return a size with the height for the present width."""
        return QSize(super().sizeHint().width(), self.heightForWidth(self.width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return a height in which one message stays readable."""
        return QSize(_NARROWEST, min(self.sizeHint().height(), 4 * self.fontMetrics().height()))

    @property
    def texts(self) -> list[str]:
        """Return the texts on show, newest first."""
        return [banner.text for banner in self._banners]

    def show_trouble(
        self, problem: UserFixable, *actions: Action | None, choices: Sequence[Action] = ()
    ) -> None:
        """Tell of something that went wrong; each action is a button, choices have a row below."""
        words = (problem.cause, problem.remedy, problem.details)
        self._add(Banner(*words, *actions, choices=choices, parent=self))

    def show_notice(self, text: str, *actions: Action | None) -> None:
        """Tell of something that was done; goes away by itself, not under the user's hands."""
        banner = Banner(text, "", "", *actions, trouble=False, parent=self)
        self._add(banner)
        timer = QTimer(banner)
        timer.setInterval(_NOTICE_MS)
        timer.timeout.connect(lambda: None if _in_use(banner) else self._remove(banner))
        timer.start()

    def show_offer(self, text: str, remedy: str, *, choices: Sequence[Action]) -> Banner:
        """Offer something quietly; stays until it is answered or withdrawn."""
        banner = Banner(text, remedy, trouble=False, choices=choices, parent=self)
        self._add(banner)
        return banner

    def withdraw(self, banner: Banner) -> None:
        """Withdraw an offer that is of no use any more; it may be gone already."""
        self._remove(banner)

    def clear(self) -> None:
        """Dismiss everything."""
        for banner in list(self._banners):
            self._remove(banner)

    def _add(self, banner: Banner) -> None:
        for other in [each for each in self._banners if each.text == banner.text]:
            self._remove(other)
        for other in self._banners[_KEPT - 1 :]:
            self._remove(other)
        self._banners.insert(0, banner)
        self._layout.insertWidget(0, banner)
        banner.dismissed.connect(lambda: self._remove(banner))
        banner.resized.connect(self._show)
        self._show()
        QAccessible.updateAccessibility(
            QAccessibleAnnouncementEvent(banner, banner.accessibleName())
        )

    def _remove(self, banner: Banner) -> None:
        if banner in self._banners:
            self._banners.remove(banner)
            self._layout.removeWidget(banner)
            banner.hide()
            banner.deleteLater()
        self._show()

    def _show(self) -> None:
        for index, banner in enumerate(self._banners):
            banner.setVisible(index < _SHOWN)
        hidden = len(self._banners) - _SHOWN
        self._waiting.setText(tr_count("{n} more message", "{n} more messages", max(hidden, 0)))
        self._rest.setVisible(hidden > 0)
        self._layout.activate()
        self.updateGeometry()
        self.setVisible(bool(self._banners))


def _in_use(banner: Banner) -> bool:
    """Return whether the pointer or the keyboard is in it."""
    focus = QApplication.focusWidget()
    return banner.underMouse() or (focus is not None and banner.isAncestorOf(focus))
