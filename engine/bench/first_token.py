"""How long the first token takes: plainly, in parallel, and as the baseline of DuoDecoding has it.

That one lets target and draft read the prompt one after the other and drafts before the first
verification. In our loops the target's first token waits for no draft. Nothing of the prompt is
known before, each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from engine.backend.decoder import Decoder
from engine.backend.round import Budget
from engine.backend.state_pool import StatePool
from engine.backend.tree import TokenTree
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.draft_worker import AT_ONCE, DraftLane
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

PAPERS_DRAFT = 5
"""Tokens that conventional speculative decoding drafts in arXiv 2503.00784's comparison."""


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """Median seconds from the request to its first token.

    Attributes:
        prompt: tokens of it.
        plain: the target alone.
        duo: as answers do: beside a real card the draft on the CPU reads the prompt at the same
            time, beside a simulated one, which has the host's cores, behind the first token.
        in_turns: target and draft one after the other, the draft on the CPU.
        in_turns_there: the same with the draft beside the target; None: it is not there.
    """

    prompt: int
    plain: float
    duo: float
    in_turns: float
    in_turns_there: float | None

    @property
    def baseline(self) -> float:
        """What the paper compares with: all on one device, where the draft is there."""
        return self.in_turns if self.in_turns_there is None else self.in_turns_there


class FirstTokenBench:
    """Asks the same again and again.

    Args:
        target: writes.
        draft: on the CPU.
        there: the draft beside the target, if it is there.
        prompt: token ids.
        beside: whether the draft lane reads it at the same time.
    """

    def __init__(
        self,
        target: Decoder,
        draft: Decoder,
        there: Decoder | None,
        prompt: Sequence[int],
        *,
        beside: bool,
    ) -> None:
        self._pace = AT_ONCE if beside else None
        self._target, self._prompt = target, list(prompt)
        context = len(prompt) + 2 * PAPERS_DRAFT
        self._state = target.new_state(context)
        self._pools = {each: StatePool(each, context) for each in (draft, there) if each}
        self._draft, self._there = draft, there
        self._lane = DraftLane("draft", draft, self._pools[draft])

    def measure(self, runs: int) -> FirstTokens:
        """Every way in its turn; the very first turn touches memory and does not count."""
        ways: dict[str, Callable[[], float]] = {
            "plain": lambda: self._first(None),
            "duo": self._beside_lane,
            "in_turns": lambda: self._first(self._drafter(self._draft)),
        }
        if (there := self._there) is not None:
            ways["in_turns_there"] = lambda: self._first(self._drafter(there))
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(runs + 1):
            for name, way in ways.items():
                self._forget()
                spent = way()
                if turn:
                    times[name].append(spent)
        found = {name: median(spent) for name, spent in times.items()}
        return FirstTokens(
            prompt=len(self._prompt),
            plain=found["plain"],
            duo=found["duo"],
            in_turns=found["in_turns"],
            in_turns_there=found.get("in_turns_there"),
        )

    def _forget(self) -> None:
        self._state.crop(0)
        for pool in self._pools.values():
            pool.empty()

    def _drafter(self, draft: Decoder) -> Drafter:
        return StandaloneDrafter("draft", draft, self._pools[draft])

    def _beside_lane(self) -> float:
        return self._first(None, self._lane)

    def _first(self, drafter: Drafter | None, lane: DraftLane | None = None) -> float:
        """Seconds until the first token is there; what goes on then is not waited for."""
        start = perf_counter()
        decoding = Decoding(self._target, self._state, self._prompt, Sampler(SamplingParams()))
        context = DraftContext(decoding.tokens, decoding.sampler, decoding.cancelled)
        following: AbstractContextManager[object] = (
            lane.following(context, self._pace) if lane else nullcontext()
        )
        with following:
            for _ in decoding.prefill():
                pass
            tree = TokenTree.root(self._prompt[-1])
            if drafter is not None:
                drafter.begin(context)
                tree = drafter.propose(context, Budget(PAPERS_DRAFT, PAPERS_DRAFT, 1))
            decoding.verify(tree)
            return perf_counter() - start
