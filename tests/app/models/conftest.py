"""Somebody on the Models page of a window."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from desk import Desk
from fake_engine import Script
from scripted_hub import Visitor, told

from app.models.search_bar import ModelsTab
from app.showcase import hub_story as story


@pytest.fixture
def visitor(open_desk: Callable[[Script | None], Desk]) -> Visitor:
    """Somebody who has just opened the page of a window that is used for the first time."""
    script = Script()
    told(script.hub)
    desk = open_desk(script)
    desk.ready()
    desk.assembly.window.resize(1280, 800)
    return Visitor.of(desk)


@pytest.fixture
def keeper(visitor: Visitor) -> Visitor:
    """Somebody who looks at the models on this computer."""
    visitor.script.candidates = story.KEPT_CANDIDATES
    visitor.go_to(ModelsTab.INSTALLED)
    count = len(story.KEPT) + len(story.ELSEWHERE) + 2
    visitor.until(lambda: len(visitor.page.installed.view.rows.entries) == count)
    return visitor
