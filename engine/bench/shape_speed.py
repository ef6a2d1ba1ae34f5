"""Speculative decoding on a published shape, placed as planned: scripted acceptance, real times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.backend.ledger import Account, Ledger, as_planned
from engine.backend.round import Round
from engine.backend.segment import Backend, Share
from engine.backend.shared import NO_LOAN, Loan
from engine.bench.forward import DecoderSide, Side, forwards_in_turns
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import PeerSettings, llama_cpp
from engine.bench.random_model import SMALL, RandomModel, RandomPair, random_draft
from engine.bench.recipes import SHAPE_FORMAT
from engine.bench.shape_answers import FirstToken, ShapeAnswers, ShapeOptions, Speed
from engine.bench.shapes import draft_shape, shape
from engine.commands import ALL_LAYERS, Mode, WeightFormat
from engine.devices.memory import (
    MemoryComparison,
    MemoryWatch,
    give_memory_back,
    held_by_driver,
    torch_counters,
    touched,
)
from engine.loading.devices import DeviceManager, whole
from engine.machine.facts import CPU, Machine
from engine.machine.memory import DeviceMemory
from engine.machine.speeds import Speeds
from engine.plan.facts import DraftFacts, Wish
from engine.plan.plan import Plan
from engine.plan.planner import plan
from engine.plan.throughput import expected_tokens

Known = tuple[Machine, Speeds]
"""A machine, and how fast its devices are."""
_FORWARDS = 2
"""Single forwards of each size, for every run."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes on one device.

    Attributes:
        predicted: by the plan.
        ledger: the same purposes, by the allocators.
        touched: what of that the system has handed out by now; caches grow into the rest.
        measured: by how much our process has grown since before the models came, as the system
            counts; None where nobody tells.
        peak: the most that the ledger ever held at once.
        budget: what it may hold; None is no limit.
        driver: all that our process holds there, as NVIDIA's driver counts, to be held against the
            whole of `ledger`; None where it does not tell.
    """

    predicted: DeviceMemory
    ledger: DeviceMemory
    touched: int
    measured: int | None
    peak: int
    budget: int | None
    driver: int | None = None

    @property
    def kept_to_budget(self) -> bool:
        """True unless somebody knows of a moment at which more was held."""
        return self.budget is None or max(self.peak, self.driver or 0) <= self.budget


def memory_uses(
    plan: Plan,
    ledgers: Collection[Ledger],
    compared: Mapping[str, MemoryComparison],
    driver: Mapping[str, int],
) -> dict[str, MemoryUse]:
    """Return the memory use of every device that has a ledger, the CPU first."""
    uses = {}
    for ledger in sorted(ledgers, key=lambda ledger: (ledger.device != CPU, ledger.device)):
        device, found = ledger.device, compared.get(ledger.device)
        uses[device] = MemoryUse(
            predicted=plan.on(device),
            ledger=as_planned(device, ledger.lines()),
            touched=touched(ledger),
            measured=None if found is None else found.measured,
            peak=ledger.peak,
            budget=ledger.budget,
            driver=driver.get(device),
        )
    return uses


@dataclass(frozen=True, slots=True)
class Placing:
    """The wished placement of a target and its draft; sizes in bytes.

    Attributes:
        layers_on_gpu: exactly so many of the target's blocks, or ALL_LAYERS.
    """

    mode: Mode = Mode.AUTO
    vram: int | None = None
    layers_on_gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Both models built; without a draft where the plan has none."""

    plan: Plan
    devices: Mapping[str, Device]
    target: Decoder
    draft: Decoder | None


