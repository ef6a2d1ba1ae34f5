"""The card of a tool call: the tool, its arguments, how far it is, and whether it may run."""

from __future__ import annotations

import json

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QFrame, QLabel, QPlainTextEdit, QPushButton, QWidget

from app.history import StoredMessage
from app.signals import TypedSignal
from app.theme.fonts import scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.tools.call_phase import CallPhase, Decision
from app.tools.entry import ToolEntry
from app.tools.results import harmless, one_line
from app.widgets.boxes import hbox, vbox
from app.widgets.flow_layout import FlowLayout
from app.widgets.labels import plain_label, say
from app.widgets.text_button import text_button
from engine.language import later, listed, tr, tr_count
from engine.request import ToolCall

_MOST_LINES = 10
_SIDE = 14
_LOOKS = {
    CallPhase.ASKED: "caution",
    CallPhase.FAILED: "danger",
}
_WORDS = {
    CallPhase.ASKED: later("Waits for you"),
    CallPhase.WAITING: later("Waits its turn"),
    CallPhase.RUNNING: later("Running…"),
    CallPhase.DONE: later("Done"),
    CallPhase.FAILED: later("Failed"),
    CallPhase.DECLINED: later("Not run"),
    CallPhase.STOPPED: later("Stopped"),
}
_DECISIONS = {
    Decision.ONCE: later("Run once"),
    Decision.CHAT: later("Allow in this chat"),
    Decision.ALWAYS: later("Always allow this tool"),
    Decision.DECLINE: later("Don't run"),
}
_ABOUT = {
    Decision.ONCE: later("Runs this call only. You are asked again before the next one."),
    Decision.CHAT: later("Runs this tool in this chat without asking, until Duotail is closed."),
    Decision.ALWAYS: later(
        "Runs this tool in every chat without asking. You can take that back in the settings."
    ),
    Decision.DECLINE: later("The model is told that you declined."),
}


class ToolCard(QFrame):
    """Shows one call.

    Args:
        message: the tool's message.
        parent: the row.
    """

    decided = TypedSignal[Decision]()
    fold_asked = Signal()

    def __init__(self, message: StoredMessage, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("look", "notice")
        self._icon = QLabel(self)
        self._title = plain_label("", self, "title")
        self._title.setWordWrap(False)
        self._source = plain_label("", self, "small")
        self._source.setWordWrap(False)
        self.status = plain_label("", self, "muted")
        self.status.setWordWrap(False)
        self.arguments = QPlainTextEdit(self, readOnly=True, tabChangesFocus=True)
        self.arguments.setAccessibleName(tr("Arguments"))
        self.arguments.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.arguments.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self._question = plain_label("", self)
        self.buttons = {each: self._button(each) for each in Decision}
        self.fold = text_button("", self, self.fold_asked.emit, look="choice")
        self._asked = QWidget(self)
        flow = FlowLayout(to=self._asked)
        for button in self.buttons.values():
            flow.addWidget(button)
        vbox(
            hbox(self._icon, self._title, self._source, 1, self.status, spacing=8),
            self.arguments,
            self._question,
            self._asked,
            hbox(self.fold, 1),
            to=self,
            spacing=8,
            margins=(_SIDE, 10, _SIDE, 12),
        )
        self._show_arguments(message.calls)

    def _button(self, decision: Decision) -> QPushButton:
        button = text_button(tr(_DECISIONS[decision]), self)
        button.clicked.connect(lambda: self.decided.emit(decision))
        button.setToolTip(tr(_ABOUT[decision]))
        return button

    @property
    def stops(self) -> list[QWidget]:
        """Return the widgets that Tab goes through."""
        return [self.arguments, *self.buttons.values(), self.fold]

    @property
    def first_choice(self) -> QPushButton:
        """Return the button that answers the question first."""
        return next((b for b in self.buttons.values() if not b.isHidden()), self.fold)

    def show_call(
        self, message: StoredMessage, phase: CallPhase, entry: ToolEntry | None, *, opened: bool
    ) -> None:
        """Show how far the call is.

        Args:
            message: the tool's message.
            phase: of the call.
            entry: the tool; None: it is not chosen in this chat any more.
            opened: whether the result is to be seen.
        """
        name = next((call.name for call in message.calls), "")
        title = one_line(name, 80) if entry is None else entry.title
        source = entry.source if entry is not None else ""
        self._title.setText(title)
        say(self._source, tr("From {server}").format(server=source) if source else "")
        say(self.status, tr(_WORDS[phase]), _LOOKS.get(phase, "muted"))
        asked = phase is CallPhase.ASKED
        question = tr("The model wants to run this tool with these arguments.")
        if entry is None:
            question = tr("The model asks for a tool that this chat does not use any more.")
        say(self._question, question if asked else "")
        self._asked.setVisible(asked)
        for decision, button in self.buttons.items():
            button.setVisible(asked and (entry is not None or decision is Decision.DECLINE))
        lines = message.text.count("\n") + 1
        shows = tr_count("Show the result ({n} line)", "Show the result ({n} lines)", lines)
        self.fold.setText(tr("Hide the result") if opened else shows)
        ended = phase not in (CallPhase.ASKED, CallPhase.WAITING, CallPhase.RUNNING)
        self.fold.setVisible(ended and bool(message.text))
        self.setAccessibleName(listed([title, self.status.text()]))
        self._recolour()

    def _show_arguments(self, calls: tuple[ToolCall, ...]) -> None:
        """Show all of the arguments: what the user allows must be there to be read."""
        text = harmless("".join(_readable(call) for call in calls))
        self.arguments.setPlainText(text)

    def _fit(self, width: int) -> None:
        """Give the arguments the lines that they take in a width, up to some; then they scroll."""
        self.arguments.resize(width, self.arguments.height())
        document = self.arguments.document()
        lines = max(round(document.size().height()), 1)  # a plain text counts in lines
        around = 2 * scaled(7) + round(2 * document.documentMargin()) + 4
        spacing = self.arguments.fontMetrics().lineSpacing()
        self.arguments.setFixedHeight(min(lines, _MOST_LINES) * spacing + around)
        bars = Qt.ScrollBarPolicy
        self.arguments.setVerticalScrollBarPolicy(
            bars.ScrollBarAsNeeded if lines > _MOST_LINES else bars.ScrollBarAlwaysOff
        )

    def _recolour(self) -> None:
        side = scaled(18)
        self._icon.setPixmap(icon("tool", current().muted).pixmap(side, side))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour with the theme, and grow with the text."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(
            self, "fold"
        ):
            self._recolour()

    def height_in(self, width: int) -> int:
        """Return the height that it takes in a width."""
        self._fit(width - 2 * _SIDE)
        layout = self.layout()
        assert layout is not None  # noqa: S101 - told to the type checker
        if layout.hasHeightForWidth():
            return layout.totalHeightForWidth(width)
        return layout.totalSizeHint().height()  # nothing in it wraps now


def _readable(call: ToolCall) -> str:
    """Return arguments as lines of names and values, or as they are."""
    try:
        told = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    if not isinstance(told, dict):
        return call.arguments
    said = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        for name, value in told.items()
    }
    return "\n".join(f"{name}: {value}" for name, value in said.items()) or tr("(no arguments)")
