"""Downloads at the bottom of the Models page: how far they are, and what mends one that failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import Qt
from scripted_hub import Visitor, arrived, banner, loads, told

from app.models.job_row import left_words
from app.models.search_bar import ModelsTab
from app.showcase import hub_story as story
from engine.hub.download.jobs import JobReport, JobState

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

TARGET, DRAFT = story.UNDER_WAY[0].job, story.UNDER_WAY[1].job


def test_downloads_tell_how_far_they_are_and_are_paused_resumed_given_up(visitor: Visitor) -> None:
    page = visitor.page
    assert not page.downloads.isVisible()
    visitor.tell(*story.UNDER_WAY)
    row = page.downloads.rows["target"]
    assert (
        row.state.text().replace("\N{NO-BREAK SPACE}", " ")
        == "2.1 GB of 5.0 GB · 31.4 MB/s · 2 min left"
    )
    assert "1 running" in page.downloads.summary.text()
    row.pause_button.setFocus()
    visitor.desk.bot.keyClick(row.pause_button, Qt.Key.Key_Space)
    visitor.did(JobState.PAUSED, "target")
    visitor.until(row.resume_button.isVisible)
    assert row.resume_button.hasFocus(), "the keyboard stays in its place"
    visitor.click(row.resume_button)
    visitor.did(JobState.FETCHING, "target")
    visitor.click(page.downloads.rows["m"].cancel_button)
    visitor.did("cancel", "m")
    visitor.until(lambda: "m" not in page.downloads.rows)


def test_downloads_leave_room_for_what_is_chosen_above_them(visitor: Visitor) -> None:
    """In a low window the buttons of a model were cut off."""
    page, window = visitor.page, visitor.desk.assembly.window
    visitor.tell(*story.UNDER_WAY)
    page.show_tab(ModelsTab.RECOMMENDED)
    rows = page.downloads._scroller
    window.resize(1280, 1080)
    visitor.until(lambda: page.height() > 900 and rows.height() < page.height() / 4)
    all_in_sight = rows.height()
    window.resize(1280, 600)
    visitor.until(lambda: page.height() < 600 and rows.height() <= page.height() / 4)
    window.resize(1280, 1080)
    visitor.until(lambda: rows.height() == all_in_sight)


def test_a_failed_download_offers_what_mends_it(visitor: Visitor) -> None:
    page = visitor.page
    visitor.tell(*story.FAILED)
    full, gated = page.downloads.rows["target"], page.downloads.rows["llama"]
    assert full.trouble.text().startswith("There is not enough room")
    assert full.space_button.isVisible()
    assert not full.token_button.isVisible()
    assert gated.token_button.isVisible()
    visitor.click(full.again_button)
    visitor.did(JobState.FETCHING, "target")
    visitor.until(lambda: not full.again_button.isVisible())
    visitor.tell(*story.FAILED)
    visitor.click(full.space_button)
    assert page.search.tab is ModelsTab.INSTALLED


def test_what_was_done_before_the_window_opened_is_not_told_again(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    script = Script()
    told(script.hub)
    script.hub.reports = (arrived(TARGET),)
    desk = open_desk(script)
    desk.ready()
    visitor = Visitor.of(desk)
    visitor.until(lambda: TARGET.key in visitor.page.downloads.rows)
    visitor.did("keep", TARGET.key)
    assert desk.banners.texts == []


def test_a_model_is_told_of_when_its_draft_is_here_too(visitor: Visitor) -> None:
    visitor.until(lambda: visitor.page._services.hub._looked)
    draft = JobReport(DRAFT, JobState.FETCHING)
    visitor.tell(arrived(TARGET), draft)
    assert visitor.desk.banners.texts == []
    visitor.tell(arrived(TARGET), arrived(DRAFT))
    banner(visitor, "Qwen3-8B and its draft were downloaded.")


def test_the_list_of_downloads_folds(visitor: Visitor) -> None:
    bar = visitor.page.downloads
    visitor.tell(*story.UNDER_WAY)
    for words, shown in (("Show the list of downloads", False), ("Hide the list", True)):
        visitor.click(bar.fold_button)
        assert bar.rows["target"].isVisible() is shown
        assert bar.fold_button.toolTip().startswith(words)


def test_hours_and_verifying_are_told(visitor: Visitor) -> None:
    assert left_words(3 * 3600).replace("\N{NO-BREAK SPACE}", " ") == "3 h left"
    visitor.tell(replace(story.UNDER_WAY[0], state=JobState.CHECKING))
    row = visitor.page.downloads.rows["target"]
    assert row.state.text().startswith("Verifying")


def test_what_was_downloaded_is_used(visitor: Visitor) -> None:
    visitor.tell(arrived(TARGET))
    visitor.click(visitor.page.downloads.rows[TARGET.key].use_button)
    visitor.until(lambda: str(loads(visitor)[-1].model) == arrived(TARGET).model)
    assert visitor.desk.chat.isVisible()
