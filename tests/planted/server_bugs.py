"""Defects of the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def hosts_known_by_their_beginning() -> None:
    """A page's own name passes, where it begins like one of this computer's."""
    from engine.server import access
    from engine.server.settings import LOOPBACK_NAMES

    honest = access._host_of

    def host_of(header: str) -> str:
        name = honest(header)
        return next((each for each in LOOPBACK_NAMES if name.startswith(each)), name)

    access._host_of = host_of


def answers_begun_anew_after_making_room() -> None:
    """What was written before the window's user came is forgotten, and written again."""
    from engine.server.generation import Generation

    honest = Generation._go_on

    def go_on(self: Any, event: Any) -> None:
        honest(self, replace(event, token_ids=()))

    Generation._go_on = go_on  # type: ignore[method-assign]


def turns_kept_until_all_is_read() -> None:
    """A client that reads slowly holds all others up."""
    from engine.server.generation import Generation

    honest = Generation._arrive

    def arrive(self: Any, event: Any) -> None:
        self._on_end = lambda: None
        honest(self, event)

    Generation._arrive = arrive  # type: ignore[method-assign]


def answers_of_others_stopped_from_the_window() -> None:
    """A stop of everything ends the answers of other programs, too."""
    from engine.commands import Generate, Stop

    def means(self: Any, work: object) -> bool:
        named = isinstance(work, Generate) and work.request.id == self.request_id
        return self.request_id is None or named

    Stop.means = means  # type: ignore[method-assign]


def prompts_of_others_in_ones_own_cache() -> None:
    """Whoever asks finds what any other has asked."""
    from engine.backend.prefix_cache import PrefixCache

    honest = PrefixCache.take

    def take(self: Any, tokens: Any, _asker: str = "") -> Any:
        return honest(self, tokens)

    PrefixCache.take = take  # type: ignore[method-assign]


def biases_that_the_draws_leave_out() -> None:
    """What is added to logits reaches the definition and not the native library."""
    from engine.backend.native.sampling import NativeDraws

    honest = NativeDraws.__init__

    def init(self: Any, *arguments: Any, **more: Any) -> None:
        honest(self, *arguments, **{**more, "bias": ()})

    NativeDraws.__init__ = init  # type: ignore[method-assign]


def connections_without_a_request_stay() -> None:
    """Whoever connects often enough keeps everybody out."""
    from engine.server.connection import ClientConnection

    ClientConnection._make_place = lambda _: None  # type: ignore[method-assign]
