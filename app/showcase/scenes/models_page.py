"""The Models page: what suits, what is here, what the hub has, what is being downloaded."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent
from PySide6.QtWidgets import QApplication

from app.models.models_page import ModelsPage
from app.models.search_bar import ModelsTab
from app.models.token_dialog import TokenDialog
from app.shell.page_names import PageName
from app.showcase import hub_story as story
from app.showcase.hub import HubScript
from app.showcase.scenes.shoot import Shoot, narrow, new_chat
from app.showcase.stage import Stage, catch_up, wait_for
from engine.hub.messages import Access, FoundRepository, Refused, Search
from engine.hub.remote.faults import Fault

_OFFLINE = Refused(
    Search(Access(), ""),
    Fault.OFFLINE,
    "The hub cannot be reached: there is no network, or no way to huggingface.co.",
    "Look at your connection, then try again. All models on this computer work without it.",
)


def models_page(stage: Stage, shoot: Shoot) -> None:
    """Show the page from the first look to models that are here."""
    script = stage.hub_script
    _tell_story(script)
    new_chat(stage)
    stage.ready()
    stage.window.pages.open(PageName.MODELS)
    page = stage.window.pages.page(PageName.MODELS)
    if not isinstance(page, ModelsPage):
        raise TypeError(page)
    page.show_tab(ModelsTab.RECOMMENDED)
    wait_for(lambda: page.recommended.view.current is not None)
    catch_up()
    shoot("models-recommended")
    narrow(stage, shoot, "models-recommended-narrow")
    _finding(page, script, shoot)
    narrow(stage, shoot, "models-drafts-narrow")
    _troubles(page, script, shoot)
    _downloading(stage, page, shoot)
    _on_disk(stage, page, script, shoot)
    stage.window.banners.clear()
    stage.window.pages.show_chat()
    catch_up()


def _tell_story(script: HubScript) -> None:
    script.found, script.repositories = story.RESULTS, dict(story.REPOSITORIES)
    script.suggestions, script.fits = story.SUGGESTIONS, story.fits
    script.kept, script.elsewhere = story.KEPT, story.ELSEWHERE
    script.candidates = story.CANDIDATES


def _finding(page: ModelsPage, script: HubScript, shoot: Shoot) -> None:
    page.show_tab(ModelsTab.SEARCH)
    catch_up()
    shoot("models-search")
    script.silent = True
    page.look_for("qwen3")
    wait_for(lambda: bool(script.asked))
    catch_up()
    shoot("models-searching")
    script.silent = False
    page.look_for("qwen3")
    wait_for(lambda: bool(page.searching.view.rows.entries))
    catch_up()
    shoot("models-results")
    _choose(page, story.QWEN3_8B)
    detail = page.searching.remote
    wait_for(lambda: len(detail.drafts.buttons) > 1 and "(" in detail.download_button.text())
    wait_for(lambda: bool(detail.fit_words.text()))
    catch_up()
    shoot("models-drafts")


def _troubles(page: ModelsPage, script: HubScript, shoot: Shoot) -> None:
    detail = page.searching.remote
    _choose(page, story.LLAMA)
    wait_for(lambda: detail.repository is story.GATED_REPOSITORY)
    wait_for(lambda: bool(detail.fit_words.text()))
    catch_up()
    shoot("models-gated")
    detail.licence.token_button.click()
    catch_up()
    for dialog in QApplication.topLevelWidgets():
        if isinstance(dialog, TokenDialog):
            shoot("models-token", dialog)
            dialog.close()
    script.found = ()
    page.look_for("no such model")
    wait_for(lambda: not page.searching.view.rows.entries)
    catch_up()
    shoot("models-nothing-found")
    script.refusal = _OFFLINE
    page.look_for("qwen3")
    wait_for(lambda: bool(page.searching.action.text()))
    catch_up()
    shoot("models-offline")
    script.refusal, script.found = None, story.RESULTS


def _downloading(stage: Stage, page: ModelsPage, shoot: Shoot) -> None:
    page.show_tab(ModelsTab.RECOMMENDED)
    stage.scripted_hub.tell(*story.UNDER_WAY)
    wait_for(lambda: len(page.downloads.rows) == len(story.UNDER_WAY))
    catch_up()
    shoot("models-downloading")
    narrow(stage, shoot, "models-downloading-narrow")
    stage.scripted_hub.tell(*story.FAILED)
    wait_for(lambda: len(page.downloads.rows) == len(story.FAILED))
    catch_up()
    shoot("models-failed")
    done = replace(story.UNDER_WAY[3], job=story.UNDER_WAY[0].job)
    stage.scripted_hub.tell(done)
    wait_for(lambda: bool(stage.window.banners.texts))
    catch_up()
    shoot("models-fetched")
    stage.window.banners.clear()
    stage.scripted_hub.tell()
    wait_for(lambda: not page.downloads.rows)


def _on_disk(stage: Stage, page: ModelsPage, script: HubScript, shoot: Shoot) -> None:
    script.candidates = story.KEPT_CANDIDATES
    page.show_tab(ModelsTab.INSTALLED)
    listed = len(story.KEPT) + len(story.ELSEWHERE) + 2
    wait_for(lambda: len(page.installed.view.rows.entries) == listed)
    page.installed.view.choose(story.KEPT[1].path)
    wait_for(lambda: len(page.installed.kept.drafts.buttons) > 1)
    catch_up()
    shoot("models-installed")
    narrow(stage, shoot, "models-installed-narrow")
    page.installed.view.choose(story.KEPT[0].path)
    catch_up()
    shoot("models-in-use")
    page.installed.view.choose(story.KEPT[3].path)
    catch_up()
    shoot("models-damaged")
    page.installed.view.choose(story.KEPT[4].path)
    catch_up()
    shoot("models-draft")
    page.installed.view.choose(story.ELSEWHERE[1].path)
    page.offer(story.KEPT[3].path)
    catch_up()
    shoot("models-found-on-disk")
    stage.window.banners.clear()
    _dragging(stage, shoot)
    script.kept = script.elsewhere = ()
    page.show_tab(ModelsTab.INSTALLED)
    wait_for(lambda: not page.installed.view.rows.entries)
    catch_up()
    shoot("models-empty")


def _dragging(stage: Stage, shoot: Shoot) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(story.KEPT[3].path))])
    where, mouse, keys = QPoint(9, 9), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    over = QDragEnterEvent(where, Qt.DropAction.CopyAction, data, mouse, keys)
    QApplication.sendEvent(stage.window.windowHandle(), over)
    catch_up()
    shoot("models-dragging")
    QApplication.sendEvent(stage.window.windowHandle(), QDragLeaveEvent())
    catch_up()


def _choose(page: ModelsPage, found: FoundRepository) -> None:
    page.searching.view.choose(found.repo)
    catch_up()
