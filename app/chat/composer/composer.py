"""The composer: attached files, a field that grows, the setup, the meter, the send button."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QToolButton, QWidget

from app.chat.composer.attachment_chips import AttachmentChips
from app.chat.composer.composer_state import ComposerState
from app.chat.composer.context_meter import ContextMeter
from app.chat.composer.message_field import MessageField
from app.theme.fonts import keep_sized, scaled
from app.theme.icons import IconButton, icon
from app.theme.keys import key_words, with_keys
from app.theme.theme import current
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.elided import ElidedLabel
from engine.language import tr, tr_count

_ROOM_FOR_WORDS = 480
_ROUND = 36


class Composer(QFrame):
    """The card at the bottom of the chat."""

    send_asked = Signal()
    stop_asked = Signal()
    setup_asked = Signal()
    files_asked = Signal()
    tools_asked = Signal()
    thinking_chosen = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        self.chips = AttachmentChips(self)
        self.field = MessageField(self)
        self.chips.followed_by = self.field
        self.field.setAccessibleName(tr("Message"))
        self.field.setPlaceholderText(tr("Ask something, or type / for a prompt"))
        self.attach_button = IconButton("clip", tr("Attach files"), self, shortcut="Ctrl+O")
        self.setup_button = self._quiet("sliders")
        self.tools_button = self._quiet("tool")
        self.think_button = self._quiet("bulb")
        self.think_button.setText(tr("Think"))
        self.think_button.setCheckable(True)
        self.think_button.setAccessibleName(tr("Think before answering"))
        self.think_button.setToolTip(tr("The model thinks before it answers"))
        self.think_button.hide()
        self._hint = ElidedLabel(self)
        self._hint.installEventFilter(self)
        self._hint.setProperty("look", "muted")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.meter = ContextMeter(self)
        self.send_button = self._round("send", tr("Send the message"))
        self.stop_button = self._round("stop", with_keys(tr("Stop the answer"), "Esc"))
        self._state = ComposerState(True, False)
        self._setup_words = ("", "")
        self._arrange()
        self.field.textChanged.connect(self._update_buttons)
        self.field.submitted.connect(self.send)
        self.field.focused.connect(self._show_focus)
        self.send_button.clicked.connect(self.send)
        self.stop_button.clicked.connect(self.stop_asked)
        self.setup_button.clicked.connect(self.setup_asked)
        self.attach_button.clicked.connect(self.files_asked)
        self.think_button.clicked.connect(self.thinking_chosen)
        self.tools_button.clicked.connect(self.tools_asked)
        self._tools = -1
        self.show_tools(0)
        self._update_buttons()

    def _quiet(self, icon_name: str) -> QToolButton:
        button = QToolButton(self, toolButtonStyle=Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setProperty("look", "quiet")
        button.setProperty("icon_name", icon_name)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        return button

    def _round(self, icon_name: str, name: str) -> IconButton:
        button = IconButton(icon_name, name, self)
        button.setProperty("look", "round")
        keep_sized(button, lambda: button.setFixedSize(scaled(_ROUND), scaled(_ROUND)))
        return button

    def _arrange(self) -> None:
        self._row = hbox(
            self.attach_button,
            self.setup_button,
            self.tools_button,
            self.think_button,
            (self._hint, 1),
            Spacing(8),
            self.meter,
            Spacing(4),
            self.send_button,
            self.stop_button,
            spacing=6,
            margins=0,
        )
        self.setup_button.setMinimumWidth(1)  # its words are cut to the room that is there
        self._column = vbox(
            self.chips, self.field, self._row, to=self, spacing=6, margins=(14, 12, 10, 10)
        )

    def set_state(self, state: ComposerState) -> None:
        """Allow what is possible and say the rest in words."""
        if state != self._state:
            self._state = state
            self._update_buttons()

    def show_setup(self, words: str, short: str = "") -> None:
        """Say how answers are drawn; `short` is for narrow windows."""
        if (words, short or words) == self._setup_words:
            return
        self._setup_words = (words, short or words)
        does = with_keys(tr("Sampling"), "Ctrl+T")
        self.setup_button.setToolTip(f"{words}\n{does}")
        self.setup_button.setAccessibleName(tr("Sampling: {words}").format(words=words))
        self._fit_words()

    def show_thinking(self, *, possible: bool, on: bool) -> None:
        """Offer the choice whether the model thinks first, where there is one."""
        self.think_button.setVisible(possible)
        self.think_button.setChecked(on)
        self._colour_icons()

    def show_tools(self, count: int) -> None:
        """Say how many tools the conversation may use."""
        if count == self._tools:
            return
        self._tools = count
        words = tr_count("{n} tool", "{n} tools", count) if count else tr("No tools")
        self.tools_button.setAccessibleName(tr("Tools: {words}").format(words=words))
        about = tr("Let the model call tools, such as a calculator")
        does = with_keys(about, "Ctrl+Shift+U")
        self.tools_button.setToolTip(f"{words}\n{does}")
        self.tools_button.setText(str(count) if count else "")
        self._colour_icons()

    def set_text(self, text: str) -> None:
        """Put `text` into the field, the cursor behind it."""
        self.field.set_text(text)
        self.field.setFocus()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour icons with the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and hasattr(self, "_state"):
            self._update_buttons()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Fit the words on the buttons, for which a narrow composer has no room."""
        super().resizeEvent(event)
        self._fit_words()

    def send(self) -> None:
        """Ask to send what is written, if that is possible now or when an answer has ended."""
        if (self._state.can_send or self._state.queues) and self.has_something:
            self.send_asked.emit()

    @property
    def has_something(self) -> bool:
        """True if there is anything to send."""
        return self.field.has_words or bool(self.chips.chips)

    def refresh(self) -> None:
        """Files were added or taken away."""
        self._update_buttons()

    def _update_buttons(self) -> None:
        stopping = self._state.can_stop
        queues = self._state.queues
        ready = (self._state.can_send or queues) and self.has_something
        self.send_button.setVisible(not stopping or ready)
        self.stop_button.setVisible(stopping)
        self.send_button.setEnabled(ready)
        self.send_button.set_icon("send", "on_accent" if ready else "muted")
        self.stop_button.set_icon("stop", "on_accent")
        self._colour_icons()
        why = "" if self._state.can_send or queues else self._state.reason
        sends = tr("Send when the answer has ended") if queues else tr("Send the message")
        self.send_button.setToolTip(why or with_keys(sends, "Enter"))
        self.send_button.setAccessibleDescription(why)
        self._fit_words()

    def _colour_icons(self) -> None:
        tokens = current()
        for button in (self.setup_button, self.tools_button, self.think_button):
            on = button.isChecked() or (button is self.tools_button and self._tools > 0)
            colour = tokens.accent if on else tokens.muted
            button.setIcon(icon(str(button.property("icon_name")), colour))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Look at the hint anew when what is beside it leaves it another width."""
        if event.type() is QEvent.Type.Resize and watched is self._hint:
            self._fit_words()
        return super().eventFilter(watched, event)

    def _fit_words(self) -> None:
        """The hint is shown whole or not at all; what is wrong is always said."""
        wide = self.width() >= _ROOM_FOR_WORDS
        text_beside = Qt.ToolButtonStyle.ToolButtonTextBesideIcon
        self.think_button.setToolButtonStyle(
            text_beside if wide else Qt.ToolButtonStyle.ToolButtonIconOnly
        )
        metrics = self.setup_button.fontMetrics()
        self.setup_button.setText(
            metrics.elidedText(
                self._setup_words[not wide], Qt.TextElideMode.ElideRight, self._room_for_setup()
            )
        )
        hint = tr("{enter} sends, {shift_enter} makes a new line").format(
            enter=key_words("Enter"), shift_enter=key_words("Shift+Enter")
        )
        fits = self._hint.fontMetrics().horizontalAdvance(hint) <= self._hint.width()
        idle = "" if self._state.can_stop or not fits else hint
        self._hint.setText(self._state.reason or idle)

    def _room_for_setup(self) -> int:
        """Logical pixels for the words on the button, which push nothing else aside."""
        row, button = self._row, self.setup_button
        others = [item for at in range(row.count()) if (item := row.itemAt(at)) is not None]
        taken = sum(each.minimumSize().width() for each in others if each.widget() is not button)
        gaps = row.spacing() * sum(not each.isEmpty() for each in others)
        frame = button.sizeHint().width() - button.fontMetrics().horizontalAdvance(button.text())
        margins = self.contentsMargins() + self._column.contentsMargins()
        spare = self.width() - margins.left() - margins.right() - taken - gaps - frame
        return max(min(spare, 2 * self.width() // 5), 0)

    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", "true" if focused else "false")
        self.style().unpolish(self)
        self.style().polish(self)
