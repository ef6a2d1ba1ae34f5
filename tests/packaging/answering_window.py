"""Opens Duotail's window, asks its model one thing, stops the answer and closes the window.

    PYTHON answering_window.py DATA QUESTION [MODEL]

It is run by the Python of an installed Duotail. Without a model it clicks on the first page's offer
to download one. The last line of its output is what had come of the answer, as JSON: small models
find no end at times; beside it, after how many seconds from the start of the process the model was
loaded and the first words were there, and how many this process computed. A load that fails ends
it, with its words.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
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
    offer = assembly.window.starter_offer.fetch_button
    timer = QTimer(assembly.window)
    began = psutil.Process().create_time()
    seconds: dict[str, float] = {}

    def reached(what: str) -> None:
        seconds.setdefault(what, round(time.time() - began, 2))

    def look() -> None:
        if offer.isVisible():
            reached("offered")
            offer.click()
        elif assembly.bridge.status.phase is Phase.READY and session.send(question):
            reached("loaded")
            timer.stop()

    def wrote(event: TextDelta) -> None:
        if event.text.strip():
            reached("answered")
            seconds.setdefault("computed", round(time.process_time(), 2))
            session.stop()

    def finished(message: StoredMessage) -> None:
        platform = QGuiApplication.platformName()
        told = {"text": message.text, "platform": platform, "seconds": seconds}
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
    data, text, *given = sys.argv[1:]
    model = Path(given[0]) if given else None
    sys.exit(run(find_paths(data), painted=lambda house: ask(house, text), model=model))
