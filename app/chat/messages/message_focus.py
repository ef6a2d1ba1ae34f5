"""The keyboard among the messages: what Tab goes through, which keys scroll, where the ring is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QToolButton, QWidget
from shiboken6 import isValid

from engine.language import tr

if TYPE_CHECKING:
    from app.chat.messages.message_view import Bubble
    from app.chat.messages.transcript import Transcript

_REASONS = {True: Qt.FocusReason.TabFocusReason, False: Qt.FocusReason.BacktabFocusReason}


class _Gate(QWidget):
    """Takes the focus for a moment when Tab comes to the messages from outside."""

    entered = Signal(bool)
    """Focus has come; True if from the front."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Conversation"))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.resize(0, 0)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        self.entered.emit(event.reason() is not Qt.FocusReason.BacktabFocusReason)


class MessageFocus(QObject):
    """Messages come and go as widgets, so Tab among them is led by hand.

    In the window's own chain their parts stand between two gates, in any order.
    """

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript)
        self._transcript = transcript
        self._front, self._back = _Gate(transcript), _Gate(transcript)
        QWidget.setTabOrder(self._front, self._back)
        self._front.entered.connect(self._come_in)
        self._back.entered.connect(self._come_in)
        self._leading = False
        application = cast("QApplication", QApplication.instance())
        application.focusChanged.connect(self._moved)

    def take_in(self, bubble: Bubble) -> None:
        """Let the keyboard get to a message that is a widget now."""
        self._chain(bubble)
        bubble.footer.stops_changed.connect(lambda: self._chain(bubble))
        bubble.text.installEventFilter(self)

    def keep(self, index: int) -> None:
        """Lead the focus to a message that took the place of the one with the focus."""
        self._lead(self._transcript.bubble_at(index).text, Qt.FocusReason.OtherFocusReason)

    # -- keys ----------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Keys that scroll or act do so wherever in a message the focus is."""
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            transcript = self._transcript
            index = transcript.row_holding(cast("QWidget", watched))
            if index is not None and transcript.bubble_at(index).handle_key(event):
                return True
            if not event.modifiers() & Qt.KeyboardModifier.ShiftModifier and self.moves(event):
                return True
        return False

    def moves(self, event: QKeyEvent) -> bool:
        """Scroll, or with Ctrl go from message to message; whether the key means that."""
        bar, key = self._transcript.verticalScrollBar(), Qt.Key(event.key())
        action = bar.SliderAction
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        moves = {
            Qt.Key.Key_Up: action.SliderSingleStepSub,
            Qt.Key.Key_Down: action.SliderSingleStepAdd,
            Qt.Key.Key_PageUp: action.SliderPageStepSub,
            Qt.Key.Key_PageDown: action.SliderPageStepAdd,
            Qt.Key.Key_Space: action.SliderPageStepAdd,
            Qt.Key.Key_Home: action.SliderToMinimum,
            Qt.Key.Key_End: action.SliderToMaximum,
        }
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier and key in steps:
            self._step(steps[key])
        elif key in moves:
            bar.triggerAction(moves[key])
        else:
            return False
        return True

    def _step(self, step: int) -> None:
        """Go to the message before or after the one with the focus."""
        transcript = self._transcript
        if not transcript.row_count:
            return
        here = transcript.row_holding(QApplication.focusWidget())
        seen = transcript.visible_range()
        start = here if here is not None else (seen.stop if step < 0 else seen.start - 1)
        index = min(max(start + step, 0), transcript.row_count - 1)
        transcript.make_ready(index)
        transcript.scroll_into_view(index)
        self._lead(transcript.bubble_at(index).text, Qt.FocusReason.TabFocusReason)

    # -- Tab -----------------------------------------------------------------------------------

    def next_stop(self, *, forward: bool) -> bool:
        """Tab goes through the messages in sight, then on; whether it is done."""
        focus, seen = QApplication.focusWidget(), self._transcript.visible_range()
        if focus is self._transcript and forward and seen:
            return self._enter(seen.start, 0)
        here = self._transcript.row_holding(focus)
        if here is None or focus is None:
            return False
        stops = _stops(self._transcript.bubble_at(here))
        place = (stops.index(focus) if focus in stops else 0) + (1 if forward else -1)
        if 0 <= place < len(stops):
            self._lead(stops[place], _REASONS[forward])
            return True
        there = here + (1 if forward else -1)
        if there in seen:
            return self._enter(there, 0 if forward else -1)
        return self._leave(forward=forward)

    def _come_in(self, from_the_front: bool) -> None:
        seen = self._transcript.visible_range()
        if from_the_front or not seen:
            self._transcript.setFocus(_REASONS[from_the_front])
        else:
            self._enter(seen.stop - 1, -1)

    def _enter(self, index: int, stop: int) -> bool:
        self._transcript.make_ready(index)
        bubble = self._transcript.bubble_at(index)
        bubble.set_focused(focused=True)  # brings up its actions, which are stops too
        self._lead(_stops(bubble)[stop], _REASONS[stop == 0])
        return True

    def _leave(self, *, forward: bool) -> bool:
        """Go on with what is behind all the messages, or back to their list itself."""
        transcript = self._transcript
        if not forward:
            transcript.setFocus(_REASONS[forward])
            return True
        widget = self._back.nextInFocusChain()
        while widget is not None and widget is not self._back:
            if _takes_tab(widget) and not transcript.isAncestorOf(widget):
                widget.setFocus(_REASONS[True])
                return True
            widget = widget.nextInFocusChain()
        return False

    def _chain(self, bubble: Bubble) -> None:
        for widget in reversed(bubble.focus_chain):
            QWidget.setTabOrder(self._front, widget)

    # -- where it is ---------------------------------------------------------------------------

    def _lead(self, widget: QWidget, reason: Qt.FocusReason) -> None:
        """Lead the keyboard to a widget. A text has no ring of its own: its message gets one."""
        self._leading = True
        widget.setFocus(reason)
        self._leading = False

    def _moved(self, old: QWidget | None, new: QWidget | None) -> None:
        transcript = self._transcript
        if not isValid(transcript):  # closing takes the focus away
            return
        before, after = transcript.row_holding(old), transcript.row_holding(new)
        led = after is not None and self._leading and new is transcript.bubble_at(after).text
        transcript.set_ring(after if led else None)
        if before == after:
            return
        if before is not None:
            transcript.bubble_at(before).set_focused(focused=False)
        if after is not None:
            transcript.bubble_at(after).set_focused(focused=True)


def _takes_tab(widget: QWidget) -> bool:
    policy = widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    return bool(policy) and widget.isEnabled() and widget.isVisible()


def _stops(bubble: Bubble) -> list[QWidget]:
    """Return the widgets that Tab goes through in a message, with the buttons of its code."""
    chain = [each for each in bubble.focus_chain if _takes_tab(each)]
    if bubble.text in chain:
        place = chain.index(bubble.text) + 1
        inside = bubble.text.viewport().findChildren(QToolButton)
        chain[place:place] = [each for each in inside if _takes_tab(each)]
    return chain or [bubble.text]
