"""The walk through the window, in every look: each scene is one picture."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.application import make_application
from app.settings.language import speak
from app.showcase import scenes
from app.showcase.stage import Stage, settle
from app.theme.theme import Theme, ThemeChoice
from engine.language import ENGLISH

_log = logging.getLogger(__name__)

_SIZES = (QSize(1280, 800), QSize(1920, 1080))
_LOOKS = (ThemeChoice.LIGHT, ThemeChoice.DARK)


@dataclass(slots=True)
class Camera:
    """Numbers the pictures of one look and writes them."""

    folder: Path
    suffix: str
    taken: int = 0

    def shoot(self, name: str, widget: QWidget) -> None:
        """Take a picture of `widget`; a folder that cannot be written is told in the log."""
        settle()
        QTest.qWait(30)
        self.taken += 1
        target = self.folder / f"{self.taken:02}-{name}-{self.suffix}.png"
        with suppress(OSError):
            if not widget.grab().save(str(target)):
                _log.error("%s could not be written", target)


def take_screenshots(folder: Path, language: str = "") -> int:
    """Write the pictures into `folder`, with texts in `language`; the exit code."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    folder.mkdir(parents=True, exist_ok=True)
    application = make_application()
    speak(application, language or ENGLISH)
    theme = Theme(application)
    for size in _SIZES:
        for choice in _LOOKS:
            camera = Camera(folder, f"{choice}-{size.width()}x{size.height()}")
            with tempfile.TemporaryDirectory(prefix="duotail-shots-") as data:
                _tour(theme, choice, size, Path(data), camera)
    return 0


def _tour(theme: Theme, choice: ThemeChoice, size: QSize, data: Path, camera: Camera) -> None:
    stage = Stage(theme, data)
    stage.assembly.settings.change(theme=choice)
    theme.apply(choice)
    stage.window.resize(size)
    stage.window.show()

    def shoot(name: str, widget: QWidget = stage.window) -> None:
        camera.shoot(name, widget)

    try:
        for scene in scenes.ALL:
            scene(stage, shoot)
    finally:
        stage.window.close()
        stage.assembly.close()
        stage.window.deleteLater()
        settle()
