"""Dovetail is lossless: wherever a head is, whatever its kind, the text stays the target's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from full_models import RandomWeights
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from head_models import HEADS, HeadWeights, small_target
from simulated_models import instant, on_simulated
from split_models import cut

from engine.backend.cpu import CpuDevice
from engine.backend.decoder import Decoder
from engine.backend.ledger import unlimited
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget
from engine.backend.sequence import SequenceState
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.commands import WeightFormat
from engine.machine.facts import CPU
from engine.request import SamplingParams
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import HeadDrafter
from engine.speculative.sampler import Sampler

CONTEXT = 192
TARGET = small_target()
WEIGHTS = RandomWeights(TARGET)


class LevelByLevel(Decoder):
    """The same segments without the one call."""

    @property
    def drafts_trees(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Place:
    """Where the target's blocks are cut (None: not at all), and where the head is."""

    borders: tuple[int, ...] | None
    head: str


PLACES = {
    "all native": Place(None, "native"),
    "head on the accelerator": Place(None, "simulated"),
    "head level by level": Place(None, "level by level"),
    "head on torch": Place(None, "torch"),
    "in two on the CPU": Place((1,), "native"),
    "split": Place((0, 2), "simulated"),
    "all on the accelerator": Place((), "simulated"),
}


def pair(kind: str, place: Place) -> tuple[Decoder, Decoder]:
    """A fresh target that feeds a head of the kind, and the head."""
    device, config = SimulatedDevice(instant()), HEADS[kind]
    match place.borders:
        case None:
            target = Decoder.build(TARGET, WEIGHTS, NativeBackend(Format.Q8))
        case (1,):
            backends = {CPU: CpuDevice().backend(WeightFormat.Q8, "target")}
            target = Decoder.placed(TARGET, WEIGHTS, cut(TARGET.num_layers, (1,)), backends)
        case borders:
            target = on_simulated(TARGET, WEIGHTS, device, borders)
    assert config.fusion is not None
    target.feed(config.fusion, unlimited())
    weights = HeadWeights(config, WEIGHTS)
    match place.head:
        case "simulated":
            head = on_simulated(config, weights, device, owner="draft")
        case "torch":
            head = Decoder.build(config, weights, TorchCpuBackend())
        case how:
            head = Decoder.build(config, weights, NativeBackend(Format.Q8))
            if how == "level by level":
                head = LevelByLevel(head.config, head.segments, head.ids)
    return target, head


def drafter(head: Decoder, context: int = CONTEXT) -> HeadDrafter:
    return HeadDrafter(head, PrefixCache(head, context, 1 << 28))


def plainly(prompt: list[int], params: SamplingParams, **wishes: Any) -> list[int]:
    """What the target alone writes, in one piece and feeding nobody."""
    target = Decoder.build(TARGET, WEIGHTS, NativeBackend(Format.Q8))
    return decode(target, prompt, params, context=CONTEXT, **wishes).tokens


def with_answers(head: Decoder, answer: list[int], prompt: list[int], seed: int) -> Drafter:
    """The head beside one that knows the answer: random heads are hardly ever right."""
    rng = np.random.default_rng(seed)
    oracle = OracleDrafter(answer, len(prompt), TARGET.vocab_size, rng)
    return CombinedDrafter([LookupDrafter(), drafter(head, CONTEXT - 30), oracle])


def some_prompt(seed: int, length: int = 60) -> list[int]:
    return np.random.default_rng(seed).integers(3, TARGET.vocab_size, length).tolist()


@pytest.mark.release(keep=5, reason="every head")
@pytest.mark.parametrize("sampling", ["greedy", "sampled filtered"])
@pytest.mark.parametrize("kind", HEADS)
def test_every_kind_of_head(kind: str, sampling: str) -> None:
    params, prompt = SAMPLINGS[sampling], some_prompt(1)
    expected = plainly(prompt, params)
    target, head = pair(kind, PLACES["all native"])
    rng = np.random.default_rng(2)
    found = decode(
        target, prompt, params,
        drafter=drafter(head), controller=RandomController(rng), context=CONTEXT,
    )  # fmt: skip
    assert found.tokens == expected
    assert sum(done.drafted for done in found.rounds) > 100


