"""Speculative decoding on a published shape: scripted acceptance, real times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.backend.decoder import Decoder
from engine.bench.forward import DecoderSide, Side, forwards_in_turns, time_forwards
from engine.bench.memory_use import MemoryUse, memory_uses
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import PeerSettings, llama_cpp
from engine.bench.placement import Placed, Placing, build, plan_models
from engine.bench.random_model import SMALL, RandomModel, RandomPair, random_draft
from engine.bench.recipes import SHAPE_FORMAT
from engine.bench.shape_answers import ShapeAnswers, ShapeOptions, Speed
from engine.bench.shapes import draft_shape, shape
from engine.commands import Mode
from engine.hardware.accounting import MemoryWatch, held_by_driver, torch_counters
from engine.hardware.memory import give_memory_back
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.plan.plan import Plan
from engine.plan.throughput import expected_tokens

_FORWARDS = 2
"""Single forwards of each size, for every run."""


@dataclass(frozen=True, slots=True)
class Attainable:
    """The best chain: `depth` drafted tokens a round (0: none), and the speed they bring."""

    depth: int
    tokens_per_s: float
    speedup: float


@dataclass(frozen=True, slots=True)
class PeerSpeed:
    """Times of llama.cpp's forwards, and the best speed that they would allow.

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
    options: ShapeOptions,
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
    placed, watch = _built(plan, machine, pair, threads)
    answers = ShapeAnswers(placed.target, placed.draft, options, placed.plan.expected)
    for run in range(options.runs):
        answers.run(run)
    memory = _memory(placed, machine, watch)  # before single forwards take a state of their own
    auto, by_depth, draft = answers.auto, answers.by_depth, answers.drafting_seconds
    answers.let_go()
    if peer:
        verify, beside = _forwards_beside_peer(pair, placed.target, options, threads)
    else:
        runs = _FORWARDS * options.runs
        verify, beside = time_forwards(placed.target, options.rows, runs=runs).seconds, None
    return ShapeSpeed(
        plan=placed.plan,
        plain_tokens_per_s=answers.plain_tokens_per_s,
        auto=auto,
        by_depth=by_depth,
        verify=verify,
        draft=draft,
        attainable=None if draft is None else attainable(verify, draft, options.acceptance),
        exact=answers.exact,
        memory=memory,
        signature=placed.target.signature,
        peer=beside,
    )


def _forwards_beside_peer(
    pair: RandomPair, target: Decoder, options: ShapeOptions, threads: int | None
) -> tuple[dict[int, float], PeerSpeed]:
    """Seconds of our forwards by their rows, and llama.cpp's of target and draft."""
    large, small, runs = pair.target, pair.draft, _FORWARDS * options.runs
    with llama_cpp(small.config, small.weights(as_stored=True), threads) as peer:
        draft = forwards_in_turns([peer], (1,), runs)[0].seconds[1]
    with llama_cpp(large.config, large.weights(as_stored=True), threads) as peer:
        sides: list[Side] = [DecoderSide(target), peer]
        ours, theirs = forwards_in_turns(sides, options.rows, runs)
    best = attainable(theirs.seconds, draft, options.acceptance)
    return ours.seconds, PeerSpeed(theirs.seconds, draft, best, peer.settings)


def _built(
    plan: Plan, machine: Machine, pair: RandomPair, threads: int | None
) -> tuple[Placed, MemoryWatch]:
    """Build the models, and note the memory before, to compare with.

    Raises:
        Absent: a device is not here.
        OutOfMemory: a device's budget does not do.
    """
    _take_first_steps(machine)
    watch = MemoryWatch(torch_counters(machine))
    return build(plan, machine, pair, threads), watch


def _memory(placed: Placed, machine: Machine, watch: MemoryWatch) -> dict[str, MemoryUse]:
    """Return the memory use of all devices; unused memory is given back before."""
    give_memory_back()
    ledgers = [device.ledger for device in placed.devices.values()]
    compared, driver = watch.compare(ledgers), held_by_driver(machine)
    return memory_uses(placed.plan, ledgers, compared, driver)


def _take_first_steps(machine: Machine) -> None:
    """A very small model answers, so that no code is loaded later and counted as a model's."""
    model = RandomModel("first", draft_shape(shape("llama2-7b")), SHAPE_FORMAT)
    pair = RandomPair(model, random_draft(model, SMALL))
    options = ShapeOptions(tokens=4, runs=1, mode=Mode.CPU, depths=(1,), prompt=4)
    plan = plan_models((machine, Speeds({})), pair, Placing(Mode.CPU), options)
    placed = build(plan, machine, pair, threads=1)
    ShapeAnswers(placed.target, placed.draft, options, placed.plan.expected).run(0)
    del placed
    give_memory_back()


def attainable(verify: Mapping[int, float], draft: float, acceptance: float) -> Attainable:
    """The best that any runtime with these times could do by drafting chains of fixed length.

    Args:
        verify: seconds of a target forward by its rows, 1 among them; between measured sizes a
            straight line is assumed.
        draft: seconds to draft one token.
        acceptance: probability that a drafted token is accepted once all before it were.
    """
    sizes = sorted(verify)
    times = [verify[size] for size in sizes]
    plain = 1 / verify[1]

    def speed(depth: int) -> float:
        seconds = float(np.interp(depth + 1, sizes, times)) + depth * draft
        return expected_tokens(depth, acceptance) / seconds

    best = max(range(sizes[-1]), key=speed)
    return Attainable(best, speed(best), speed(best) / plain)
