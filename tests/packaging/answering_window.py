"""Opens Duotail's window with a model, asks it one thing, and closes it when the answer is stored.

    PYTHON answering_window.py DATA MODEL QUESTION

It is run by the Python of an installed Duotail. The last line of its output is the answer, as JSON.
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


def ask(assembly: Assembly, question: str) -> None:
    """Send the question once the model is loaded, and end with its answer."""
    session = assembly.session
    answers: list[StoredMessage] = []
    timer = QTimer(assembly.window)

    def look() -> None:
        if assembly.bridge.status.phase is Phase.READY:
            timer.stop()
            session.send(question)

    def stored(_conversation: object) -> None:
        if answers:
            platform = QGuiApplication.platformName()
            sys.stdout.write(json.dumps({"text": answers[-1].text, "platform": platform}) + "\n")
            sys.stdout.flush()
            assembly.window.close()

    session.answer_finished.connect(answers.append)
    session.writer.stored.connect(stored)
    timer.timeout.connect(look)
    timer.start(20)


if __name__ == "__main__":
    data, model, text = sys.argv[1:]
    code = run(find_paths(data), painted=lambda house: ask(house, text), model=Path(model))
    sys.exit(code)
