"""Defects of the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def numbers_of_the_last_go_alone() -> None:
    """An answer that went on tells of its end as if that were all of it."""
    from app.session import answer_writer

    answer_writer._stats = lambda base, added: added if added.committed else base.stats


def notices_that_outlive_their_files() -> None:
    """What is said of a file stays above every other chat."""
    from app.chat.composer import outgoing

    outgoing.withdraw = lambda _notice: None


def messages_sent_before_they_are_counted() -> None:
    """Enter right after a long file: the message goes, and its answer fails."""
    from app.chat.composer.outgoing import Outgoing

    Outgoing._has_to_be_counted = lambda _self, _fill: False  # type: ignore[method-assign]


def messages_sent_to_a_model_that_is_not_there_yet() -> None:
    """A long file goes while the model loads, and its answer fails later."""
    from app.chat.composer.outgoing import Outgoing

    Outgoing._is_to_wait = lambda _self: False  # type: ignore[method-assign]


def waiting_messages_sent_before_they_are_counted() -> None:
    """A message whose count is not there when its turn comes goes all the same."""
    from app.chat.composer.message_queue import MessageQueue

    honest = MessageQueue._has_room

    def has_room(self: Any, draft: Any) -> bool:
        return draft not in self._tokens or honest(self, draft)

    MessageQueue._has_room = has_room  # type: ignore[method-assign]


def room_shared_alike_among_files() -> None:
    """Each file gives as many passages as the next, whatever is asked."""
    from app.session import passages

    honest = passages.extract_all

    def alike(texts: Sequence[str], question: str, most: int) -> list[passages.Passages]:
        share = most // max(len(texts), 1)
        return [honest([text], question, share)[0] for text in texts]

    passages.extract_all = alike


def everything_at_once_at_a_start() -> None:
    """What can wait begins while the engine is imported."""
    from app.application import Assembly

    honest = Assembly.start

    def start(self: Any, *args: Any, **options: Any) -> None:
        honest(self, *args, **options)
        self._engine_there()

    Assembly.start = start  # type: ignore[method-assign]
