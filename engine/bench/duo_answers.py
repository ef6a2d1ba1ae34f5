"""The same text written plainly, drafted in turns on either device, and drafted in parallel.

The ways take turns, so that a drift of the machine hits all alike; every text has to be the plain
one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from engine.backend.decoder import Decoder
from engine.backend.round import Round
from engine.backend.state_pool import StatePool
from engine.bench.answers import SLACK, Speed, TimedAnswers, prefill
from engine.bench.lane_script import LaneLines, write_lines
from engine.bench.lane_shares import LaneShares, lane_shares
from engine.bench.scripted_draft import ScriptedDrafter
from engine.bench.scripted_lane import ScriptedLane
from engine.plan.plan import Expectation
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.drafters.drafter import Drafter
from engine.speculative.drafters.standalone import StandaloneDrafter
from engine.speculative.loops import plain, serial
from engine.speculative.sampler import Sampler
from engine.speculative.serial_controller import SerialController


class DuoWay(StrEnum):
    """How an answer is written; the target is always where the plan has put it."""

    PLAIN = "plain"
    """The target alone."""
    TURNS = "turns"
    """The draft on the CPU drafts, then the target verifies."""
    TURNS_THERE = "turns_on_accelerator"
    """The same with the draft beside the target."""
    PARALLEL = "parallel"
    """The draft on the CPU drafts while the target verifies."""


@dataclass(frozen=True, slots=True)
class DuoWishes:
    """What to measure.

    Attributes:
        tokens: per answer.
        runs: answers each way.
        acceptance: share of the draft's first choices that are right; None: the draft itself.
        second: share of its second choices that are right where the first is not.
        ways: to write; the plain one always is.
    """

    tokens: int = 64
    runs: int = 3
    acceptance: float | None = 0.7
    second: float = 0.0
    ways: tuple[DuoWay, ...] = tuple(DuoWay)


@dataclass(slots=True)
class Heard:
    """What one way of writing has shown."""

    speeds: TimedAnswers = field(default_factory=TimedAnswers)
    answers: list[list[Round]] = field(default_factory=list)
    steps: list[tuple[int, float]] = field(default_factory=list)
    """Of the draft lane, those that were not cancelled: nodes, and seconds."""

    @property
    def shares(self) -> LaneShares | None:
        """Of the lanes."""
        return lane_shares(self.answers)


class DuoAnswers:
    """Writes greedy answers to the same prompts, each way in its turn.

    Args:
        target: writes.
        draft: drafts, on the CPU.
        there: drafts beside the target; None: that way is left out.
        prompts: token ids.
        wishes: how many, how long.
        stop_ids: tokens that end an answer.
        expected: what all that draft on the CPU are told.
    """

    def __init__(
        self,
        target: Decoder,
        draft: Decoder,
        there: Decoder | None,
        prompts: Sequence[Sequence[int]],
        wishes: DuoWishes,
        stop_ids: Collection[int] = (),
        expected: Expectation | None = None,
    ) -> None:
        self._target, self._wishes, self._stop_ids = target, wishes, stop_ids
        self._prompts = [list(prompt) for prompt in prompts]
        self._texts: list[list[int]] = []
        self._context = max(map(len, self._prompts)) + wishes.tokens + SLACK
        self.state = target.new_state(self._context)
        self._lane = ScriptedLane(draft, self._pool(draft), expected)
        self._drafters: dict[DuoWay, Drafter] = {
            way: StandaloneDrafter("draft", own, self._pool(own))
            for way, own in ((DuoWay.TURNS, draft), (DuoWay.TURNS_THERE, there))
            if own is not None and way in wishes.ways
        }
        self._controllers = {
            way: SerialController(expected if way is DuoWay.TURNS else None, forced=True)
            for way in self._drafters
        }
        self.exact = True
        last = [DuoWay.PARALLEL] if DuoWay.PARALLEL in wishes.ways else []
        self.heard = {way: Heard() for way in (DuoWay.PLAIN, *self._drafters, *last)}
        self.ranks: list[int | None] = []
        """Which choice of the draft was right, at all positions of all scripted answers."""
        self.candidates: list[tuple[int, float]] = []
        """The draft's choices, 0 and 1, with the logs of their chances."""

    def _pool(self, draft: Decoder) -> StatePool:
        return StatePool(draft, self._context)

    @property
    def texts(self) -> Sequence[Sequence[int]]:
        """Every prompt with the target's own answer, which goes on beyond what is timed."""
        return [
            [*prompt, *text] for prompt, text in zip(self._prompts, self._texts, strict=True)
        ]  # fmt: skip

    def speed(self, way: DuoWay) -> Speed:
        """Of one way, against plain decoding."""
        return self.heard[way].speeds.speed(median(self.heard[DuoWay.PLAIN].speeds.speeds))

    def run(self, number: int) -> None:
        """Every prompt once each way. The first run is preceded by one that is not timed."""
        first = not self._texts
        if first:
            whole = self._wishes.tokens + SLACK
            for prompt in self._prompts:
                self._texts.append(self._write(DuoWay.PLAIN, prompt, None, Heard(), whole))
        scripts = [self._lines(text, number) for text in self.texts]
        self._note(scripts)
        for warming in (True, False) if first else (False,):
            for prompt, text, lines in zip(self._prompts, self._texts, scripts, strict=True):
                for way, heard in self.heard.items():
                    spare = Heard() if warming else heard
                    written = self._write(way, prompt, lines, spare, self._wishes.tokens)
                    self.exact = self.exact and written == text[: len(written)]

    def _note(self, scripts: Sequence[LaneLines | None]) -> None:
        for prompt, lines in zip(self._prompts, scripts, strict=True):
            if lines is not None:
                self.ranks += lines.ranks[len(prompt) : len(prompt) + self._wishes.tokens]
                self.candidates = [*enumerate(weight for _, weight in lines.choices(0))]

    def _lines(self, text: Sequence[int], seed: int) -> LaneLines | None:
        wishes = self._wishes
        if wishes.acceptance is None:
            return None
        vocab = self._target.config.vocab_size
        return write_lines(text, vocab, wishes.acceptance, wishes.second, seed)

    def _write(
        self, way: DuoWay, prompt: list[int], lines: LaneLines | None, heard: Heard, enough: int
    ) -> list[int]:
        """One answer, the prompt's keys already there; rounds are cut short by no end."""
        sampler = Sampler(SamplingParams(), len(prompt))
        decoding = Decoding(
            self._target, self.state, prompt, sampler,
            stop_ids=self._stop_ids, max_tokens=self._wishes.tokens + SLACK,
        )  # fmt: skip
        rounds: list[Round] = []
        with self._rounds(way, decoding, lines, heard) as loop:
            for done in loop:
                rounds.append(done)
                if decoding.committed >= enough:
                    break
        if len(rounds) > 1:
            seconds = rounds[-1].verify.end - rounds[0].verify.end
            later = decoding.committed - len(rounds[0].tokens)
            heard.speeds.speeds.append(later / seconds)
            heard.speeds.rounds.extend(rounds[1:])  # the first never drafts
            heard.answers.append(rounds)
        return decoding.tokens[len(prompt) :]

    @contextmanager
    def _rounds(
        self, way: DuoWay, decoding: Decoding, lines: LaneLines | None, heard: Heard
    ) -> Iterator[Iterator[Round]]:
        if way is DuoWay.PARALLEL:
            with self._lane.rounds(decoding, lines, heard.steps) as loop:
                yield loop
            return
        prefill(decoding)
        if way is DuoWay.PLAIN:
            yield plain(decoding)
            return
        drafter = self._drafters[way]
        if lines is not None:
            drafter = ScriptedDrafter(drafter, lines.script)
        yield serial(decoding, drafter, self._controllers[way])
