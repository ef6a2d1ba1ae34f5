"""Plans in the words of the window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.engine_link.plan_texts import draft_words
from engine import language


@pytest.fixture
def _in_german() -> Iterator[None]:
    language.use("de")
    yield
    language.use("en")


def test_a_draft_has_its_own_name() -> None:
    assert draft_words("SmolLM2 135M + lookup") == "SmolLM2 135M + lookup"
    assert draft_words(None) == ""


@pytest.mark.usefixtures("_in_german")
def test_lookup_is_called_as_the_language_has_it() -> None:
    assert draft_words("SmolLM2 135M + lookup") == "SmolLM2 135M + Nachschlagen"
