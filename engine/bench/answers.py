"""The same answer written plainly, at fixed depths of drafting, and as the controller likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from engine.backend.decoder import Decoder
from engine.backend.native.sizes import WIDTH
from engine.backend.round import Round
from engine.backend.state_pool import StatePool
from engine.bench.forward import CONTEXT, prompt
from engine.bench.scripted_draft import FixedDepth, Script, ScriptedDraft
from engine.commands import Mode
from engine.model.config import ModelConfig
from engine.model.other_family import OtherConfig
from engine.plan.facts import HEAD_WIDTH
from engine.plan.plan import Expectation
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.draft_worker import DraftLane
from engine.speculative.drafters.drafter import Drafter
from engine.speculative.drafters.feature_head import HeadDrafter
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.loops import Loop, Parallel, Plain, Serial
from engine.speculative.parallel_controller import ParallelController
from engine.speculative.sampler import Sampler
from engine.speculative.serial_controller import SerialController

DEPTHS = tuple(range(1, 9))
ROWS = (*range(1, 10), 16)
SLACK = 16
"""Text known beyond the tokens asked for, so that no round is cut short by the end."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to measure.

    Attributes:
        tokens: per answer.
        runs: answers each way.
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
    """Medians over the answers of one way to draft; the speed-up is against the plain median.

    `plain_share` is the share of rounds that drafted nothing, `accepted` that of drafted tokens
    which were right, once all before them were.
    """

    tokens_per_s: float
    speedup: float
    acceptance_length: float | None
    accepted: float | None
    plain_share: float


@dataclass(slots=True)
class TimedAnswers:
    """The answers of one way to draft."""

    speeds: list[float] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    def speed(self, plain: float) -> Speed:
        """What they say, against the plain speed."""
        drafting = [done for done in self.rounds if done.drafted]
        committed = sum(len(done.tokens) for done in drafting)
        judged = sum(min(done.accepted + 1, done.drafted) for done in drafting)
        return Speed(
            tokens_per_s=median(self.speeds),
            speedup=median(self.speeds) / plain,
            acceptance_length=committed / len(drafting) if drafting else None,
            accepted=sum(done.accepted for done in drafting) / judged if judged else None,
            plain_share=1 - len(drafting) / len(self.rounds),
        )


class AnswersInTurns:
    """Writes the same text again and again, each way in its turn; text and speeds are kept.

    Args:
        target: writes.
        draft: drafts what a script says; None: all answers are plain.
        wishes: how many, how long.
        expected: what the controller is told.
    """

    def __init__(
        self,
        target: Decoder,
        draft: Decoder | None,
        wishes: Wishes,
        expected: Expectation | None = None,
    ) -> None:
        self._wishes = wishes
        self._target = target
        self._draft = ScriptedDraft(draft, trees=wishes.trees) if draft else None
        self.state = target.new_state(wishes.context)
        self.draft_states = StatePool(self._draft, wishes.context, 0) if self._draft else None
        self._prompt = prompt(target.config.vocab_size, wishes.prompt)
        self._text: tuple[int, ...] = ()
        self.exact = True
        self._plain = TimedAnswers()
        self._auto = TimedAnswers()
        self._fixed = {depth: TimedAnswers() for depth in wishes.depths}
        forced = wishes.mode not in (Mode.AUTO, Mode.PLAIN)
        self._controller = SerialController(expected, forced=forced)
        self._parallel: Parallel | None = None
        if wishes.mode is Mode.DUO and self._draft is not None and self.draft_states is not None:
            lane = DraftLane("draft", self._draft, self.draft_states)
            self._parallel = Parallel(lane, ParallelController(expected, ahead=True))

    @property
    def plain_tokens_per_s(self) -> float:
        """Of the target alone."""
        return median(self._plain.speeds)

    @property
    def auto(self) -> Speed | None:
        """As the controller chose; None where nothing drafted."""
        return self._auto.speed(self.plain_tokens_per_s) if self._auto.rounds else None

    @property
    def by_depth(self) -> dict[int, Speed]:
        """The fixed depths that were tried."""
        plain = self.plain_tokens_per_s
        tried = {depth: answers for depth, answers in self._fixed.items() if answers.rounds}
        return {depth: answers.speed(plain) for depth, answers in tried.items()}

    @property
    def drafting_seconds(self) -> float | None:
        """Median per level of a draft; of a chain every token is one."""
        spent = [
            done.draft.seconds / min(depth, done.drafted)
            for depth, answers in self._fixed.items()
            for done in answers.rounds
            if done.draft and done.drafted
        ]
        return median(spent) if spent else None

    def let_go(self) -> None:
        """Give the sequences' memory back; nothing can be written any more."""
        del self.state, self.draft_states

    def run(self, number: int) -> None:
        """One answer each way; plain comes first, as its text is the script.

        The very first answers touch memory and process the prompt; they are not timed.
        """
        first = not self._text
        if first:
            self._text = self._write(Plain(), TimedAnswers())
        self._check(self._write(Plain(), self._plain))
        if self._draft is None or self.draft_states is None:
            return
        text, vocab = [*self._prompt, *self._text], self._target.config.vocab_size
        self._draft.script = Script.write(text, vocab, self._wishes.acceptance, seed=number)
        drafter = _drafter(self._draft, self.draft_states)
        own = self._parallel or Serial(drafter, self._controller)
        if first:
            self._write(own, TimedAnswers())  # which learns what is cheap
        self._check(self._write(own, self._auto))
        for depth, answers in self._fixed.items():
            fixed = FixedDepth(depth, self._wishes.width(self._draft.config))
            self._check(self._write(Serial(drafter, fixed), answers))
        self._check(self._write(Plain(), self._plain))

    def _write(self, loop: Loop, answers: TimedAnswers) -> tuple[int, ...]:
        """One greedy answer to the same prompt, its keys and values already there."""
        sampler = Sampler(SamplingParams(), len(self._prompt))
        whole = self._wishes.tokens + SLACK
        decoding = Decoding(self._target, self.state, self._prompt, sampler, max_tokens=whole)
        enough = self._wishes.tokens if self._text else whole
        rounds: list[Round] = []
        with loop.rounds(decoding) as begun:
            for _ in decoding.prefill():
                pass
            while decoding.committed < enough:
                rounds.append(next(begun))
        seconds = rounds[-1].verify.end - rounds[0].verify.end
        answers.speeds.append((decoding.committed - len(rounds[0].tokens)) / seconds)
        answers.rounds.extend(rounds[1:])  # the first never drafts
        return tuple(decoding.tokens[len(self._prompt) :])

    def _check(self, text: tuple[int, ...]) -> None:
        self.exact = self.exact and text == self._text[: len(text)]


def _drafter(draft: Decoder, states: StatePool) -> Drafter:
    config = draft.config
    if isinstance(config, ModelConfig) and config.fusion is not None:
        return HeadDrafter("draft", draft, states)
    return StandaloneDrafter("draft", draft, states)
