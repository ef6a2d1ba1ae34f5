"""A real window on the real engine that asks one question; its test kills it in mid-answer."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from PySide6.QtCore import QTimer

from app.application import Assembly, make_application
from app.chat.session import ChatSession
from app.paths import find_paths
from app.status import Phase
from app.theme.theme import Theme
from engine.commands import Load, Mode, WeightFormat
from engine.hub.local import bundled_target


def slow_model() -> Load:
    """The slow path without a draft, so that there is a middle of the answer."""
    return Load(bundled_target(), mode=Mode.PLAIN, weights=WeightFormat.F32)


def main() -> None:
    application = make_application()
    assembly = Assembly(find_paths(sys.argv[1]), Theme(application))
    session: ChatSession = assembly.session

    def watch() -> None:
        if assembly.bridge.status.phase is Phase.READY and not session.messages:
            assembly.window.chat.composer.field.setPlainText("Tell me a short story about a dog.")
            assembly.window.chat.composer.send()
        live = session.live
        if live is not None and live.text and not live.unsaved_text:
            # Everything shown so far has been handed to the history. Freeze in mid-answer.
            sys.stdout.write(json.dumps("".join(live.text)) + "\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGSTOP)

    timer = QTimer()
    timer.timeout.connect(watch)
    timer.start(3)
    assembly.window.show()
    assembly.bridge.start(slow_model)
    application.exec()


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    main()