@pytest.mark.release(keep=4, reason="every placement")
@pytest.mark.parametrize("sampling", ["greedy", "sampled"])
@pytest.mark.parametrize("kind", ["dgf 2", "eagle3 reduced"])
@pytest.mark.parametrize("place", PLACES)
def test_wherever_target_and_head_are(place: str, kind: str, sampling: str) -> None:
    """With stops, limits, the end of the context, and lookup beside the head."""
    params, prompt = SAMPLINGS[sampling], some_prompt(3)
    prompt += prompt[-9:]
    free = plainly(prompt, params, max_tokens=40)
    target, head = pair(kind, PLACES[place])
    ends: list[dict[str, Any]] = [
        {"max_tokens": 40},
        {"max_tokens": 7},
        {"max_tokens": 40, "stop_ids": [free[20]]},
        {"max_tokens": None},
    ]
    for wishes in ends:
        expected = plainly(prompt, params, **wishes)
        found = decode(
            target, prompt, params,
            drafter=with_answers(head, expected, prompt, seed=4),
            controller=RandomController(np.random.default_rng(4)),
            context=CONTEXT, **wishes,
        )  # fmt: skip
        assert found.tokens == expected, wishes
        assert len(expected) < 10 or len(found.rounds) < 0.8 * len(expected)


def trees(
    target: Decoder, head: HeadDrafter, state: SequenceState, prompt: Sequence[int]
) -> list[object]:
    """The trees of a few greedy rounds."""
    found: list[object] = []
    noted = head.propose

    def propose(context: DraftContext, budget: Budget) -> object:
        found.append(noted(context, budget))
        return found[-1]

    head.propose = propose  # type: ignore[method-assign, assignment]
    decode(
        target, prompt, SamplingParams(),
        drafter=head, state=state, max_tokens=24, context=CONTEXT,
        controller=RandomController(np.random.default_rng(5)),
    )  # fmt: skip
    del head.propose  # type: ignore[method-assign]
    return found


@pytest.mark.release(keep=3, reason="every head in every placement")
@pytest.mark.parametrize("place", ["all native", "split", "head on torch"])
@pytest.mark.parametrize("kind", ["dgf 3", "linear with bias", "eagle3 reduced"])
def test_a_second_turn_drafts_the_trees_of_a_fresh_run(kind: str, place: str) -> None:
    target, head = pair(kind, PLACES[place])
    pool, kept = PrefixCache(target, CONTEXT, 1 << 28), drafter(head)
    first = some_prompt(6)
    trees(target, kept, pool.take(first), first)
    for prompt in ([*first, *some_prompt(7, 20)], [*first[:33], *some_prompt(8, 30)], first):
        again = trees(target, kept, pool.take(prompt), prompt)
        fresh = trees(target, drafter(head), target.new_state(CONTEXT), prompt)
        assert len(again) > 5
        assert again == fresh


@pytest.mark.release(keep=3, reason="every head")
@pytest.mark.parametrize("sampling", ["greedy", "sampled"])
@pytest.mark.parametrize("kind", ["dgf 2", "linear", "eagle3 reduced"])
def test_features_of_a_verified_path_are_those_of_a_forward(kind: str, sampling: str) -> None:
    """In one call or level by level, in one segment or in several, on one device or two."""
    params, prompt, stores = SAMPLINGS[sampling], some_prompt(9), []
    answer = plainly(prompt, params)
    for place in ("all native", "in two on the CPU", "split", "all on the accelerator"):
        target, head = pair(kind, PLACES[place])
        run = decode(
            target, prompt, params,
            drafter=with_answers(head, answer, prompt, seed=5),
            controller=RandomController(np.random.default_rng(1)),
            context=CONTEXT,
        )  # fmt: skip
        assert any(done.accepted > 1 for done in run.rounds)
        assert run.state.features is not None
        stores.append(run.state.features.rows(0, len(run.state)))
        fresh = target.new_state(CONTEXT)
        target.forward(fresh, list(run.state.tokens), logit_rows=())
        assert fresh.features is not None
        assert np.array_equal(stores[-1], fresh.features.rows(0, len(run.state))), place
    assert all(np.array_equal(stores[0], store) for store in stores)


@pytest.mark.parametrize("kind", ["dgf 2", "linear", "eagle3 reduced"])
def test_the_targets_noise_is_that_of_the_token_foreseen(kind: str) -> None:
    """At a temperature all ways to draft rank alike, at the position that the target draws for."""
    params, prompt = SAMPLINGS["sampled"], some_prompt(10)
    found = []
    for place in ("all native", "head on the accelerator", "head level by level"):
        target, head = pair(kind, PLACES[place])
        state = target.new_state(CONTEXT)
        target.forward(state, prompt, logit_rows=())
        state.commit(range(len(prompt)))
        tokens = [*prompt, 5]
        context = DraftContext(tokens, Sampler(params), lambda: False, state.features)
        each = drafter(head)
        each.begin(context)
        each.read(context, len(context.tokens))
        found.append(each.propose(context, Budget(15, 4, 4)))
    assert found[0] == found[1]
    assert found[0].tokens == found[2].tokens
    assert found[0].parents == found[2].parents
