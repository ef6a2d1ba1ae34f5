"""The draft worker of the parallel loop: a thread that drafts while the target verifies.

It always computes the likeliest nodes of the `DraftTree`; the engine thread takes what there is,
has it verified and commits (DuoDecoding, arXiv 2503.00784). The two share the tree under one lock,
which is held for microseconds: nobody waits for a forward unless by `wait`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from threading import Condition, Lock, Thread
from time import perf_counter

from engine.backend.decoder import Decoder
from engine.backend.native.pool import CancelFlag
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.events import Interval
from engine.model.config import ModelConfig
from engine.plan.plan import USUAL
from engine.speculative.beginnings import CATCH_UP_CHUNK, Beginnings
from engine.speculative.costs import DraftCosts
from engine.speculative.draft_cache import DraftCache, Settlement
from engine.speculative.draft_tree import DraftPace, DraftStep, DraftTree, Node
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.forced import ForcedDrafter
from engine.speculative.head_cache import HeadCache

_PATIENCE_S = 10.0
"""Longest wait for the thread at the end of an answer: at most a block is being computed."""

_LOOK_UP_S = 1.0
"""A resting thread wakes up this often, in case a notification was missed."""

AT_ONCE = DraftPace()
"""Pace to begin with the prompt beside the target."""

ALL = 1 << 40
"""More tokens than there are to read."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The prospects of waiting for the draft.

    Attributes:
        promise: the chance that the candidates of the running or the next step matter.
        left: seconds until they are there; None: nothing will come.
    """

    promise: float
    left: float | None


@dataclass(frozen=True, slots=True)
class DraftActivity:
    """Work of the draft since the last commit.

    Attributes:
        drafting: when it drafted, in order; a span that goes on is cut at the commit. Catching up
            with the prompt is no drafting.
        useful: seconds of drafting of which something has now been committed.
        wasted: seconds of drafting of which nothing will be any more.
        hit: whether all that was committed had been drafted.
    """

    drafting: tuple[Interval, ...] = ()
    useful: float = 0.0
    wasted: float = 0.0
    hit: bool = False


class DraftWorker:
    """Drafts for one answer on its own thread; the public methods are for the engine thread.

    An error of the thread is raised by the next call, whichever that is.
    """

    def __init__(
        self,
        model: DraftCache,
        others: Sequence[Drafter],
        costs: DraftCosts,
        context: DraftContext,
        pace: DraftPace | None = AT_ONCE,
        reads: int = ALL,
    ) -> None:
        self._model = model
        self._head = model if isinstance(model, HeadCache) else None
        self._costs = costs  # the engine thread's
        self._others = others
        self._sampler = context.sampler
        self._tokens = list(context.tokens)
        self._length = len(self._tokens)
        self._context = replace(context, tokens=self._tokens)
        self._most = DraftPace().ahead  # nodes that the target verified at once, last
        self._observed = 0  # tokens that the others have seen; 0: they have not begun

        # Shared; under the lock.
        self._changed = Condition(Lock())
        self._speculation = DraftTree(self._tokens[-1], of_head=self._head is not None)
        self._pace = pace
        self._busy = self._closing = self._ready = False
        self._cramped = self._settled = self._full = False  # no room for a step
        self._renewing = False  # a head has to forget what it computed from its own outputs
        self._over = False  # the draft's context has ended
        self._committed = len(self._tokens)
        self._wish: int | None = None  # place of the first token that is to be read
        if reads:
            self._wish = max(self._committed - reads, 0)
        self._missing: Sequence[int] = ()  # tokens that are being read
        self._began = 0.0  # when the running step did; 0: none runs
        self._given_up = 0.0  # when the running step became hopeless; 0: it is not
        self._span = 0.0  # since when step has followed step; 0: at rest
        self._spans: list[Interval] = []
        self._times: list[tuple[int, float]] = []
        self._read_times: list[tuple[int, float]] = []
        self._error: BaseException | None = None
        self._told = False
        self._version = self._seen = 0

        self._cancel = CancelFlag()
        self._thread = Thread(target=self._run, name="draft worker", daemon=True)

    # -- the engine thread's -------------------------------------------------------------------

    def set_pace(self, pace: DraftPace | None) -> None:
        """Set how to go on; None: rest, since the target is faster alone."""
        with self._changed:
            self._check()
            if pace != self._pace:
                self._pace = pace
                if pace is None:
                    self._cancel.set()
                self._changed.notify_all()

    @property
    def ready(self) -> bool:
        """True where the draft has caught up with the committed tokens."""
        with self._changed:
            self._check()
            return self._ready and not self._over

    @property
    def missing(self) -> int:
        """Tokens to read before it drafts as well as it can; 0 while it reads any."""
        with self._changed:
            self._check()
            busy = self._wish is not None or self._missing
            return 0 if busy else self._model.beginnings.missing(self._committed)

    def read(self, most: int) -> None:
        """Have what is missing read, or where that is more than `most` tokens, the last ones only.

        What is drafted stays on offer meanwhile.
        """
        with self._changed:
            self._check()
            self._wish, self._ready = max(self._committed - most, 0), False
            self._cancel.set()
            self._changed.notify_all()

    def outlook(self) -> Outlook:
        """Return what there is to wait for."""
        with self._changed:
            self._check()
            self._seen = self._version
            pace, speculation = self._pace, self._speculation
            if pace is None or self._full or self._over or not self._ready:
                return Outlook(0.0, None)
            coming, step = speculation.coming(pace), speculation.step
            if not coming:
                return Outlook(0.0, None)
            begun = step is not None and coming is step.nodes
            now = perf_counter()
            self._learn_costs()
            left = self._costs.left(len(coming), now - self._began if begun else 0.0)
            if left is not None and self._given_up:
                left += now - self._given_up  # one that does not end holds nobody up for ever
            return Outlook(speculation.promise(pace), left)

    def wait(self, seconds: float) -> None:
        """Wait until a step ends or anything else changes since `outlook`, at most `seconds`."""
        with self._changed:
            self._check()
            if self._version == self._seen and seconds > 0:
                self._changed.wait(seconds)
            self._seen = self._version
            self._check()

    def tree(self, most: int) -> TokenTree:
        """Return the likeliest drafted nodes, at most `most`."""
        with self._changed:
            self._check()
            self._most = most
            return self._speculation.tree(most)

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """Context in which the target is busy: without overlap no step begins meanwhile."""
        self._set_busy(busy=True)
        try:
            yield
        finally:
            self._set_busy(busy=False)

    def _set_busy(self, *, busy: bool) -> None:
        with self._changed:
            self._busy = busy
            if not busy:
                self._changed.notify_all()

    def commit(self, tokens: Sequence[int]) -> DraftActivity:
        """Append committed tokens, and cancel a step that has become hopeless."""
        with self._changed:
            self._tokens += tokens
        proposals = self._propose()
        with self._changed:
            self._check()
            speculation = self._speculation
            self._learn_costs()
            self._committed += len(tokens)
            hit = speculation.advance(tokens)
            if (step := speculation.step) is not None and step.hopeless:
                self._cancel.set()
                self._given_up = self._given_up or perf_counter()
            for tree in proposals:
                speculation.graft(tree)
            self._full = self._cramped = self._settled = False
            self._renewing = True
            merit = speculation.take_merit()
            self._changed.notify_all()
            return DraftActivity(self._take_spans(), merit.useful, merit.wasted, hit)

    def reading_times(self) -> list[tuple[int, float]]:
        """Return the pieces that were read since the last call: (tokens, seconds)."""
        with self._changed:
            times, self._read_times = self._read_times, []
            return times

    def _learn_costs(self) -> None:
        """Learn from the steps that have ended and were not cancelled; under the lock."""
        for rows, seconds in self._times:
            self._costs.add(rows, seconds)
        self._times.clear()

    def _propose(self) -> list[TokenTree]:
        """Return what the other drafters propose, once they know the prompt."""
        if not self._observed:
            return []
        news, self._observed = self._tokens[self._observed :], len(self._tokens)
        budget = Budget(nodes=self._most, depth=self._most, width=1)
        for other in self._others:
            other.observe(news)
        return [other.propose(self._context, budget) for other in self._others]

    # -- beginning and ending ------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin with the prompt."""
        self._thread.start()

    def stop(self) -> None:
        """Cancel the running step, end the thread and keep the keys of committed tokens.

        Raises:
            RuntimeError: the draft's device does not answer any more.
        """
        with self._changed:
            self._closing = True
            self._cancel.set()
            self._changed.notify_all()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self._model.drop()
            raise RuntimeError("the draft model does not come to an end")
        if self._error is not None:
            self._model.drop()
        else:
            self._model.end([*self._speculation.path, self._speculation.root])

    def check(self) -> None:
        """Raise the thread's error, unless it was raised before."""
        if not self._told:
            self._check()

    def _check(self) -> None:
        if self._error is not None:
            self._told = True
            raise self._error

    # -- the thread's --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._is_wanted():
                self._begin()
            while (work := self._next()) is not None:
                work()
        except BaseException as error:  # noqa: BLE001  # the engine thread raises it
            with self._changed:
                self._error = error
                self._tell()

    def _is_wanted(self) -> bool:
        """Wait for the first pace; return whether one came before the end of the answer."""
        with self._changed:
            while self._pace is None and not self._closing:
                self._changed.wait(_LOOK_UP_S)
            return not self._closing

    def _begin(self) -> None:
        prompt = tuple(self._tokens[: self._length])
        for other in self._others:
            other.begin(replace(self._context, tokens=prompt))
        with self._changed:
            self._observed = len(prompt)

    def _next(self) -> Callable[[], None] | None:
        """Wait for something to do and return it; None at the end of the answer."""
        with self._changed:
            while not self._closing:
                if (work := self._work()) is not None:
                    return work
                self._end_span()
                self._changed.wait(_LOOK_UP_S)
        return None

    def _work(self) -> Callable[[], None] | None:
        pace, model, speculation = self._pace, self._model, self._speculation
        if model.begun:
            self._over = self._over or not model.reaches(self._committed)
        if pace is None or self._over:
            return None
        self._cancel.clear()
        if self._wish is not None:
            self._end_span()
            return partial(self._read, self._wish)
        if not model.begun:
            return None
        self._renew()
        if (behind := self._catching_up()) is not None:
            self._ready = False
            self._end_span()
            return behind
        if not self._ready:
            self._ready = True
            self._tell()
        if self._full or (self._busy and not pace.overlap):
            return None
        if model.crowded or self._cramped:
            return partial(self._settle, model.settlement(speculation.path))
        step = speculation.begin_step(pace)
        if step is None:
            return None
        self._began = perf_counter()
        self._span = self._span or self._began
        return partial(self._compute, step)

    def _renew(self) -> None:
        """Let a head begin anew behind what was committed."""
        if self._renewing and self._head is not None:
            path = self._speculation.path
            del path[: self._head.renew(path)]
        self._renewing = False

    def _catching_up(self) -> Callable[[], None] | None:
        """Return the processing of the next piece of tokens that were committed long ago."""
        path = self._speculation.path
        if self._missing:
            return self._catch_up
        pending = sum(1 for _ in takewhile(lambda node: node.staged is None, reversed(path)))
        if pending <= CATCH_UP_CHUNK:
            return None
        if pending < len(path):
            return partial(self._settle, self._model.settlement(path))
        return partial(self._follow, path[:CATCH_UP_CHUNK])

    def _read(self, first: int) -> None:
        """Begin to read; committed nodes count among the tokens from here on."""
        with self._changed:
            tokens = self._tokens[: self._committed]
            if not self._model.beginnings.choose(len(tokens), len(tokens) - first):
                self._wish, self._over = None, not self._model.begun
                return
            self._speculation.forget_path()
        missing = self._model.begin(tokens[:-1])
        with self._changed:
            self._missing, self._wish = missing, None

    def _catch_up(self) -> None:
        begun = perf_counter()
        piece = self._missing[: self._model.piece(len(self._missing))]
        if self._model.process(piece, self._sampler, self._cancel):
            self._missing = self._missing[len(piece) :]
            self._model.keep(len(self._missing))
            with self._changed:
                self._read_times.append((len(piece), perf_counter() - begun))

    def _follow(self, nodes: list[Node]) -> None:
        tokens = [node.token for node in nodes]
        if self._model.process(tokens, self._sampler, self._cancel):
            self._model.settled(nodes)
            with self._changed:
                del self._speculation.path[: len(nodes)]

    def _settle(self, settlement: Settlement) -> None:
        self._model.settle(settlement)
        with self._changed:
            del self._speculation.path[: len(settlement.passed)]
            self._cramped = False

    def _compute(self, step: DraftStep) -> None:
        found = self._model.compute(step, self._sampler, self._cancel)
        with self._changed:
            seconds, self._began = perf_counter() - self._began, 0.0
            self._given_up = 0.0
            self._speculation.end_step(found.candidates if found else (), seconds)
            if found is None and not self._cancel:
                self._full, self._cramped = self._settled, not self._settled
                self._settled = True
            elif found is not None and found.rows:
                self._times.append((found.rows, seconds))
            self._tell()

    # -- for those who have the lock -----------------------------------------------------------

    def _tell(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _end_span(self) -> None:
        if self._span:
            self._spans.append(Interval(self._span, perf_counter()))
            self._span = 0.0

    def _take_spans(self) -> tuple[Interval, ...]:
        if self._span:
            now = perf_counter()
            self._spans.append(Interval(self._span, now))
            self._span = now
        taken, self._spans = tuple(self._spans), []
        return taken


class ParallelDraft:
    """Draft model of a loaded target, which gives each answer a worker of its own.

    Args:
        draft: the draft model, or a feature head.
        pool: keeps its states.
        others: drafters that cost next to nothing, whose proposals are added.
        costs: what its steps take; None: nothing is known.

    Attributes:
        costs: what its steps take.
    """

    def __init__(
        self,
        draft: Decoder,
        pool: PrefixCache,
        others: Sequence[Drafter] = (),
        costs: DraftCosts | None = None,
    ) -> None:
        self.costs = costs or DraftCosts(USUAL.levels, beside=True)
        self._draft, self._pool = draft, pool
        self._beginnings = Beginnings(pool, skipped=int(_is_head(draft)))
        self._others = tuple(others)
        self._last: DraftWorker | None = None
        self._first: int | None = None

    @property
    def reads_alone(self) -> bool:
        """True where it can read a prompt before the target has: a head cannot."""
        return not _is_head(self._draft)

    @contextmanager
    def worker(
        self,
        context: DraftContext,
        pace: DraftPace | None = AT_ONCE,
        reads: int = ALL,
        costs: DraftCosts | None = None,
    ) -> Iterator[DraftWorker]:
        """Draft for one answer, beginning with its prompt, until the block ends.

        The keys of committed tokens are kept for the next answer.

        Args:
            context: the answer.
            pace: to begin with; None: nothing is done before there is one.
            reads: so many of the prompt's last tokens are read then; 0: none before it is told.
            costs: learn from its steps; None: the draft's own do.

        Raises:
            RuntimeError: the draft works for another answer already.
        """
        if self._last is not None and self._last.alive:
            raise RuntimeError("the draft is working for another answer")
        forced = () if context.sampler.constraint is None else (ForcedDrafter(),)
        following = self._last = DraftWorker(
            self._cache(context),
            (*forced, *self._others),
            costs or self.costs,
            context,
            pace,
            reads,
        )
        following.start()
        try:
            yield following
        except BaseException:
            following.stop()
            raise
        following.stop()
        following.check()

    def _cache(self, context: DraftContext) -> DraftCache:
        head = _is_head(self._draft)
        if head and self._first != context.tokens[0]:  # it shapes features, but is in no state
            self._first = context.tokens[0]
            self._pool.empty()
        self._beginnings.begin(context.tokens)
        if not head:
            return DraftCache(self._draft, self._beginnings)
        if context.features is None:
            raise ValueError("a feature head drafts from the target's features")
        return HeadCache(self._draft, self._beginnings, context.features)


def _is_head(draft: Decoder) -> bool:
    return isinstance(draft.config, ModelConfig) and draft.config.fusion is not None
