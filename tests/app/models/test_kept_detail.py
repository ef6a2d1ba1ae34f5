"""What is told of one model that is kept, and which draft is offered first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.models.detail.installed_detail import InstalledDetail
from engine.hub.advice import DraftCandidate, Verdict
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin

ROOT = Path("models")
DRAFT = ROOT / "small" / "small.gguf"


@pytest.fixture
def detail(qtbot: QtBot) -> InstalledDetail:
    made = InstalledDetail()
    qtbot.addWidget(made)
    return made


def shown(detail: InstalledDetail, *, gguf: bool) -> KeptModel:
    model = KeptModel(ROOT / "large", "Large", ModelOrigin.BUNDLED, 1, draft=DRAFT, gguf=gguf)
    detail.show_model(model, in_use=False, offered=False)
    return model


@pytest.mark.parametrize(("gguf", "word"), [(True, "GGUF"), (False, "safetensors")])
def test_the_format_is_that_of_the_files(detail: InstalledDetail, gguf: bool, word: str) -> None:
    """A folder may hold either."""
    shown(detail, gguf=gguf)
    assert dict(detail.facts.shown)["Format"] == word


def test_notes_on_the_files_are_shown_where_there_are_any(detail: InstalledDetail) -> None:
    model = shown(detail, gguf=True)
    words = [each for each in detail.findChildren(QLabel) if "Notes" in each.text()]
    assert [each.isHidden() for each in words] == [True]
    note = "The usual ones are used: gemma3.attention.layer_norm_rms_epsilon = 1e-06."
    noted = replace(model, notes=(note, "There is no chat template."))
    detail.show_model(noted, in_use=False, offered=False)
    assert detail.notes.text().replace("\u200b", "") == f"{note}\nThere is no chat template."
    assert "layer_\u200bnorm_\u200b" in detail.notes.text()
    assert [each.isHidden() for each in (*words, detail.notes)] == [False, False]


def test_a_draft_says_that_it_drafts_for_a_model(detail: InstalledDetail) -> None:
    head = replace(shown(detail, gguf=True), head=True)
    detail.show_model(head, in_use=False, offered=False, answers=False)
    assert "Load the model first" in " ".join(
        each.text() for each in detail.findChildren(QLabel) if not each.isHidden()
    )


@pytest.mark.parametrize("listed", [DRAFT, DRAFT.parent])
def test_its_own_draft_is_chosen_however_it_is_listed(
    detail: InstalledDetail, listed: Path
) -> None:
    """By the file, or by the folder that holds it alone."""
    shown(detail, gguf=True)
    detail.show_drafts(
        [
            DraftCandidate("Faster", Verdict.FITS, "It fits.", path=ROOT / "faster"),
            DraftCandidate("Small", Verdict.FITS, "It fits.", path=listed),
        ]
    )
    assert detail.drafts.chosen is not None
    assert detail.drafts.chosen.name == "Small"
