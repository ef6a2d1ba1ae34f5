"""The line below a message: numbers at the left, actions and, at the very right, versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QToolButton, QWidget

from app.chat.messages.message_actions import Act
from app.theme.fonts import scaled
from app.theme.icons import IconButton
from engine.language import tr

_LINE = 32
_BUTTON = 30
_APART = 2
_INSET = 8
"""Space around the words of a button, which the numbers do without at the left."""
_CONFIRM_MS = 1500


@dataclass(frozen=True, slots=True)
class FooterState:
    """Content of the line below a message."""

    numbers: tuple[str, ...] = ()
    """The most important first: those for which there is room are shown."""
    details: str = ""
    version: int = 1
    versions: int = 1
    acts: tuple[Act, ...] = ()
    on: Act | None = None
    """The action that is a switch, where it is on."""
    buttons: tuple[tuple[Act, str], ...] = ()
    """Actions that are always there, as words."""


def footer_height() -> int:
    """Return the height of the line, which grows with the text."""
    return scaled(_LINE)


class Footer(QWidget):
    """Icons come up with the mouse or the focus, and move nothing that is there already.

    What is not shown is not even made. Nothing that deletes is among the icons: where a message
    gets shorter at a click, the pointer is on the line of another one.
    """

    chosen = Signal(Act)
    stops_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = FooterState()
        self._shown = False
        self._numbers: QToolButton | None = None
        self._versions: list[QWidget] = []
        self._buttons: list[QToolButton] = []
        self._icons: list[IconButton] = []

    @property
    def stops(self) -> list[QWidget]:
        """Return the widgets that Tab goes through, from left to right."""
        return [each for each in self._parts() if isinstance(each, QToolButton)]

    def set_state(self, state: FooterState) -> None:
        """Show something else."""
        if replace(state, on=self._state.on) == self._state:
            self._state = state  # the switch alone: it may have the focus
            self._show_switch()
            return
        for each in self._parts():
            each.hide()
            each.deleteLater()
        self._numbers, self._versions, self._icons = None, [], []
        self._state = state
        if state.numbers:
            self._numbers = self._word_button(Act.NUMBERS, "")
            self._numbers.setToolTip(state.details)
        if state.versions > 1:
            self._make_versions()
        self._buttons = [self._word_button(*each) for each in state.buttons]
        self._show_icons()

    def reveal(self, *, shown: bool) -> None:
        """Show or hide the icons."""
        if shown is not self._shown:
            self._shown = shown
            self._show_icons()

    def below(self, act: Act) -> QPoint:
        """Return where a menu of this action begins: under its icon, if that is shown."""
        button = self._icon_of(act)
        return QPoint(self.width(), 0) if button is None else button.geometry().bottomLeft()

    def confirm(self, act: Act) -> None:
        """Show for a moment that something was done."""
        button = self._icon_of(act)
        if button is not None:
            button.set_icon("check", "success")
            QTimer.singleShot(_CONFIRM_MS, button, lambda: button.set_icon(act.value))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep every part at its end of the line."""
        super().resizeEvent(event)
        self._place()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """In another font fewer numbers may fit, or more; the parts have it a moment later."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            QTimer.singleShot(0, self, self._place)

    def _icon_of(self, act: Act) -> IconButton | None:
        return next((each for each in self._icons if each.property("act") == act.value), None)

    def _parts(self) -> list[QWidget]:
        first = [self._numbers] if self._numbers is not None else []
        return [*first, *self._icons, *self._buttons, *self._versions]

    def _show_icons(self) -> None:
        if self._shown and not self._icons:
            self._icons = [self._icon_button(act) for act in self._state.acts]
            self._show_switch()
            self.stops_changed.emit()
        for button in self._icons:
            button.setVisible(self._shown)
        self._place()

    def _show_switch(self) -> None:
        for button in self._icons:
            if button.isCheckable():
                button.setChecked(button.property("act") == self._state.on)
                button.set_icon(
                    str(button.property("act")), "accent" if button.isChecked() else "muted"
                )

    def _make_versions(self) -> None:
        state = self._state
        earlier, later = self._icon_button(Act.EARLIER), self._icon_button(Act.LATER)
        earlier.setEnabled(state.version > 1)
        later.setEnabled(state.version < state.versions)
        number = QLabel(f"{state.version} / {state.versions}", self)
        number.setProperty("look", "muted")
        number.setAlignment(Qt.AlignmentFlag.AlignCenter)
        number.setToolTip(
            tr("Version {version} of {versions}").format(
                version=state.version, versions=state.versions
            )
        )
        number.setAccessibleName(number.toolTip())
        number.show()
        self._versions = [earlier, number, later]
        for button in (earlier, later):
            button.show()

    def _icon_button(self, act: Act) -> IconButton:
        button = IconButton(act.value, act.words, self, shortcut=act.shortcut)
        button.setProperty("act", act.value)
        button.setCheckable(act is Act.TINT)
        button.clicked.connect(lambda: self.chosen.emit(act))
        return button

    def _word_button(self, act: Act, word: str) -> QToolButton:
        button = QToolButton(self)
        button.setProperty("look", "quiet")
        button.setText(word)
        button.setAccessibleName(act.words)
        button.setToolTip(act.words)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.clicked.connect(lambda: self.chosen.emit(act))
        button.show()
        return button

    def _place(self) -> None:
        """Versions from the right, then actions, then as many of the numbers as fit."""
        right = self.width()
        for part in reversed(self._versions):
            right = self._put(part, right, self._version_width(part))
        for button in reversed(self._buttons):
            right = self._put(button, right, button.sizeHint().width())
        room = right - len(self._state.acts) * (scaled(_BUTTON) + _APART) - 2 * _INSET
        for icon in reversed([button for button in self._icons if not button.isHidden()]):
            right = self._put(icon, right, scaled(_BUTTON))
        if self._numbers is not None:
            self._numbers.setText(_fitting(self._numbers, self._state.numbers, room))
            words = self._numbers.fontMetrics().horizontalAdvance(self._numbers.text())
            width = words + 2 * _INSET if words else 0
            self._numbers.setGeometry(self._mirrored(QRect(-_INSET, 1, width, scaled(_BUTTON))))

    def _version_width(self, part: QWidget) -> int:
        """Return a width that is the same for every version, so that the arrows stay."""
        if not isinstance(part, QLabel):
            return scaled(_BUTTON)
        widest = len(str(self._state.versions))
        return part.fontMetrics().horizontalAdvance(f"{'0' * widest} / {'0' * widest}") + 8

    def _put(self, part: QWidget, right: int, width: int) -> int:
        part.setGeometry(self._mirrored(QRect(right - width, 1, width, scaled(_BUTTON))))
        return right - width - _APART

    def _mirrored(self, area: QRect) -> QRect:
        if self.isRightToLeft():
            area.moveLeft(self.width() - area.right() - 1)
        return area

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return the size of one line."""
        return QSize(200, footer_height())


def _fitting(button: QToolButton, parts: Sequence[str], room: int) -> str:
    """Return the first of `parts`, as many as fit."""
    metrics = button.fontMetrics()
    count = len(parts)
    while count and metrics.horizontalAdvance(" · ".join(parts[:count])) + 2 * _INSET > room:
        count -= 1
    return " · ".join(parts[:count])
