"""The loops: how an answer is decoded. To the rest of the system each is a generator of rounds.

`serial` drafts, then verifies (Dovetail, arXiv 2412.18934, and CPU-only). `parallel` drafts while
the target verifies (DuoDecoding, arXiv 2503.00784). In both the first round is the target's alone,
so that its first token never waits for the draft. A loaded pair holds one `Loop`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

from engine.backend.round import Round
from engine.backend.tree import TokenTree
from engine.events import Interval
from engine.speculative.budgets import MOST_NODES
from engine.speculative.controller import Controller
from engine.speculative.decoding import Decoding
from engine.speculative.draft_worker import DraftWorker, ParallelDraft
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.forced import ForcedDrafter

PATIENCE_S = 0.05
"""A target that waits for the draft looks up this often: the user may have stopped it."""
SHORTEST_WAIT_S = 0.001


class Loop(Protocol):
    """Decodes answers, one after the other."""

    @property
    def controller(self) -> Controller | None:
        """The controller with its beliefs; None where nothing drafts."""
        ...

    def rounds(self, decoding: Decoding) -> AbstractContextManager[Iterator[Round]]:
        """Yield the rounds of one answer; its draft worker ends with the block."""
        ...


class Plain:
    """The target alone."""

    controller = None

    @contextmanager
    def rounds(self, decoding: Decoding) -> Iterator[Iterator[Round]]:
        """See `Loop`."""
        yield plain(decoding)


@dataclass(frozen=True, slots=True)
class Serial:
    """Draft, then verify."""

    drafter: Drafter
    controller: Controller

    @contextmanager
    def rounds(self, decoding: Decoding) -> Iterator[Iterator[Round]]:
        """See `Loop`."""
        self.controller.begin()
        yield serial(decoding, self.drafter, self.controller)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Draft while the target verifies.

    Attributes:
        reads_beside: whether the draft may read the prompt while the target does.
    """

    draft: ParallelDraft
    controller: Controller
    reads_beside: bool = False

    @contextmanager
    def rounds(self, decoding: Decoding) -> Iterator[Iterator[Round]]:
        """See `Loop`. The worker drafts from here on, behind what it reads of the prompt."""
        context = DraftContext(
            decoding.tokens, decoding.sampler, decoding.cancelled, decoding.state.features
        )
        beside = self.reads_beside and self.draft.reads_alone
        begins = beside and not decoding.cancelled()
        self.controller.begin()
        pace = self.controller.pace(ready=False) if begins else None
        costs = self.controller.costs
        with self.draft.worker(context, pace, reads=0, costs=costs) as worker:
            if begins:
                _read(worker, self.controller, decoding.remaining)
            yield parallel(decoding, worker, self.controller)


def plain(decoding: Decoding) -> Iterator[Round]:
    """The target alone, one token a round."""
    while decoding.remaining and not decoding.cancelled():
        yield decoding.verify(TokenTree.root(decoding.tokens[-1]))


def serial(decoding: Decoding, drafter: Drafter, controller: Controller) -> Iterator[Round]:
    """Draft, then verify; the controller has begun with the answer."""
    if decoding.remaining and not decoding.cancelled():
        done = decoding.verify(TokenTree.root(decoding.tokens[-1]))
        controller.observe(done, 0.0)
        yield done
    context = DraftContext(
        decoding.tokens, decoding.sampler, decoding.cancelled, decoding.state.features
    )
    if decoding.sampler.constraint is not None:
        drafter = CombinedDrafter([ForcedDrafter(), drafter])
    drafter.begin(context)
    while decoding.remaining and not decoding.cancelled():
        draft = None
        if count := controller.to_read(drafter.missing(context), decoding.remaining):
            start = perf_counter()
            drafter.read(context, count)
            controller.has_read([(count, perf_counter() - start)])
        tree = controller.alone(drafter.at_once(context, decoding.remaining - 1))
        budget = None if tree.drafted else controller.next_budget(decoding.remaining - 1)
        if budget is not None:
            start = perf_counter()
            tree = controller.prune(drafter.propose(context, budget))
            draft = Interval(start, perf_counter())
        if decoding.cancelled():
            return
        done = decoding.verify(tree, draft)
        drafter.observe(done.tokens)
        controller.observe(done, draft.seconds if draft else 0.0)
        yield done


def parallel(decoding: Decoding, worker: DraftWorker, controller: Controller) -> Iterator[Round]:
    """Draft and verify at the same time.

    The target verifies the best part of what is drafted behind the committed tokens, and tells the
    worker what it has committed. It waits for a step of the draft where that is worth more than the
    time, and otherwise goes on with what is there (the paper's P rounds). The draft begins behind
    the first round at the latest; before, where reading the prompt beside the target costs the
    first token no time. Where the user has stopped the answer nothing is verified any more. A
    worker that reads more of the prompt goes on drafting afterwards; the target does not wait.
    The controller has begun with the answer.
    """
    first = True
    while decoding.remaining and not decoding.cancelled():
        start, ready = perf_counter(), worker.ready
        tree = TokenTree.root(decoding.tokens[-1])
        if not first:
            worker.set_pace(pace := controller.pace(ready=ready))
            if pace is not None and decoding.remaining > 1:
                _wait(decoding, worker, controller)
                if decoding.cancelled():
                    return
                tree = controller.prune(worker.tree(MOST_NODES).limited(decoding.remaining - 1))
        with worker.verifying():
            done = decoding.verify(tree)
        lately = worker.commit(done.tokens)
        controller.observe(done, perf_counter() - start, ready=ready)
        _read(worker, controller, decoding.remaining)
        if first:
            worker.set_pace(controller.pace(ready=False))
        first = False
        yield replace(done, drafting=lately.drafting, useful=lately.useful, wasted=lately.wasted)


def _read(worker: DraftWorker, controller: Controller, remaining: int) -> None:
    """Learn how fast the draft reads, and let it read more where that pays."""
    controller.has_read(worker.reading_times())
    if count := controller.to_read(worker.missing, remaining):
        worker.read(count)


def _wait(decoding: Decoding, worker: DraftWorker, controller: Controller) -> None:
    """Keep the target idle as long as the draft's coming step is worth more than the wait."""
    while not decoding.cancelled():
        outlook = worker.outlook()
        if outlook.left is None or not controller.worth_waiting(outlook):
            return
        worker.wait(min(max(outlook.left, SHORTEST_WAIT_S), PATIENCE_S))
