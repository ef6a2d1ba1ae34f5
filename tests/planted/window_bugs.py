"""Defects of the window."""

from __future__ import annotations

from typing import Any


def numbers_of_the_last_go_alone() -> None:
    """An answer that went on tells of its end as if that were all of it."""
    from app.session import answer_writer

    answer_writer._stats = lambda base, added: added if added.committed else base.stats


def notices_that_outlive_their_files() -> None:
    """What is said of a file stays above every other chat."""
    from app.chat.composer import outgoing

    outgoing.withdraw = lambda _notice: None


def everything_at_once_at_a_start() -> None:
    """What can wait begins while the engine is imported."""
    from app.application import Assembly

    honest = Assembly.start

    def start(self: Any, *args: Any, **options: Any) -> None:
        honest(self, *args, **options)
        self._engine_there()

    Assembly.start = start  # type: ignore[method-assign]
