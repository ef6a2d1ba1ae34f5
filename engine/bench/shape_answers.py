"""Answers to one prompt by several strategies in turns: plain, the controller's, fixed depths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

from engine.backend.decoder import Decoder
from engine.backend.native.workspace import WIDTH
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget, Round
from engine.bench.forward import CONTEXT, prompt
from engine.bench.harness import acceptance_length, plain_share
from engine.bench.scripted_draft import FixedDepth, Script, ScriptedDraft
from engine.commands import Mode
from engine.events import AnswerStats
from engine.model.config import ModelConfig
from engine.model.other_family import OtherConfig
from engine.plan.facts import HEAD_WIDTH
from engine.plan.plan import USUAL, Expectation
from engine.request import SamplingParams
from engine.session.tally import Tally
from engine.speculative.controller import Controller
from engine.speculative.costs import DraftCosts
from engine.speculative.decoding import Decoding
from engine.speculative.draft_worker import ParallelDraft
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.model import HeadDrafter, StandaloneDrafter
from engine.speculative.loops import Loop, Parallel, Plain, Serial
from engine.speculative.sampler import Sampler
from engine.speculative.strategies import DraftingStrategy

DEPTHS = tuple(range(1, 9))
ROWS = (*range(1, 10), 16)
_READINGS = 3
SLACK = 16
"""Text known beyond the tokens asked for, so that no round is cut short by the end."""


@dataclass(frozen=True, slots=True)
class ShapeOptions:
    """Options of a measurement.

    Attributes:
        tokens: per answer.
        runs: answers by each strategy.
        acceptance: probability of a drafted token, once all before it were accepted.
        depths: of chains, or trees, of fixed length.
        trees: whether the draft may propose more than the script's chain, and so has to compute
            and the target to verify it; the script says what is accepted.
        prompt: tokens before the answer.
        rows: of single forwards, 1 among them.
    """

    tokens: int = 64
    runs: int = 5
    acceptance: float = 0.8
    mode: Mode = Mode.AUTO
    depths: tuple[int, ...] = DEPTHS
    prompt: int = CONTEXT
    rows: tuple[int, ...] = ROWS
    trees: bool = False

    @property
    def context(self) -> int:
        """Tokens that a sequence state has to have room for."""
        return self.prompt + self.tokens + SLACK

    def width(self, draft: ModelConfig | OtherConfig) -> int:
        """Nodes of a level that a draft has."""
        if not self.trees:
            return 1
        return HEAD_WIDTH if isinstance(draft, ModelConfig) and draft.fusion else WIDTH


@dataclass(frozen=True, slots=True)
class Speed:
    """Medians over the answers of one strategy; the speed-up is against the plain median.

    `plain_share` is the share of rounds that drafted nothing, `accepted` that of drafted tokens
    which were right, once all before them were.
    """

    tokens_per_s: float
    speedup: float
    acceptance_length: float | None
    accepted: float | None
    plain_share: float


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds from an unread prompt to the first token.

    Attributes:
        plain: of the target alone.
        drafting: where the mode drafts.
        in_turns: of serial speculation as it is usually done; None for a feature head, which has
            nothing to read before the target has.
        head_reads: for which a feature head reads the prompt, behind its first token.
    """

    plain: float
    drafting: float | None = None
    in_turns: float | None = None
    head_reads: float | None = None


@dataclass(slots=True)
class LoopAnswers:
    """A loop and the answers that it wrote.

    Attributes:
        level_s: a draft's seconds per level, by round.
        rounds: of the last answer.
    """

    loop: Loop
    stats: list[AnswerStats] = field(default_factory=list)
    level_s: list[float] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        """Median over the answers."""
        return median(each.tokens_per_s for each in self.stats if each.tokens_per_s is not None)

    def speed(self, plain: float) -> Speed:
        """Return the figures of the answers, beside the plain speed."""
        offered = sum(sum(each.drafted_by_depth) for each in self.stats)
        accepted = sum(sum(each.accepted_by_depth) for each in self.stats)
        return Speed(
            tokens_per_s=self.tokens_per_s,
            speedup=self.tokens_per_s / plain,
            acceptance_length=acceptance_length(self.stats),
            accepted=accepted / offered if offered else None,
            plain_share=plain_share(self.stats) or 0.0,
        )


