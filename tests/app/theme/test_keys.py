"""Keys in texts."""

from __future__ import annotations

from app.theme.keys import key_words, with_keys


def test_a_text_names_the_keys_as_qt_does() -> None:
    assert key_words("Ctrl+Shift+L") == "Ctrl+Shift+L"
    assert with_keys("Search", "Ctrl+K") == "Search (Ctrl+K)"
    assert with_keys("Stop", "Escape") == "Stop (Esc)"
