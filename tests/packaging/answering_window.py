"""Opens Duotail's window with a model, asks it one thing, stops the answer and closes the window.

    PYTHON answering_window.py DATA MODEL QUESTION

It is run by the Python of an installed Duotail. The last line of its output is what had come of the
answer, as JSON: small models find no end at times. A load that fails ends it, with its words.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication

from app.application import Assembly, run
from app.data_folder.paths import find_paths
from app.engine_link.status import Phase
from app.history import StoredMessage
from engine.events import Failed, TextDelta


def ask(assembly: Assembly, question: str) -> None:
    """Send the question once the model is loaded, stop its answer, and end."""
    session = assembly.session
    timer = QTimer(assembly.window)

    def look() -> None:
        if assembly.bridge.status.phase is Phase.READY and session.send(question):
            timer.stop()

    def wrote(event: TextDelta) -> None:
        if event.text.strip():
            session.stop()

    def finished(message: StoredMessage) -> None:
        told = {"text": message.text, "platform": QGuiApplication.platformName()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        assembly.window.close()

    def failed(event: Failed) -> None:
        sys.stderr.write(f"{event.cause} {event.remedy} {event.details}\n")
        assembly.window.close()

    assembly.bridge.subscribe(Failed, failed)
    assembly.bridge.subscribe(TextDelta, wrote)
    session.answer_finished.connect(finished)
    timer.timeout.connect(look)
    timer.start(20)


if __name__ == "__main__":
    data, model, text = sys.argv[1:]
    code = run(find_paths(data), painted=lambda house: ask(house, text), model=Path(model))
    sys.exit(code)
