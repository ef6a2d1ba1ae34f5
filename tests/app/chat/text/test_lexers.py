"""Lexers that cannot be made: code without colours, and nobody asks for ever."""

from __future__ import annotations

import pytest

from app.chat.text.highlight import _Lexers


@pytest.mark.parametrize("error", [ValueError, ImportError, RecursionError])
def test_a_lexer_that_cannot_be_made_is_asked_for_once(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **_more: object) -> None:
        raise error("damaged")

    monkeypatch.setattr("pygments.lexers.get_lexer_by_name", broken)
    lexers = _Lexers()
    assert lexers.want("python", wait=True)
    assert lexers.get("python") is None
