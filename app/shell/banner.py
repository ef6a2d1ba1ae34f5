"""One notice with its buttons: what happened, what to do, details to read and copy."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QFrame,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from app.notices import Notice, NoticeKind
from app.theme.icons import IconButton, icon
from app.theme.theme import current, font_scale, mono_font
from app.widgets.boxes import Spacing, fill, hbox, vbox
from app.widgets.escape import claims_escape
from app.widgets.flow_layout import FlowLayout
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import listed, tr

_LONGEST = 600
"""Longer texts go on in the details."""
_LINES = 8
"""Lines of details; the rest scrolls."""
NARROWEST = 160
_ASIDE = 100
"""Pixels of the width that icon, close button and margins take."""
_BESIDE = 26
"""Widths of "m" that the text must have left for the buttons to be beside it."""


class Banner(QFrame):
    """Shows a notice; a toast is as wide as its text. Escape inside dismisses it."""

    dismissed = Signal()
    resized = Signal()
    """More or less room is needed."""

    def __init__(self, notice: Notice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMinimumWidth(NARROWEST)  # not what the buttons need in a row
        self.notice = notice
        self.text, remedy, self._details = notice.text, notice.remedy, notice.details
        text, self._trouble = notice.text, notice.kind is NoticeKind.PROBLEM
        if len(text) > _LONGEST:
            text, self._details = f"{text[:_LONGEST]}\u2026", f"{text}\n{self._details}"
        self.setProperty("look", "banner" if self._trouble else "notice")
        self.setAccessibleName(f"{text} {remedy}".strip())
        self._icon = QLabel(self)
        self._words = vbox(spacing=2)
        for line, look in ((text, "title" if self._trouble else ""), (remedy, "")):
            if line:
                self._words.addWidget(self._label(line, look))
        self._buttons = hbox(spacing=8)
        self._all_buttons = [
            self._button(words, call, closes=True) for words, call in notice.actions
        ]
        if notice.choices:
            flow = FlowLayout(spacing=8)
            buttons = [self._button(words, call, closes=True) for words, call in notice.choices]
            height = max(button.sizeHint().height() for button in buttons)
            for button in buttons:
                button.setMinimumHeight(height)
                flow.addWidget(button)
            fill(self._words, Spacing(6), flow)
        self._reader = self._make_reader() if self._details else None
        self._arrange()
        self._recolour()

    def take_keyboard(self) -> None:
        """Move the focus to the first button."""
        buttons = (each for each in self.findChildren(QAbstractButton) if each.isVisible())
        if (first := next(buttons, None)) is not None:
            first.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return a size in which the text of a toast and its buttons are in one line."""
        hint = super().sizeHint()
        if self.notice.kind is not NoticeKind.TOAST:
            return hint
        text = self.fontMetrics().horizontalAdvance(self.text)
        buttons = sum(each.sizeHint().width() + 8 for each in self._all_buttons)
        return QSize(text + buttons + round(_ASIDE * font_scale()) + 8, hint.height())

    def _arrange(self) -> None:
        for button in self._all_buttons:
            self._buttons.addWidget(button)
        self._body = hbox((self._words, 1), self._buttons, spacing=10)
        middle = vbox(self._body, spacing=8)
        if self._reader is not None:
            middle.addWidget(self._reader)
        close = IconButton("close", tr("Dismiss"), self)
        close.clicked.connect(self.dismissed)
        toast = self.notice.kind is NoticeKind.TOAST
        side = Qt.AlignmentFlag.AlignVCenter if toast else Qt.AlignmentFlag.AlignTop
        hbox(
            (self._icon, 0, side),
            (middle, 1),
            (close, 0, side),
            to=self,
            spacing=10,
            margins=(14, 10, 8, 10),
        )

    def _label(self, text: str, look: str) -> QLabel:
        label = plain_label(text, self, look)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _button(self, text: str, call: Callable[[], None], *, closes: bool = False) -> QPushButton:
        button = text_button(text, self)
        button.clicked.connect(lambda _=False: call())
        if "\n" in text:
            button.setAccessibleName(listed(text.splitlines()))
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        if closes:
            button.clicked.connect(self.dismissed)
        return button

    def _make_reader(self) -> QWidget:
        """The details: hidden until they are asked for."""
        reader = QWidget(self)
        text = QPlainTextEdit(self._details, reader, readOnly=True, tabChangesFocus=True)
        text.setAccessibleName(tr("Details"))
        text.setFont(mono_font())
        lines = min(_LINES, text.document().blockCount() + 1)
        text.setFixedHeight(text.fontMetrics().lineSpacing() * lines + 22)
        copy = self._button(tr("Copy details"), self._copy)
        vbox(text, (copy, 0, Qt.AlignmentFlag.AlignLeft), to=reader, spacing=8, margins=0)
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

    def event(self, event: QEvent) -> bool:
        """Escape leaves the message before it stops an answer."""
        return claims_escape(event) or super().event(event)

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
        metrics = self.fontMetrics()
        whole = max(map(metrics.horizontalAdvance, (self.text, self.notice.remedy)))
        beside = left >= min(_BESIDE * metrics.horizontalAdvance("m"), whole)
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
