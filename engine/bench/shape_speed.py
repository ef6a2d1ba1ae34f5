"""Speculative decoding on a published shape: scripted acceptance, real times."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bench.answers import AnswersInTurns, Speed, Wishes
from engine.bench.attainable import Attainable, attainable
from engine.bench.forward import DecoderSide, Side, forwards_in_turns, time_forwards
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import PeerSettings, llama_cpp
from engine.bench.shapes import draft_shape
from engine.bench.subject import random_subject
from engine.commands import Mode
from engine.model.config import ModelConfig

VERIFY_ROWS = (*range(1, 10), 16)
DRAFT_FORMAT = "q8_0"
"""Of drafts, which are small."""
FORWARDS = 10
"""Single forwards of each size."""


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
        bench.answers.run(run)
    return bench.result_beside_peer() if peer else bench.result()


class _Bench:
    def __init__(
        self, config: ModelConfig, wanted: str, wishes: Wishes, threads: int | None
    ) -> None:
        self._wishes, self._threads = wishes, threads
        self._subject = random_subject(config, wanted, threads)
        self._small = random_subject(draft_shape(config), DRAFT_FORMAT, threads, seed=1)
        self._target, self._draft = self._subject.decoder, self._small.decoder
        drafting = wishes.mode is not Mode.PLAIN
        self.answers = AnswersInTurns(self._target, self._draft if drafting else None, wishes)

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
        answers, draft = self.answers, self.answers.drafting_seconds
        acceptance = self._wishes.acceptance
        return ShapeSpeed(
            plain_tokens_per_s=answers.plain_tokens_per_s,
            auto=answers.auto,
            by_depth=answers.by_depth,
            verify=verify,
            draft=draft,
            attainable=None if draft is None else attainable(verify, draft, acceptance),
            exact=answers.exact,
            memory=Memory(
                weights=self._target.weight_bytes,
                kv=answers.state.nbytes,
                draft_weights=self._draft.weight_bytes,
                draft_kv=answers.draft_states.nbytes if answers.draft_states else 0,
            ),
            signature=self._target.signature,
            peer=peer,
        )
