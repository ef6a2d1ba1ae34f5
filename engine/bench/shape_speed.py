"""Speculative decoding on a published shape: scripted acceptance, real times."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bench.answers import AnswersInTurns, Speed, Wishes
from engine.bench.attainable import Attainable, attainable
from engine.bench.drafts import SMALL, RandomPair, random_draft
from engine.bench.forward import DecoderSide, Side, forwards_in_turns, time_forwards
from engine.bench.memory_use import MemoryUse, memory_uses
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import PeerSettings, llama_cpp
from engine.bench.placement import Placed, Placing, build, plan_models
from engine.bench.random_model import RandomModel
from engine.bench.recipes import SHAPE_FORMAT
from engine.bench.shapes import draft_shape, shape
from engine.commands import Mode
from engine.hardware.accounting import MemoryWatch, held_by_driver, torch_counters
from engine.hardware.memory import give_memory_back
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.plan.plan import Plan

_FORWARDS = 2
"""Single forwards of each size, for every answer each way."""


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
    """All that was measured, and what was planned. Times in seconds.

    Attributes:
        auto: what the controller chose; None where the plan drafts nothing.
        memory: by device.
    """

    plan: Plan
    plain_tokens_per_s: float
    auto: Speed | None
    by_depth: dict[int, Speed]
    verify: dict[int, float]
    draft: float | None
    attainable: Attainable | None
    exact: bool
    memory: dict[str, MemoryUse]
    signature: str
    peer: PeerSpeed | None = None

    @property
    def best_depth(self) -> int | None:
        """The fixed depth with the best speed-up."""
        return max(self.by_depth, key=lambda depth: self.by_depth[depth].speedup, default=None)


def measure_shape(
    pair: RandomPair,
    wishes: Wishes,
    plan: Plan,
    machine: Machine,
    *,
    threads: int | None = None,
    peer: bool = False,
) -> ShapeSpeed:
    """Decode a text plainly, at every depth and as the controller likes, in turns, as planned.

    With `peer`, llama.cpp's forwards on the CPU are timed in turns with ours.

    Raises:
        Absent: there is no llama.cpp here, or no such device.
    """
    if peer:
        find_interpreter()  # before minutes go into a model
    placed, watch = watched(plan, machine, pair, threads)
    bench = _Bench(pair, wishes, placed, machine, watch, threads)
    for run in range(wishes.runs):
        bench.answers.run(run)
    return bench.result_beside_peer() if peer else bench.result()


def single_forwards(wishes: Wishes) -> int:
    """How often each size is timed."""
    return _FORWARDS * wishes.runs


def watched(
    plan: Plan, machine: Machine, pair: RandomPair, threads: int | None
) -> tuple[Placed, MemoryWatch]:
    """The models, built, and what their memory can be compared with.

    Raises:
        Absent: a device is not here.
        OutOfMemory: a device's budget does not do.
    """
    _take_first_steps(machine)
    watch = MemoryWatch(torch_counters(machine))
    return build(plan, machine, pair, threads), watch


def memory_now(placed: Placed, machine: Machine, watch: MemoryWatch) -> dict[str, MemoryUse]:
    """Of all devices; what nobody uses is given back before."""
    give_memory_back()
    ledgers = [device.ledger for device in placed.devices.values()]
    compared, driver = watch.compare(ledgers), held_by_driver(machine)
    return memory_uses(placed.plan, ledgers, compared, driver)


def _take_first_steps(machine: Machine) -> None:
    """A very small model answers, so that no code is loaded later and counted as a model's."""
    model = RandomModel("first", draft_shape(shape("llama2-7b")), SHAPE_FORMAT)
    pair = RandomPair(model, random_draft(model, SMALL))
    wishes = Wishes(tokens=4, runs=1, mode=Mode.CPU, depths=(1,), prompt=4)
    plan = plan_models((machine, Speeds({})), pair, Placing(Mode.CPU), wishes)
    placed = build(plan, machine, pair, threads=1)
    AnswersInTurns(placed.target, placed.draft, wishes, placed.plan.expected).run(0)
    del placed
    give_memory_back()


class _Bench:
    def __init__(
        self,
        pair: RandomPair,
        wishes: Wishes,
        placed: Placed,
        machine: Machine,
        watch: MemoryWatch,
        threads: int | None,
    ) -> None:
        self._pair, self._wishes, self._placed = pair, wishes, placed
        self._machine = machine
        self._watch, self._threads = watch, threads
        self.answers = AnswersInTurns(placed.target, placed.draft, wishes, placed.plan.expected)

    def result(self) -> ShapeSpeed:
        """Everything measured so far, and the cost of single forwards."""
        memory = self._memory()
        self.answers.let_go()
        runs = single_forwards(self._wishes)
        times = time_forwards(self._placed.target, self._wishes.rows, runs=runs)
        return self._result(memory, times.seconds)

    def result_beside_peer(self) -> ShapeSpeed:
        """The same, llama.cpp's forwards of target and draft timed as well."""
        memory = self._memory()
        self.answers.let_go()
        target, small = self._pair.target, self._pair.draft
        runs = single_forwards(self._wishes)
        with llama_cpp(small.config, small.weights(as_stored=True), self._threads) as peer:
            draft = forwards_in_turns([peer], (1,), runs)[0].seconds[1]
        weights = target.weights(as_stored=True)
        with llama_cpp(target.config, weights, self._threads) as peer:
            sides: list[Side] = [DecoderSide(self._placed.target), peer]
            ours, theirs = forwards_in_turns(sides, self._wishes.rows, runs)
        best = attainable(theirs.seconds, draft, self._wishes.acceptance)
        beside = PeerSpeed(theirs.seconds, draft, best, peer.settings)
        return self._result(memory, ours.seconds, beside)

    def _memory(self) -> dict[str, MemoryUse]:
        """Before single forwards take a state of their own."""
        return memory_now(self._placed, self._machine, self._watch)

    def _result(
        self,
        memory: dict[str, MemoryUse],
        verify: dict[int, float],
        peer: PeerSpeed | None = None,
    ) -> ShapeSpeed:
        answers, draft = self.answers, self.answers.drafting_seconds
        acceptance = self._wishes.acceptance
        return ShapeSpeed(
            plan=self._placed.plan,
            plain_tokens_per_s=answers.plain_tokens_per_s,
            auto=answers.auto,
            by_depth=answers.by_depth,
            verify=verify,
            draft=draft,
            attainable=None if draft is None else attainable(verify, draft, acceptance),
            exact=answers.exact,
            memory=memory,
            signature=self._placed.target.signature,
            peer=peer,
        )
