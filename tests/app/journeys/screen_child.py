"""The real application in a real window; its test works it from outside, with keys and mouse.

Asked on stdin for a widget by its accessible name it prints the middle of it in screen
coordinates, or null; asked for "text NAME" what is written there.
"""

from __future__ import annotations

import json
import sys

from PySide6.QtCore import QObject, QPoint, QSocketNotifier
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QTextEdit, QWidget

from app.application import Assembly, run
from app.data_folder.paths import find_paths


class Guide(QObject):
    """Answers the test's questions."""

    def __init__(self, assembly: Assembly) -> None:
        super().__init__(assembly.window)
        self._assembly = assembly
        self._input = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read, self)
        self._input.activated.connect(self._answer)

    def _answer(self) -> None:
        line = sys.stdin.readline()
        if not line:
            QApplication.quit()
            return
        what, _, name = line.strip().partition(" ")
        answer: object
        match what:
            case "where":
                answer = self._middle(name)
            case "text":
                answer = self._text(name)
            case "focus":
                widget = QApplication.focusWidget()
                answer = widget.accessibleName() if widget else None
            case _:
                answer = str(self._assembly.bridge.status.phase)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    def _find(self, name: str) -> QWidget | None:
        shown = [
            widget
            for widget in QApplication.allWidgets()
            if widget.isVisible() and widget.accessibleName().startswith(name)
        ]
        # The lowest on the screen: the last message.
        return max(shown, key=lambda widget: widget.mapToGlobal(QPoint()).y(), default=None)

    def _middle(self, name: str) -> list[int] | None:
        widget = self._find(name)
        if widget is None:
            return None
        middle = widget.mapToGlobal(widget.rect().center())
        return [middle.x(), middle.y()]

    def _text(self, name: str) -> str | None:
        widget = self._find(name)
        if isinstance(widget, QTextEdit | QPlainTextEdit):
            return widget.toPlainText()
        return widget.text() if isinstance(widget, QLineEdit) else None


def main() -> None:
    guides: list[Guide] = []
    sys.exit(run(find_paths(sys.argv[1]), painted=lambda found: guides.append(Guide(found))))


if __name__ == "__main__":
    main()
