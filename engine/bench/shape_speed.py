"""Speculative decoding on a published shape: scripted acceptance, real times."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from engine.bench.attainable import Attainable, attainable
from engine.bench.forward import (
    CONTEXT,
    DecoderSide,
    Side,
    forwards_in_turns,
    prompt,
    time_forwards,
)
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import PeerSettings, llama_cpp
from engine.bench.scripted_draft import FixedDepth, ScriptedDrafter, script
from engine.bench.shapes import draft_shape
from engine.bench.subject import random_subject
from engine.commands import Mode
from engine.decode.controller import Controller
from engine.decode.decoding import Decoding, Round
from engine.decode.loops import autoregressive, serial
from engine.decode.sampler import Sampler
from engine.draft.standalone import StandaloneDrafter
from engine.model.config import ModelConfig
from engine.model.pool import StatePool
from engine.request import SamplingParams

DEPTHS = tuple(range(1, 9))
VERIFY_ROWS = (*range(1, 10), 16)
DRAFT_FORMAT = "q8_0"
"""Of drafts, which are small."""
FORWARDS = 10
"""Single forwards of each size."""
SLACK = 16
"""Text known beyond the tokens asked for, so that no round is cut short by the end."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to measure: tokens per answer, answers each way, and the probability of acceptance."""

    tokens: int = 64
    runs: int = 5
    acceptance: float = 0.8
    mode: Mode = Mode.AUTO
    depths: tuple[int, ...] = DEPTHS


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


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, from what the decoders and states themselves hold."""

    weights: int
    kv: int
    draft_weights: int
    draft_kv: int


@dataclass(frozen=True, slots=True)
class PeerSpeed:
    """What llama.cpp takes for the same forwards, and the best it could make of them.

    Drafting a token is its forward of the draft alone: choosing the token would come on top.
    """

    verify: dict[int, float]
    draft: float
    attainable: Attainable
    settings: PeerSettings


@dataclass(frozen=True, slots=True)
class ShapeSpeed:
    """All that was measured. Times in seconds; `auto` is what the controller chose."""

    plain_tokens_per_s: float
    auto: Speed | None
    by_depth: dict[int, Speed]
    verify: dict[int, float]
    draft: float | None
    attainable: Attainable | None
    exact: bool
    memory: Memory
    signature: str
    peer: PeerSpeed | None = None

    @property
    def best_depth(self) -> int | None:
        """The fixed depth with the best speed-up."""
        return max(self.by_depth, key=lambda depth: self.by_depth[depth].speedup, default=None)


def measure_shape(
    config: ModelConfig,
    wanted: str,
    wishes: Wishes,
    *,
    threads: int | None = None,
    peer: bool = False,
) -> ShapeSpeed:
    """Decode the same text plainly, at every depth and as the controller likes, in turns.

    `wanted` is one of `engine.bench.recipes.FORMATS`. With `peer`, llama.cpp's forwards are timed
    in turns with ours.

    Raises:
        Absent: there is no llama.cpp here.
    """
    if peer:
        find_interpreter()  # before minutes go into a model
    bench = _Bench(config, wanted, wishes, threads)
    for run in range(wishes.runs):
        bench.run(run)
    return bench.result_beside_peer() if peer else bench.result()


@dataclass(slots=True)
class _Answers:
    """The answers of one way to draft."""

    speeds: list[float] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    def speed(self, plain: float) -> Speed:
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


class _Bench:
    def __init__(
        self,
        config: ModelConfig,
        wanted: str,
        wishes: Wishes,
        threads: int | None,
    ) -> None:
        self._wishes, self._threads = wishes, threads
        self._subject = random_subject(config, wanted, threads)
        self._small = random_subject(draft_shape(config), DRAFT_FORMAT, threads, seed=1)
        self._target, self._draft = self._subject.decoder, self._small.decoder
        room = CONTEXT + wishes.tokens + SLACK
        self._state = self._target.new_state(room)
        self._states = StatePool(self._draft, room, 0)
        self._prompt = prompt(config.vocab_size)
        self._text: tuple[int, ...] = ()
        self._exact = True
        self._plain = _Answers()
        self._auto = _Answers()
        self._fixed = {depth: _Answers() for depth in wishes.depths}
        self._controller = Controller(forced=wishes.mode is Mode.CPU)

    def run(self, number: int) -> None:
        """One answer each way; plain comes first, as its text is the script.

        The very first answers touch memory and process the prompt; they are not timed.
        """
        first = not self._text
        if first:
            self._text = self._decode(None, None, _Answers())
        self._check(self._decode(None, None, self._plain))
        if self._wishes.mode is Mode.PLAIN:
            return
        vocab, acceptance = self._target.config.vocab_size, self._wishes.acceptance
        lines = script([*self._prompt, *self._text], vocab, acceptance, seed=number)
        drafter = ScriptedDrafter(StandaloneDrafter("draft", self._draft, self._states), lines)
        if first:
            self._decode(drafter, FixedDepth(4), _Answers())
        self._check(self._decode(drafter, self._controller, self._auto))
        for depth, answers in self._fixed.items():
            self._check(self._decode(drafter, FixedDepth(depth), answers))
        self._check(self._decode(None, None, self._plain))

    def result(self) -> ShapeSpeed:
        """Everything measured so far, and the cost of single forwards."""
        return self._result(time_forwards(self._target, VERIFY_ROWS, runs=FORWARDS).seconds)

    def result_beside_peer(self) -> ShapeSpeed:
        """The same, llama.cpp's forwards of target and draft timed as well."""
        with llama_cpp(self._small.config, self._small.weights, self._threads) as small:
            draft = forwards_in_turns([small], (1,), FORWARDS)[0].seconds[1]
        with llama_cpp(self._subject.config, self._subject.weights, self._threads) as peer:
            sides: list[Side] = [DecoderSide(self._target), peer]
            ours, theirs = forwards_in_turns(sides, VERIFY_ROWS, FORWARDS)
        best = attainable(theirs.seconds, draft, self._wishes.acceptance)
        return self._result(ours.seconds, PeerSpeed(theirs.seconds, draft, best, peer.settings))

    def _result(self, verify: dict[int, float], peer: PeerSpeed | None = None) -> ShapeSpeed:
        plain = median(self._plain.speeds)
        draft = self._drafting_seconds()
        acceptance = self._wishes.acceptance
        tried = {depth: answers for depth, answers in self._fixed.items() if answers.rounds}
        return ShapeSpeed(
            plain_tokens_per_s=plain,
            auto=self._auto.speed(plain) if self._auto.rounds else None,
            by_depth={depth: answers.speed(plain) for depth, answers in tried.items()},
            verify=verify,
            draft=draft,
            attainable=None if draft is None else attainable(verify, draft, acceptance),
            exact=self._exact,
            memory=Memory(
                weights=self._target.weight_bytes,
                kv=self._state.nbytes,
                draft_weights=self._draft.weight_bytes,
                draft_kv=self._states.nbytes,
            ),
            signature=self._target.signature,
            peer=peer,
        )

    def _decode(
        self, drafter: ScriptedDrafter | None, controller: Controller | None, answers: _Answers
    ) -> tuple[int, ...]:
        """One greedy answer to the same prompt, its keys and values already there."""
        sampler = Sampler(SamplingParams(), len(self._prompt))
        whole = self._wishes.tokens + SLACK
        decoding = Decoding(self._target, self._state, self._prompt, sampler, max_tokens=whole)
        for _ in decoding.prefill():
            pass
        if drafter is None or controller is None:
            loop = autoregressive(decoding)
        else:
            loop = serial(decoding, drafter, controller)
        enough = self._wishes.tokens if self._text else whole
        rounds = []
        while decoding.committed < enough:
            rounds.append(next(loop))
        seconds = rounds[-1].verify.end - rounds[0].verify.end
        answers.speeds.append((decoding.committed - len(rounds[0].tokens)) / seconds)
        answers.rounds.extend(rounds[1:])  # the first never drafts
        return tuple(decoding.tokens[len(self._prompt) :])

    def _check(self, text: tuple[int, ...]) -> None:
        self._exact = self._exact and text == self._text[: len(text)]

    def _drafting_seconds(self) -> float | None:
        """Median seconds per drafted token."""
        rounds = [done for answers in self._fixed.values() for done in answers.rounds]
        spent = [
            done.draft.seconds / done.drafted for done in rounds if done.draft and done.drafted
        ]
        return median(spent) if spent else None
