"""A stand-alone draft model: a small decoder with the target's vocabulary, drafting a tree.

The tree grows level by level (as EAGLE-2 does): the most promising nodes of a level go through the
draft in one forward and offer their likeliest children. Cost: one draft forward per level.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.sequence import ROOT
from engine.backend.tree import follow
from engine.speculative.drafters.decoder_drafter import DecoderDrafter


class StandaloneDrafter(DecoderDrafter):
    """Drafts with a decoder of its own; its state holds committed tokens only."""

    def observe(self, committed: Sequence[int]) -> None:
        """Keep the keys of drafted nodes that were accepted, forget the rest."""
        state = self._state
        if state is not None:
            path = follow(state.staged, state.parents, committed, ROOT)
            state.commit(path[: state.context - len(state)])
