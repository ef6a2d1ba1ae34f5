"""The saved prompts, listed above the composer as soon as its text begins with "/"."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QRect, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import QFrame, QTreeWidget, QTreeWidgetItem, QWidget

from app.chat.composer.composer import Composer
from app.settings import SavedPrompt, SettingsStore
from app.theme.fonts import scaled
from app.theme.theme import current
from app.widgets.boxes import vbox
from app.widgets.escape import claims_escape
from engine.language import tr

_PROMPT = int(Qt.ItemDataRole.UserRole)
_MOST_ROWS = 7
_MARGIN = 6
_SEARCHED = 500
"""Characters of a prompt that are searched at every key: long ones must not delay the next."""
_NAME_WIDTH = 180
_MOVES = frozenset({Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown})
_TAKES = frozenset({Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab})


class PromptMenu(QFrame):
    """Lists what fits the words after "/"; the keyboard stays in the message field."""

    manage_asked = Signal()
    """The user wants to change the prompts."""

    def __init__(self, composer: Composer, settings: SettingsStore, parent: QWidget) -> None:
        super().__init__(parent)
        self._composer, self._field, self._settings = composer, composer.field, settings
        self._dismissed = False
        """True from Escape until the text no longer begins with "/"."""
        self.setProperty("look", "notice")
        self.list = QTreeWidget(self, columnCount=2)
        self.list.setAccessibleName(tr("Prompts"))
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setProperty("look", "rows")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        vbox(self.list, to=self, margins=_MARGIN)
        self.hide()
        self._field.textChanged.connect(self._typed)
        self._field.focused.connect(lambda focused: None if focused else self.hide())
        self._field.installEventFilter(self)
        composer.installEventFilter(self)
        self.list.itemClicked.connect(lambda item, _column: self._take(item))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Keys that move in the list, take from it and close it; follow the composer."""
        if watched is self._composer:
            if self.isVisible() and event.type() in (QEvent.Type.Resize, QEvent.Type.Move):
                self._place()
            return False
        if not self.isVisible():
            return False
        if claims_escape(event):
            return True
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            return self._pressed(event)
        return False

    def _pressed(self, event: QKeyEvent) -> bool:
        plain = event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        )
        if event.key() in _MOVES and plain:
            self.list.keyPressEvent(event)
        elif event.key() in _TAKES and plain:
            self._take(self.list.currentItem())
        elif event.key() == Qt.Key.Key_Escape:
            self._dismissed = True
            self.hide()
        else:
            return False
        return True

    def _typed(self) -> None:
        block = self._field.document().firstBlock()
        first = block.text()
        if not first.startswith("/"):
            self._dismissed = False
            self.hide()
        elif not self._dismissed and self._field.hasFocus() and not block.next().isValid():
            self._list(first[1:])

    def _list(self, query: str) -> None:
        """Show the prompts that have all words of `query`; hide where there are none."""
        found = matching(self._settings.value.prompts, query)
        self.setVisible(bool(found) or not query)
        if not self.isVisible():
            return
        self.list.clear()
        for prompt in found:
            item = QTreeWidgetItem([prompt.name, " ".join(prompt.text[:200].split())])
            item.setData(0, _PROMPT, prompt)
            item.setForeground(1, QColor(current().muted))
            self.list.addTopLevelItem(item)
        self.list.addTopLevelItem(QTreeWidgetItem([tr("Edit prompts…")]))
        self.list.setCurrentIndex(self.list.model().index(0, 0))
        self._place()

    def _place(self) -> None:
        """Stand on the composer's upper edge, as wide as it is."""
        rows = min(self.list.topLevelItemCount(), _MOST_ROWS)
        height = rows * max(self.list.sizeHintForRow(0), scaled(24)) + 2 * _MARGIN + 2
        box = self._composer.geometry()
        self.setGeometry(QRect(box.left(), box.top() - height - 4, box.width(), height))
        self.list.setColumnWidth(0, scaled(_NAME_WIDTH))
        self.raise_()

    def _take(self, item: QTreeWidgetItem | None) -> None:
        prompt = item.data(0, _PROMPT) if item is not None else None
        self.hide()
        if isinstance(prompt, SavedPrompt):
            self._field.take_prompt(prompt.text)
        else:
            self._field.set_text("")
            self.manage_asked.emit()


def matching(prompts: Sequence[SavedPrompt], query: str) -> list[SavedPrompt]:
    """Return the prompts, as they are shown, whose name or text has all words of `query`.

    Those whose name begins with it come first, then those that have it in the name.
    """
    words = query.casefold().split()
    ranked: list[tuple[int, SavedPrompt]] = []
    for prompt in (each.shown() for each in prompts):
        name, text = prompt.name.casefold(), prompt.text[:_SEARCHED].casefold()
        if all(word in name for word in words):
            ranked.append((0 if name.startswith("".join(words[:1])) else 1, prompt))
        elif all(word in name or word in text for word in words):
            ranked.append((2, prompt))
    return [prompt for _rank, prompt in sorted(ranked, key=lambda each: each[0])]
