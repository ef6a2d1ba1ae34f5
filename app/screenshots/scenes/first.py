"""The first start, and windows of unusual shape."""

from __future__ import annotations

from pathlib import Path

from app.screenshots.scenes.shoot import Shoot, rendered
from app.screenshots.script import sample
from app.screenshots.stage import Stage
from engine.events import LoadProgress


def first_start(stage: Stage, shoot: Shoot) -> None:
    """From an empty window to one that is ready."""
    window = stage.window
    shoot("preparing")
    window.performance.hide()
    stage.assembly.start(lambda: Path("model"))
    stage.tell(sample(0.0, 3.0), LoadProgress(0.0, "Loading Duotail 7M", 0.62))
    shoot("loading")
    stage.ready()
    window.performance.show()
    shoot("first-start")
    window.performance.hide()


def narrow(stage: Stage, shoot: Shoot) -> None:
    """Half the screen for something else, and the smallest window there is."""
    window = stage.window
    size = window.size()
    window.resize(560, 800)
    stage.assembly.session.open(stage.assembly.session.conversations.newest_first()[0])
    rendered()
    shoot("narrow")
    window.resize(window.minimumSize())
    rendered()
    shoot("smallest")
    window.resize(size)


def large_text(stage: Stage, shoot: Shoot) -> None:
    """For eyes that need it."""
    settings = stage.assembly.settings
    settings.change(font_scale=1.6)
    rendered()
    shoot("large-text")
    settings.change(font_scale=1.0)
    rendered()