def plan_models(known: Known, pair: RandomPair, placing: Placing, options: ShapeOptions) -> Plan:
    """Plan where the models run, for the middle of the answers that are wished for.

    Raises:
        UserFixable: it cannot be done.
    """
    mode, layers = placing.mode, placing.layers_on_gpu
    target = pair.target
    draft = DraftFacts(pair.draft.facts, options.acceptance, options.width(pair.draft.config))
    wish = Wish(
        mode,
        options.context,
        lookup=False,
        forced=mode not in (Mode.AUTO, Mode.PLAIN),
        vram=placing.vram,
        layers_on_gpu=target.config.num_layers if layers == ALL_LAYERS else layers,
        parallel=mode is Mode.DUO,
        tokens=options.prompt + options.tokens // 2,
        kv=target.kv,
    )
    return plan(*known, target.facts, [] if mode is Mode.PLAIN else [draft], wish)


def build(plan: Plan, machine: Machine, pair: RandomPair, threads: int | None = None) -> Placed:
    """Open the plan's devices and fill them.

    Raises:
        Absent: a device is not here.
        OutOfMemory: a device's budget does not do.
    """
    devices = DeviceManager().open(machine, replace(plan, threads=threads) if threads else plan)
    theirs = _backends(plan.target, devices, "target", pair.target)
    target = _decoder(pair.target, plan.target, theirs)
    if plan.draft is None or plan.draft_device is None:
        return Placed(plan, devices, target, None)
    if (fusion := pair.draft.config.fusion) is not None:
        target.feed(fusion, Account(devices[CPU].ledger, "target"))
    shares = whole(pair.draft.config.num_layers, plan.draft_device)
    own = _backends(shares, devices, "draft", pair.draft, theirs)
    return Placed(plan, devices, target, _decoder(pair.draft, shares, own))


def _backends(
    shares: Sequence[Share],
    devices: Mapping[str, Device],
    owner: str,
    model: RandomModel,
    lenders: Mapping[str, Backend] | None = None,
) -> dict[str, Backend]:
    """Return the backends by device; a head's have what the target's hold on the same device."""

    def loan(device: str) -> Loan:
        lent = model.lent
        return Loan(lent, (lenders or {}).get(device)) if lent else NO_LOAN

    names = dict.fromkeys(share.device for share in shares)
    return {
        name: devices[name].backend(WeightFormat.STORED, owner, loan(name), model.kv)
        for name in names
    }


def _decoder(
    model: RandomModel, shares: Sequence[Share], backends: Mapping[str, Backend]
) -> Decoder:
    return Decoder.placed(model.config, model.weights(), shares, backends)


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
        rounds: of the last answer that it wrote.
        first_token: from an unread prompt to the first token.
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
    rounds: Sequence[Round]
    first_token: FirstToken
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
    auto, by_depth, draft = answers.auto, answers.by_depth, answers.drafting_seconds
    rounds, first_token = answers.rounds, answers.first_token_seconds()
    memory = _memory(placed, machine, watch)  # before single forwards take a state of their own
    answers.let_go()
    if peer:
        verify, beside = _forwards_beside_peer(pair, placed.target, options, threads)
    else:
        runs = _FORWARDS * options.runs
        (verify,) = forwards_in_turns([DecoderSide(placed.target)], options.rows, runs)
        beside = None
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
        rounds=rounds,
        first_token=first_token,
        peer=beside,
    )


def _forwards_beside_peer(
    pair: RandomPair, target: Decoder, options: ShapeOptions, threads: int | None
) -> tuple[dict[int, float], PeerSpeed]:
    """Seconds of our forwards by their rows, and llama.cpp's of target and draft."""
    large, small, runs = pair.target, pair.draft, _FORWARDS * options.runs
    with llama_cpp(small.config, small.weights(as_stored=True), threads) as peer:
        draft = forwards_in_turns([peer], (1,), runs)[0][1]
    with llama_cpp(large.config, large.weights(as_stored=True), threads) as peer:
        sides: list[Side] = [DecoderSide(target), peer]
        ours, theirs = forwards_in_turns(sides, options.rows, runs)
    best = attainable(theirs, draft, options.acceptance)
    return ours, PeerSpeed(theirs, draft, best, peer.settings)


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
