"""The loops. To the rest of the system each is a generator of rounds."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from engine.backend.round import Round
from engine.backend.tree import TokenTree
from engine.events import Interval
from engine.speculative.controller import Controller
from engine.speculative.decoding import Decoding
from engine.speculative.drafters.drafter import DraftContext, Drafter


def autoregressive(decoding: Decoding) -> Iterator[Round]:
    """The target alone, one token a round."""
    while decoding.remaining and not decoding.cancelled():
        yield decoding.verify(TokenTree.root(decoding.tokens[-1]))


def serial(decoding: Decoding, drafter: Drafter, controller: Controller) -> Iterator[Round]:
    """Draft, then verify (Dovetail and CPU-only).

    The first round is the target's alone, so that its first token never waits for the draft.
    """
    controller.begin()
    if decoding.remaining and not decoding.cancelled():
        done = decoding.verify(TokenTree.root(decoding.tokens[-1]))
        controller.observe(done, 0.0)
        yield done
    context = DraftContext(
        decoding.tokens, decoding.sampler, decoding.cancelled, decoding.state.features
    )
    begun = False
    price = drafter.begin_seconds(context)  # of the prompt, which is nearly all there is to pay
    while decoding.remaining and not decoding.cancelled():
        draft, proposing, budget = None, 0.0, None
        if begun or controller.worth_beginning(price):
            budget = controller.next_budget(decoding.remaining - 1)
        if budget is None:
            tree = TokenTree.root(decoding.tokens[-1])
        else:
            start = perf_counter()
            if not begun:
                drafter.begin(context)
                begun = True
            begin = perf_counter()
            tree = controller.prune(drafter.propose(context, budget))
            draft = Interval(start, perf_counter())
            proposing = draft.end - begin
            if decoding.cancelled():
                return
        done = decoding.verify(tree, draft)
        if begun:
            drafter.observe(done.tokens)
        controller.observe(done, proposing)
        yield done