class ShapeAnswers:
    """Writes the same text again and again, every strategy in its turn.

    Args:
        target: writes.
        draft: drafts what a script says; None: all answers are plain.
        options: how many answers, how long.
        expected: what the controller is told.
    """

    def __init__(
        self,
        target: Decoder,
        draft: Decoder | None,
        options: ShapeOptions,
        expected: Expectation | None = None,
    ) -> None:
        self._options, self._target = options, target
        self._state = target.new_state(options.context)
        self._prompt = prompt(target.config.vocab_size, options.prompt)
        self._text: tuple[int, ...] = ()
        self.exact = True
        self._plain = LoopAnswers(Plain())
        self._draft: ScriptedDraft | None = None
        self._draft_states: PrefixCache | None = None
        self._auto: LoopAnswers | None = None
        self._fixed: dict[int, LoopAnswers] = {}
        if draft is not None:
            self._add_drafting(ScriptedDraft(draft, trees=options.trees), expected)

    def _add_drafting(self, draft: ScriptedDraft, expected: Expectation | None) -> None:
        """The loops that draft: what the mode means, and fixed depths in turns."""
        options, self._draft = self._options, draft
        states = self._draft_states = PrefixCache(draft, options.context)
        levels = (expected or USUAL).levels
        drafter = _drafter(draft, states, DraftCosts(levels))
        if options.mode is Mode.DUO:
            lane = ParallelDraft(draft, states, costs=DraftCosts(levels, beside=True))
            ways = [DraftingStrategy.PARALLEL]
            auto: Loop = Parallel(lane, Controller(expected, lane.costs, ways, forced=True))
        else:
            forced = options.mode is not Mode.AUTO
            auto = Serial(drafter, Controller(expected, drafter.costs, forced=forced))
        self._auto = LoopAnswers(auto)
        for depth in options.depths:
            fixed = FixedDepth(depth, options.width(draft.config))
            self._fixed[depth] = LoopAnswers(Serial(drafter, fixed))

    @property
    def plain_tokens_per_s(self) -> float:
        """Median speed of the target alone."""
        return self._plain.tokens_per_s

    @property
    def auto(self) -> Speed | None:
        """Figures of the strategy that the mode means; None where nothing drafts."""
        return None if self._auto is None else self._auto.speed(self.plain_tokens_per_s)

    @property
    def by_depth(self) -> dict[int, Speed]:
        """Figures of each fixed depth."""
        plain = self.plain_tokens_per_s
        return {depth: answers.speed(plain) for depth, answers in self._fixed.items()}

    @property
    def drafting_seconds(self) -> float | None:
        """Median per level of a draft; of a chain every token is one."""
        spent = [seconds for answers in self._fixed.values() for seconds in answers.level_s]
        return median(spent) if spent else None

    @property
    def rounds(self) -> Sequence[Round]:
        """The rounds of the last answer that the mode's strategy wrote; empty without a draft."""
        return () if self._auto is None else tuple(self._auto.rounds)

    def first_token_seconds(self) -> FirstToken:
        """Time the first token behind prompts that nobody has read.

        Prefixes that the draft keeps are those of the same prompt, so each is another one. No state
        is taken beside those of the answers: devices may have been planned full.
        """
        plain = self._first_token(Plain(), 1)
        if self._draft_states is None or self._auto is None:
            return FirstToken(plain)
        own = self._first_token(self._auto.loop, 2)
        config = self._draft_states.decoder.config
        if isinstance(config, ModelConfig) and config.fusion is not None:
            return FirstToken(plain, own, head_reads=self._head_reads(self._draft_states, 3))
        return FirstToken(plain, own, self._in_turns(self._draft_states, 3))

    def _head_reads(self, states: PrefixCache, other: int) -> float:
        """Median seconds for which a head reads what the target has read."""
        decoding = self._unread(other)
        for _ in decoding.prefill():
            pass
        context = DraftContext(
            decoding.tokens, decoding.sampler, decoding.cancelled, decoding.state.features
        )
        spent = []
        for _ in range(_READINGS):
            states.empty()
            drafter = HeadDrafter(states.decoder, states)
            drafter.begin(context)
            started = perf_counter()
            drafter.read(context, drafter.missing(context))
            spent.append(perf_counter() - started)
        self._state.crop(0)
        return median(spent)

    def _in_turns(self, states: PrefixCache, other: int) -> float:
        """Seconds to the first token of serial speculation as it is usually done.

        Target and draft read the prompt one after the other, and a chain is drafted before the
        target verifies for the first time: the baseline of arXiv 2503.00784.
        """
        decoding = self._unread(other)
        states.empty()
        drafter = StandaloneDrafter(states.decoder, states)
        context = DraftContext(decoding.tokens, decoding.sampler, decoding.cancelled)
        depth = self._options.depths[0] if self._options.depths else 1
        started = perf_counter()
        for _ in decoding.prefill():
            pass
        drafter.begin(context)
        drafter.read(context, len(decoding.tokens))
        decoding.verify(drafter.propose(context, Budget(depth, depth, 1)))
        spent = perf_counter() - started
        self._state.crop(0)
        return spent

    def _unread(self, other: int) -> Decoding:
        """An answer to a prompt that is not the measured one."""
        vocab = self._target.config.vocab_size
        asked = [(token + other) % vocab for token in self._prompt]
        self._state.crop(0)
        most = 2 + max(self._options.depths, default=0)
        return Decoding(
            self._target, self._state, asked, Sampler(SamplingParams()), max_tokens=most
        )

    def _first_token(self, loop: Loop, other: int) -> float:
        decoding = self._unread(other)
        started = perf_counter()
        with loop.rounds(decoding) as rounds:
            for _ in decoding.prefill():
                pass
            next(rounds)
            spent = perf_counter() - started
        self._state.crop(0)
        return spent

    def let_go(self) -> None:
        """Give the sequences' memory back; nothing can be written any more."""
        del self._state, self._draft_states, self._auto, self._fixed

    def run(self, number: int) -> None:
        """One answer by each strategy; plain comes first, as its text is the script, and last.

        The very first answers touch memory and process the prompt; they are not timed.
        """
        first = not self._text
        if first:
            self._text = self._write(LoopAnswers(Plain()))
        self._check(self._plain)
        if self._draft is None or self._auto is None:
            return
        text, vocab = [*self._prompt, *self._text], self._target.config.vocab_size
        self._draft.script = Script.write(text, vocab, self._options.acceptance, seed=number)
        if first:
            self._write(LoopAnswers(self._auto.loop))  # which learns what is cheap
        for answers in (self._auto, *self._fixed.values(), self._plain):
            self._check(answers)

    def _check(self, answers: LoopAnswers) -> None:
        """Write one answer more, which has to be the target's own text."""
        text = self._write(answers)
        self.exact = self.exact and text == self._text[: len(text)]

    def _write(self, answers: LoopAnswers) -> tuple[int, ...]:
        """Write a greedy answer to the same prompt, which is in the KV cache already."""
        started, tally = perf_counter(), Tally()
        sampler = Sampler(SamplingParams(), len(self._prompt))
        whole = self._options.tokens + SLACK
        decoding = Decoding(self._target, self._state, self._prompt, sampler, max_tokens=whole)
        enough = self._options.tokens if self._text else whole
        answers.rounds.clear()
        with answers.loop.rounds(decoding) as rounds:
            for _ in decoding.prefill():
                pass
            while decoding.committed < enough:
                done = next(rounds)
                answers.rounds.append(done)
                tally.add(done, len(done.tokens), first=not tally.committed)
                if done.draft and done.drafted:
                    answers.level_s.append(done.draft.seconds / max(done.tree.depths))
        answers.stats.append(tally.stats(started, None))
        return tuple(decoding.tokens[len(self._prompt) :])


def _drafter(draft: Decoder, states: PrefixCache, costs: DraftCosts) -> Drafter:
    config = draft.config
    if isinstance(config, ModelConfig) and config.fusion is not None:
        return HeadDrafter(draft, states, costs)
    return StandaloneDrafter(draft, states, costs)
