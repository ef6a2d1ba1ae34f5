from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.composer.outgoing._PAUSE_MS", 20)
    monkeypatch.setattr("app.session.message_drafts._SAVE_AFTER_MS", 20)
