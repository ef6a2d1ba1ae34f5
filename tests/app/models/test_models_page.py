"""The Models page: nothing is sent unasked, three clicks to a model, drafts with reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QToolTip,
    QWidget,
)
from scripted_hub import Visitor, banner, button, loads, told

from app.models.download_orders import Wanted
from app.models.row_delegate import RowDelegate
from app.models.search_bar import ModelsTab
from app.models.token_dialog import TokenDialog
from app.shell.page_names import PageName
from app.showcase import hub_story as story
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.messages import Access, Describe, Job, Order, Packaging, Refused, Search
from engine.hub.remote.faults import BY_CHOICE, Fault

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

TARGET, DRAFT = story.UNDER_WAY[0].job, story.UNDER_WAY[1].job


# -- asking ------------------------------------------------------------------------------------


def test_nothing_is_asked_of_the_hub_before_the_user_searches(visitor: Visitor) -> None:
    page = visitor.page
    visitor.until(lambda: len(page.recommended.view.rows.entries) == len(story.SUGGESTIONS))
    for tab in ModelsTab:
        visitor.go_to(tab)
        QTest.keyClicks(page.search.field, "qwen")
        assert "Nothing is sent" in page.search.note.text()
    visitor.go_to(ModelsTab.INSTALLED)
    visitor.until(lambda: bool(page.installed.view.rows.entries))
    visitor.desk.bot.keyClick(page.search.field, Qt.Key.Key_Return)
    assert visitor.script.asked == []


def test_a_search_asks_for_what_was_chosen_and_shows_what_was_found(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go_to(ModelsTab.SEARCH)
    page.search.packaging_box.setCurrentIndex(1)
    page.search.order_box.setCurrentIndex(2)
    visitor.find("  qwen3 ")
    (asked,) = visitor.script.asked
    assert isinstance(asked, Search)
    assert (asked.words, asked.packaging, asked.order) == ("qwen3", Packaging.GGUF, Order.NEWEST)
    visitor.until(lambda: tuple(page.searching.view.rows.entries) == story.RESULTS)
    assert page.search.count.text() == f"{len(story.RESULTS)} models found."
    assert page.searching.view.current is None


def test_an_answer_to_an_older_question_is_not_shown(visitor: Visitor) -> None:
    page = visitor.page
    visitor.script.silent = True
    page.look_for("first")
    page.look_for("second")
    visitor.until(lambda: len(visitor.script.asked) == 2)
    visitor.script.silent = False
    first, second = visitor.script.asked
    visitor.script.found = story.RESULTS[:1]
    visitor.hub.ask(first)
    visitor.script.found = story.RESULTS[1:3]
    visitor.hub.ask(second)
    visitor.until(lambda: not page._services.hub.searching)
    assert tuple(page.searching.view.rows.entries) == story.RESULTS[1:3]


def test_trouble_with_the_hub_is_told_in_words_and_can_be_tried_again(visitor: Visitor) -> None:
    page = visitor.page
    question = Search(Access(), "")
    visitor.script.refusal = Refused(question, Fault.OFFLINE, "No network.", "Look at the cable.")
    visitor.find("qwen")
    visitor.until(lambda: page.searching.words.text() == "No network.\nLook at the cable.")
    visitor.script.refusal = None
    visitor.click(page.searching.action)
    visitor.until(lambda: tuple(page.searching.view.rows.entries) == story.RESULTS)
    assert page.searching.view.isVisible()


def test_nothing_found_is_said(visitor: Visitor) -> None:
    visitor.script.found = ()
    visitor.find("no such model")
    visitor.until(lambda: "“no such model”" in visitor.page.searching.words.text())


# -- one model of the hub ----------------------------------------------------------------------


def test_a_result_tells_licence_variants_fits_and_drafts(visitor: Visitor) -> None:
    visitor.find("qwen3")
    visitor.choose(story.QWEN3_8B)
    detail = visitor.page.searching.remote
    assert detail.licence.words.text() == "Licence: apache-2.0"
    visitor.until(lambda: detail.variant is not None and bool(detail.fit_words.text()))
    rows = [detail.variants.rows.row(detail.variants.rows.index(n, 0)) for n in range(5)]
    marks = [row.mark.text for row in rows if row is not None and row.mark is not None]
    assert marks == ["Fits the GPU", "Fits the GPU", "GPU and CPU", "GPU and CPU", "Tight"]
    assert "38–55 tokens/s" in (rows[1].about if rows[1] is not None else "")
    visitor.until(lambda: len(detail.drafts.candidates) == len(story.CANDIDATES))
    shown = [each.text() for each in detail.drafts.findChildren(QLabel)]
    for candidate in story.CANDIDATES:
        assert any(candidate.reason in text for text in shown)
    chosen = detail.drafts.chosen
    assert chosen is not None
    assert chosen.repo == story.QWEN3_SMALL.repo
    assert len(detail.drafts.buttons) == 2  # the one that fits, and none


def test_one_button_fetches_the_model_and_its_draft(visitor: Visitor) -> None:
    visitor.find("qwen3")
    visitor.choose(story.QWEN3_8B)
    detail = visitor.page.searching.remote
    q4, small = story.REPOSITORY.variants[1], story.SMALL_REPOSITORY.variants[4]
    visitor.until(lambda: "5.6\N{NO-BREAK SPACE}GB" in detail.download_button.text())
    assert q4.nbytes + small.nbytes == pytest.approx(5.6e9, rel=0.01)
    visitor.click(detail.download_button)
    repos = (story.QWEN3_8B.repo, story.QWEN3_SMALL.repo)
    visitor.until(lambda: ("add", *repos, None) in visitor.script.done)
    first, second = (each.job for each in visitor.script.reports)
    assert (first.variant, second.draft_of) == ("Q4_K_M", first.key)
    assert first.licence == "apache-2.0"
    assert first.files == q4.files


def test_without_draft_only_the_model_is_fetched(visitor: Visitor) -> None:
    visitor.find("qwen3")
    visitor.choose(story.QWEN3_8B)
    detail = visitor.page.searching.remote
    visitor.click(detail.alone_button)
    visitor.did("add", story.QWEN3_8B.repo, None)


def test_a_draft_of_unknown_size_or_kept_already_is_ordered_with_the_model(
    visitor: Visitor,
) -> None:
    visitor.find("qwen3")
    visitor.choose(story.QWEN3_8B)
    detail = visitor.page.searching.remote
    visitor.until(lambda: detail.variant is not None and detail.drafts.chosen is not None)
    assert detail.drafts.chosen is not None
    unknown = replace(detail.drafts.chosen, repo="somebody/draft", nbytes=None)
    detail.show_drafts([unknown])
    assert detail.download_button.text() == "Download with draft"
    kept = replace(unknown, path=Path("draft.gguf"))
    detail.show_drafts([kept])
    order = detail.wanted(with_draft=True)
    assert order is not None
    assert (order.draft_path, order.draft_repo) == (kept.path, None)


def test_a_gated_model_leads_to_its_terms_and_to_the_token(visitor: Visitor) -> None:
    visitor.find("llama")
    visitor.choose(story.LLAMA)
    licence = visitor.page.searching.remote.licence
    visitor.until(licence.terms_button.isVisible)
    visitor.click(licence.token_button)
    dialogs = [each for each in QApplication.topLevelWidgets() if isinstance(each, TokenDialog)]
    (dialog,) = [each for each in dialogs if each.isVisible()]
    assert not dialog.keep_button.isEnabled()
    QTest.keyClicks(dialog.field, " hf_secret ")
    visitor.click(dialog.keep_button)
    visitor.until(lambda: visitor.script.token == "hf_secret")
    banner(visitor, "kept in this computer's keyring")
    visitor.find("llama")
    assert visitor.script.asked[-1].access.token == "hf_secret"
    assert "hf_secret" not in repr(visitor.script.asked[-1])


def test_a_model_that_cannot_be_described_can_be_asked_for_again(visitor: Visitor) -> None:
    visitor.find("qwen3")
    question = Describe(Access(), story.QWEN3_8B.repo)
    visitor.script.refusal = Refused(question, Fault.SERVER, "An error.", "Try again later.")
    page = visitor.page
    page.searching.view.choose(story.QWEN3_8B.repo)
    detail = page.searching.remote
    visitor.until(detail.again_button.isVisible)
    assert not detail.download_button.isVisible()
    visitor.script.refusal = None
    visitor.click(detail.again_button)
    visitor.until(lambda: detail.repository is story.REPOSITORY)


def test_try_again_is_not_offered_where_it_cannot_help(visitor: Visitor) -> None:
    """A model that is gone, a token that is not accepted, requests that the user forbids."""
    page, coming = visitor.page, story.FAILED[0]
    again = {
        Fault.DROPPED: True,
        Fault.DISK_FULL: True,
        Fault.NOT_FOUND: False,
        Fault.UNSAFE: False,
        Fault.SIGN_IN: False,
    }
    for fault, wanted in again.items():
        visitor.tell(replace(coming, fault=fault))
        assert page.downloads.rows["target"].again_button.isVisible() == wanted, fault
    question = Search(Access(), "")
    visitor.script.refusal = Refused(question, Fault.OFFLINE, "Blocked.", "Unset it.", BY_CHOICE)
    visitor.find("qwen")
    visitor.until(lambda: page.searching.words.text() == "Blocked.\nUnset it.")
    assert not page.searching.action.isVisible()
    visitor.script.refusal = Refused(question, Fault.SIGN_IN, "Not accepted.", "Enter another.")
    visitor.find("qwen")
    visitor.until(lambda: page.searching.action.text() == "Enter access token…")
    page._services.hub.keep_token("hf_other")
    visitor.did(JobState.FETCHING, "target")  # it had failed for want of a token


# -- from suggestion to chat -------------------------------------------------------------------


def test_three_clicks_from_the_first_start_to_a_model_that_answers(
    open_desk: Callable[[Script | None], Desk], tmp_path: Path
) -> None:
    def bring(job: Job) -> JobReport:
        file = tmp_path / f"{job.variant}.gguf"
        file.touch()  # a draft that is gone would not be asked for
        return JobReport(job, JobState.DONE, job.nbytes, model=str(file))

    script = Script()
    told(script.hub)
    script.hub.bring = bring
    desk = open_desk(script)
    desk.ready()
    window = desk.assembly.window
    window.resize(1280, 800)
    models = window.navigation.buttons
    visitor = Visitor(desk, page=None)  # type: ignore[arg-type]
    visitor.click(next(iter(models.values())))  # 1
    visitor.page = window.pages.currentWidget()  # type: ignore[assignment]
    visitor.click(visitor.page.recommended.suggested.download_button)  # 2
    said = banner(visitor, "Qwen3-8B and its draft were downloaded.")
    visitor.click(button(said, "Use now"))  # 3
    visitor.until(lambda: loads(visitor)[-1].model == tmp_path / "Q4_K_M.gguf")
    visitor.until(lambda: bool(desk.assembly.settings.value.profiles))  # once it has run
    assert desk.assembly.settings.value.profiles[0].drafts == (str(tmp_path / "Q8_0.gguf"),)


def test_a_draft_that_cannot_be_had_does_not_keep_the_model_away(visitor: Visitor) -> None:
    del visitor.script.repositories[story.QWEN3_SMALL.repo]
    visitor.click(visitor.page.recommended.suggested.download_button)
    visitor.did("add", story.QWEN3_8B.repo, None)
    banner(visitor, "There is no model")


def test_rows_explain_their_badges_and_are_read_aloud(visitor: Visitor) -> None:
    view = visitor.page.recommended.view
    visitor.until(lambda: len(view.rows.entries) == len(story.SUGGESTIONS))
    index = view.rows.index(0, 0)
    row, area = view.rows.row(index), view.visualRect(index)
    assert row is not None
    assert row.mark is not None

    def tip(place: QPoint) -> str:
        shown = view.viewport().mapToGlobal(place)
        QApplication.sendEvent(view.viewport(), QHelpEvent(QEvent.Type.ToolTip, place, shown))
        return QToolTip.text()

    delegate = view.itemDelegate()
    assert isinstance(delegate, RowDelegate)
    badge = delegate._badge_area(area, row).center().toPoint()
    assert tip(QPoint(20, view.viewport().height() - 2)) == ""
    assert tip(badge) == (row.mark.tip or row.mark.text)
    assert tip(area.topLeft() + QPoint(20, 10)) == row.tip
    spoken = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == f"{row.title}, {row.about}, {row.mark.text}"


def test_what_cannot_be_fetched_is_told(visitor: Visitor) -> None:
    orders, name = visitor.page._services.ordering, story.QWEN3_8B.repo
    small = story.QWEN3_SMALL.repo
    visitor.script.repositories[small] = replace(story.SMALL_REPOSITORY, variants=())
    orders.order(Wanted(name, "Q4_K_M", small))
    banner(visitor, f"{small} has no files that can draft")
    for _ in range(2):  # the window does not hear of the first in between
        orders.order(Wanted(name, "Q5_K_M"))
    banner(visitor, "It is being downloaded already.")
    orders.order(Wanted(small, "Q4_K_M"))
    banner(visitor, f"{small} has no files that Duotail can use.")
    orders.order(Wanted("nobody/nothing", "Q4_K_M"))
    banner(visitor, "There is no model “nobody/nothing”")
    assert not orders.waits_for("nobody/nothing")
    fetched = [each.job.variant for each in visitor.hub.reports()]
    assert fetched == ["Q4_K_M", "Q5_K_M"]


# -- keyboard and names ------------------------------------------------------------------------


def test_everything_can_be_done_by_keyboard(visitor: Visitor) -> None:
    page, bot = visitor.page, visitor.desk.bot
    visitor.go_to(ModelsTab.SEARCH)
    page.search.field.setFocus()
    QTest.keyClicks(page.search.field, "qwen3")
    bot.keyClick(page.search.field, Qt.Key.Key_Return)
    visitor.until(lambda: bool(page.searching.view.rows.entries))
    bot.keyClick(page.search.field, Qt.Key.Key_Down)
    assert page.searching.view.hasFocus()
    assert page.searching.view.selectionModel().isSelected(page.searching.view.currentIndex())
    visitor.until(lambda: page.searching.remote.repository is not None)
    asked = [each.repo for each in visitor.script.asked if isinstance(each, Describe)]
    assert asked[0] == story.QWEN3_8B.repo
    visitor.until(page.searching.remote.download_button.isEnabled)
    bot.keyClick(page.searching.view, Qt.Key.Key_Return)
    assert page.searching.remote.download_button.hasFocus()
    bot.keyClick(page.searching.remote.download_button, Qt.Key.Key_Space)
    visitor.until(lambda: any(each[0] == "add" for each in visitor.script.done))


def test_every_control_has_a_name(keeper: Visitor) -> None:
    keeper.tell(*story.UNDER_WAY)
    for tab in ModelsTab:
        keeper.go_to(tab)
        for widget in keeper.page.findChildren(QWidget):
            takes_keys = widget.focusPolicy() & Qt.FocusPolicy.TabFocus
            if not (widget.isVisible() and takes_keys) or widget.objectName().startswith("qt_"):
                continue
            text = widget.text() if isinstance(widget, QAbstractButton) else ""
            assert widget.accessibleName() or text, widget


def test_a_narrow_window_has_the_detail_below_the_list(visitor: Visitor) -> None:
    page, window = visitor.page, visitor.desk.assembly.window
    assert page._splitter.orientation() is Qt.Orientation.Horizontal
    window.resize(700, 800)
    visitor.until(lambda: page._splitter.orientation() is Qt.Orientation.Vertical)
    window.resize(900, 600)  # where both together would show next to nothing
    visitor.until(lambda: page._splitter.orientation() is Qt.Orientation.Horizontal)
    window.resize(700, 800)
    visitor.until(lambda: page._splitter.orientation() is Qt.Orientation.Vertical)
    window.resize(1280, 800)
    visitor.until(lambda: page._splitter.orientation() is Qt.Orientation.Horizontal)


def test_an_empty_chat_leads_to_the_page(desk: Desk) -> None:
    desk.ready()
    desk.bot.waitUntil(desk.chat.greeting.more_button.isVisible)
    desk.bot.mouseClick(desk.chat.greeting.more_button, Qt.MouseButton.LeftButton)
    assert desk.assembly.window.pages.shown is PageName.MODELS


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.DONE])
def test_downloads_of_the_last_run_go_on(
    open_desk: Callable[[Script | None], Desk], tmp_path: Path, state: JobState
) -> None:
    script = Script()
    script.hub.reports = (JobReport(TARGET, state, model="/models/a.gguf"),)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "downloads.json").write_text("{}")
    desk = open_desk(script)
    hub = desk.assembly.model_manager.services.hub
    desk.bot.waitUntil(lambda: hub.reports == script.hub.reports)
    assert (("go on",) in script.hub.done) is (state is JobState.PAUSED)
    assert script.hub.asked == []
