"""What planning takes for the sizes of native allocations is what is allocated."""

from __future__ import annotations

import ctypes as c
import gc
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from head_models import HEADS, random_features

from engine.backend.ledger import Account, Ledger, Purpose
from engine.backend.native.library import DraftingStruct, library
from engine.backend.native.pool import ThreadPool
from engine.backend.native.sampling import NativeDraws
from engine.backend.native.segment import NativeBackend, NativeSegment
from engine.backend.native.workspace import (
    DEPTH,
    PENDING,
    WIDTH,
    drafting_bytes,
    drawing_bytes,
    scratch_bytes,
    segment_bytes,
)
from engine.backend.round import Budget, DraftRequest, Ranking, VerifyRequest
from engine.backend.step import Step
from engine.bench.shapes import shape
from engine.errors import OutOfMemory
from engine.model.config import Experts, ModelConfig
from engine.model.tensors import expected_tensors
from engine.model.weights.random_weights import RandomWeights
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

_USUAL = shape("qwen2.5-0.5b")
_BLOCK = replace(_USUAL.typical, heads=6, kv_heads=2, head_dim=24, inner=200)
SMALL = replace(_USUAL, hidden_size=96, vocab_size=1000, blocks=(_BLOCK,) * _USUAL.num_layers)
EXPERTS = Experts(count=10, used=3, intermediate_size=72, normalise=True)


def configs() -> Iterator[ModelConfig]:
    """Dense, a mixture, both."""
    one = SMALL.blocks[0]
    blocks = {"dense": (one, one), "mixture": (replace(one, experts=EXPERTS),) * 2}
    blocks["both"] = (blocks["dense"][0], blocks["mixture"][0])
    for each in blocks.values():
        yield replace(SMALL, blocks=each)
    yield from HEADS.values()


def compiled(config: ModelConfig, *, head: bool = True) -> tuple[NativeSegment, Ledger]:
    ledger = Ledger("cpu", "Memory")
    backend = NativeBackend(None, ThreadPool(1), Account(ledger, "target"))
    blocks = range(config.num_layers)
    weights = RandomWeights(config, dict.fromkeys(expected_tensors(config), "F16"))
    return backend.compile(config, weights, blocks, embed=True, head=head), ledger


def held(ledger: Ledger, purpose: Purpose) -> int:
    return sum(line.nbytes for line in ledger.lines() if line.purpose is purpose)


@pytest.mark.parametrize("config", [*configs()])
def test_scratch(config: ModelConfig) -> None:
    segment, _ = compiled(config)
    for rows in (1, 7, 16, 17, 64, 300):
        wanted = library().dt_scratch_bytes(segment.struct, rows)
        assert scratch_bytes(config, config.blocks, min(rows, 64)) == wanted


@pytest.mark.parametrize(("head", "slots"), [(True, 200), (False, 64), (True, 5000)])
def test_segments_and_caches(head: bool, slots: int) -> None:
    config = replace(SMALL, blocks=SMALL.blocks[:2])
    segment, ledger = compiled(config, head=head)
    cache = segment.new_cache(slots)
    work = segment_bytes(config, config.blocks, head=head, slots=slots)
    assert held(ledger, Purpose.WORKSPACE) == work
    assert held(ledger, Purpose.KV) == cache.nbytes
    del cache
    assert held(ledger, Purpose.KV) == 0


@pytest.mark.parametrize("config", HEADS.values(), ids=HEADS)
def test_heads(config: ModelConfig) -> None:
    """Working memory, keys, weights: everything that a head holds."""
    segment, ledger = compiled(config)
    cache = segment.new_cache(300)
    work = segment_bytes(config, config.blocks, head=True, slots=300)
    assert held(ledger, Purpose.WORKSPACE) == work
    assert held(ledger, Purpose.KV) == cache.nbytes
    stored = sum(prod(shape) for shape in expected_tensors(config).values()) * 2
    assert stored <= segment.weight_bytes <= held(ledger, Purpose.WEIGHTS) < 1.5 * stored


