"""What a refusal has to be."""

from __future__ import annotations

from engine.errors import UserFixable


def in_words(refused: UserFixable) -> None:
    """Fail where a refusal has no sentences."""
    assert refused.cause.endswith((".", "?")), refused.cause
    assert refused.remedy.endswith("."), refused.remedy
