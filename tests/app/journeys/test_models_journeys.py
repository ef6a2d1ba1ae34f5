"""From a search to an answer: real worker processes, a hub on loopback, the real engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from local_hub import LocalHub
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from traveller import Traveller

from app.models.models_page import ModelsPage
from app.models.search_bar import ModelsTab
from app.shell.banner import Banner
from app.shell.page_names import PageName
from engine.hub.download.jobs import JobState

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
from gguf_models import Kind, write_gguf

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

TARGET, DRAFT = "Qwen/Qwen3-1.7B-GGUF", "Qwen/Qwen3-0.6B-GGUF"
"""A pair that the shipped list knows; what the hub of the test has under these names is ours."""

FACTS = {
    "tags": ["gguf", "license:apache-2.0", "conversational"],
    "pipeline_tag": "text-generation",
    "gguf": {"total": 6_000_000, "architecture": "qwen3", "context_length": 2048},
    "downloads": 1000,
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub with a model and its draft, and a cache of its own."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with LocalHub() as made:
        for name, folder in ((TARGET, FOLDER_TARGET), (DRAFT, FOLDER_DRAFT)):
            file = write_gguf(folder, tmp_path / "model.gguf", Kind.Q8_0)
            stem = name.rpartition("/")[2].removesuffix("-GGUF")
            made.publish(name, {f"{stem}-Q8_0.gguf": file.read_bytes()}, facts=FACTS)
        yield made


def opened(traveller: Traveller) -> ModelsPage:
    traveller.keys("Ctrl+5")
    page = traveller.window.pages.page(PageName.MODELS)
    assert isinstance(page, ModelsPage)
    traveller.until(page.isVisible)
    return page


def offer(traveller: Traveller, words: str) -> QPushButton:
    """The button of the message that says this."""
    found: list[QPushButton] = []

    def there() -> bool:
        banners = traveller.window.findChildren(Banner)
        said = [each for each in banners if words in each.text and each.isVisible()]
        found[:] = [
            each
            for banner in said
            for each in banner.findChildren(QPushButton)
            if each.text() == "Use now"
        ]
        return bool(found)

    traveller.until(there)
    return found[0]


@pytest.mark.release(reason="a hub, downloads and a real engine")
def test_search_fetch_use_and_ask(traveller: Traveller, hub: LocalHub) -> None:
    """Search, one button for model and draft, "Use now", an answer that the draft has guessed."""
    traveller.assembly.settings.change(hub_endpoint=hub.url)
    traveller.start()
    page = opened(traveller)
    assert hub.asked == []  # nothing was sent
    page.show_tab(ModelsTab.SEARCH)
    page.search.field.setText("qwen3-1.7b")
    traveller.bot.keyClick(page.search.field, Qt.Key.Key_Return)
    traveller.until(lambda: len(page.searching.view.rows.entries) == 1)
    page.searching.view.choose(TARGET)
    detail = page.searching.remote
    traveller.until(lambda: detail.drafts.chosen is not None)
    chosen = detail.drafts.chosen
    assert chosen is not None
    assert chosen.repo == DRAFT
    traveller.until(lambda: "Download with draft (" in detail.download_button.text())
    traveller.bot.mouseClick(detail.download_button, Qt.MouseButton.LeftButton)
    use = offer(traveller, "and its draft were downloaded.")
    reports = traveller.assembly.model_manager.services.hub.reports
    assert [each.state for each in reports] == [JobState.DONE] * 2
    use.click()
    model, draft = (Path(str(each.model)) for each in reports)
    bridge = traveller.assembly.bridge
    traveller.until(lambda: (status := bridge.status.wanted) is not None and status.model == model)
    traveller.until(lambda: bridge.status.phase.name == "READY")
    assert bridge.status.wanted is not None
    assert bridge.status.wanted.draft == draft
    traveller.window.pages.show_chat()
    assert traveller.ask("Hello").text.raw_text
    shelf = traveller.assembly.model_manager.services.shelf
    shelf.look()
    traveller.until(lambda: any(each.path == model for each in shelf.kept))
    kept = next(each for each in shelf.kept if each.path == model)
    assert (kept.repo, kept.origin.value) == (TARGET, "downloaded")