@pytest.mark.parametrize("taps", [(), (0,), (0, 1)], ids=str)
def test_taps(taps: tuple[int, ...]) -> None:
    """They take memory once, in forwards and in verifications."""
    config = replace(SMALL, blocks=SMALL.blocks[:2])
    segment, ledger = compiled(config)
    cache = segment.new_cache(700)
    for rows in (5, 300, 2):
        step = Step(range(rows), [*range(-1, rows - 1)], 0, (), taps)
        assert set(segment.run(step, cache, None).taps) == set(taps)
    work = segment_bytes(config, config.blocks, head=True, slots=700, taps=len(taps))
    assert held(ledger, Purpose.WORKSPACE) == work
    draws = Sampler(SamplingParams(temperature=0)).native(config.vocab_size)
    assert draws is not None
    for nodes in (1, 9):
        tree = [*range(nodes)], [*range(-1, nodes - 1)]
        segment.verify(cache, 0, draws, VerifyRequest(*tree, [1], limit=2), taps=taps)
    assert held(ledger, Purpose.WORKSPACE) == work


DRAFTS = {"model": replace(SMALL, blocks=SMALL.blocks[:2]), **HEADS}


@pytest.mark.release(keep=12, reason="every shape")
@pytest.mark.parametrize("config", DRAFTS.values(), ids=DRAFTS)
@pytest.mark.parametrize(("depth", "width"), [(1, 1), (4, 1), (3, 8), (7, 10)])
def test_drafts(config: ModelConfig, depth: int, width: int) -> None:
    segment, ledger = compiled(config)
    features = random_features(config, 3) if config.fusion else None
    struct = DraftingStruct(pending=PENDING, depth=depth, width=width)
    needed = library().dt_draft_bytes(segment.struct, c.byref(struct))
    assert 0 <= drafting_bytes(config, depth, width) - needed < 4096
    before, cache = held(ledger, Purpose.WORKSPACE), segment.new_cache(64)
    ranking, budget = Ranking(0.0, 0, True), Budget(8, depth, width)
    rotations = held(ledger, Purpose.WORKSPACE) - before
    segment.draft(cache, 0, 64, DraftRequest([1, 2, 3], ranking, budget, features))
    grown = held(ledger, Purpose.WORKSPACE) - before - rotations
    assert grown == drafting_bytes(config, max(depth, DEPTH), max(width, WIDTH))


def test_verification() -> None:
    config = replace(SMALL, blocks=SMALL.blocks[:2])
    segment, ledger = compiled(config)
    cache, before = segment.new_cache(64), held(ledger, Purpose.WORKSPACE)
    draws = Sampler(SamplingParams(temperature=0)).native(config.vocab_size)
    assert draws is not None
    segment.verify(cache, 0, draws, VerifyRequest([1, 2], [-1, 0], [1], 2))
    assert held(ledger, Purpose.WORKSPACE) == before, "its results lie where those of forwards do"


def test_a_refused_larger_tree_leaves_the_room_there_is() -> None:
    config = replace(SMALL, blocks=SMALL.blocks[:2])
    segment, ledger = compiled(config)
    cache = segment.new_cache(200)
    draws = Sampler(SamplingParams(temperature=0)).native(config.vocab_size)
    assert draws is not None

    def drawn(nodes: int) -> int:
        tree = [1, *range(2, nodes + 1)], [-1, *[0] * (nodes - 1)]
        return segment.verify(cache, 0, draws, VerifyRequest(*tree, [1], limit=2))[0].tokens[0]

    token, held_before = drawn(20), ledger.held
    for spare in (0, 2 * 80 * config.hidden_size * 4):  # there, logits are refused
        ledger.budget = held_before + spare
        for _ in range(2):
            with pytest.raises(OutOfMemory):
                drawn(80)
        gc.collect()
        assert ledger.held == held_before
        assert drawn(20) == token
    ledger.budget = None
    assert drawn(80) == token


@pytest.mark.parametrize(
    ("vocab", "filtered", "penalised"), [*product((300, 151936), (False, True), (False, True))]
)
def test_draws(vocab: int, filtered: bool, penalised: bool) -> None:
    ledger = Ledger("cpu", "Memory")
    params = SamplingParams(
        temperature=1, top_k=20 if filtered else 0, top_p=1,
        repetition_penalty=1.1 if penalised else 1,
    )  # fmt: skip
    draws = NativeDraws(params, vocab, account=Account(ledger, "target"))
    assert ledger.held == drawing_bytes(vocab, filtered=filtered, penalised=penalised)
    del draws
    assert ledger.held == 0


def test_a_block_of_its_own_kind_is_known() -> None:
    own = replace(_BLOCK, rope=None)
    assert scratch_bytes(SMALL, [own], 1) == scratch_bytes(SMALL, [_BLOCK], 1)
