"""Planted bugs of plans; see `bugs`."""

from __future__ import annotations

from typing import Any

import numpy as np


def drafts_take_no_memory() -> None:
    """A plan that forgets what the draft holds beside the target."""
    from engine.plan import search

    honest = search.together
    search.together = lambda first, _second: honest(first, None)


def drafts_leave_their_embedding_behind() -> None:
    """A draft looks its tokens up where it drafts, also where its matrices are not tied."""
    from engine.plan import search

    def holding(*arguments: Any) -> Any:
        held = arguments[0]
        whole = honest(*arguments)
        behind = 0 if held.tied else held.embedding.nbytes
        return type(whole)(whole.weights - behind, whole.kv, whole.workspace, whole.shared)

    honest = search.draft_on_accelerator
    search.draft_on_accelerator = holding


def borrowed_matrices_counted_twice() -> None:
    """What a head has of its target on one device is there once."""
    from engine.plan import search

    search.lent_to_head = lambda _target, _head, cuts, **_where: np.zeros(cuts, dtype=np.int64)


def features_take_no_memory() -> None:
    """A plan that forgets what is kept of the target's hidden states."""
    from engine.plan.footprint import Footprint

    Footprint.feature_bytes = lambda _self, _context: 0  # type: ignore[method-assign]


def disturbed_answers_move_the_model() -> None:
    """The watch takes other programs' doing for the placement's."""
    from engine.events import AnswerStats

    AnswerStats.disturbed = property(lambda _self: False)  # type: ignore[assignment, method-assign]


def draws_on_every_core() -> None:
    """Draws take a thread of each core, however few compute: they fight the draft for its own."""
    from engine.loading.load import LoadedPair

    LoadedPair.threads = property(lambda _self: None)  # type: ignore[assignment, method-assign]


def states_left_out_of_an_offered_context() -> None:
    """What is offered where a context does not fit counts weights and keys alone."""
    from engine.plan import refusals

    def longest(search: Any, _ceiling: int) -> int:
        held = search.target.footprint
        room: int = search.host_budget - held.weight_bytes
        return min(room // held.kv_bytes_per_token, search.context)

    refusals._longest_context = longest
