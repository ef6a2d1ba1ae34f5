"""Feature heads in the native backend: the reference's numbers and trees, one arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from head_models import (
    HEADS,
    MTP,
    ROOT,
    HeadReference,
    HeadWeights,
    head_config,
    random_features,
    small_target,
)
from test_one_arithmetic import fingerprint

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format, Isa, instruction_sets, library
from engine.backend.native.matrix import pack_rows, unpack
from engine.backend.native.pool import ThreadPool
from engine.backend.native.segment import NativeBackend, NativeCache, NativeSegment
from engine.backend.noise import gumbel
from engine.backend.round import Budget, Drafted, DraftRequest, Ranking, VerifyRequest
from engine.backend.step import Step
from engine.backend.tree import TokenTree
from engine.model.config import ModelConfig
from engine.model.tensors import HEAD_IDS
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

ISAS = instruction_sets()
pytestmark = pytest.mark.usefixtures("isa_as_before")
every_head = pytest.mark.parametrize("config", HEADS.values(), ids=HEADS)
NATIVE = {**HEADS, "mtp": MTP}
"""With what the reference has no equations for; see tests/engine/loading/test_mtp.py."""
every_native_head = pytest.mark.parametrize("config", NATIVE.values(), ids=NATIVE)


@dataclass(frozen=True, slots=True)
class Rounded(HeadWeights):
    """The weights as a format keeps them."""

    fmt: Format = Format.F32
    pool: ThreadPool | None = None

    def float32(self, name: str) -> Floats:
        values = HeadWeights.float32(self, name)
        if values.ndim == 1:
            return values
        assert self.pool is not None
        return unpack(pack_rows(self.pool, values, self.fmt))


def native_head(config: ModelConfig, fmt: Format, pool: ThreadPool) -> Decoder:
    return Decoder.build(config, HeadWeights(config), NativeBackend(fmt, pool))


def tokens_of(config: ModelConfig, count: int) -> list[int]:
    return [(41 * i * i + 7 * i + 3) % config.vocab_size for i in range(count)]


def apart(found: Any, wanted: Sequence[Any]) -> float:
    expected = np.stack(wanted)
    return float(np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected))


# ---- parity ------------------------------------------------------------------------------------


MARGINS = {Format.F32: 0.004, Format.BF16: 0.004, Format.Q8: 0.06, Format.Q4: 0.06}
"""16-bit keys; activations in 8 bits, which differ from the reference's in every product."""


@pytest.mark.release(keep=6, reason="every head and format")
@every_head
@pytest.mark.parametrize("fmt", MARGINS, ids=lambda fmt: fmt.name)
def test_the_targets_features(config: ModelConfig, fmt: Format, pool: ThreadPool) -> None:
    reference = HeadReference(config, Rounded(config, fmt=fmt, pool=pool))
    tokens, features = tokens_of(config, 70), random_features(config, 70)
    reference.extend(tokens, features)
    head = native_head(config, fmt, pool)
    got = head.forward(head.new_state(100), tokens, features=features)
    assert apart(got.hidden, reference.hidden) < MARGINS[fmt]
    assert apart(got.logits, reference.logits) < MARGINS[fmt]


@every_head
def test_a_tree_on_its_own_features(config: ModelConfig, pool: ThreadPool) -> None:
    reference, head = (
        HeadReference(config, HeadWeights(config)),
        native_head(config, Format.F32, pool),
    )
    tokens, features = tokens_of(config, 9), random_features(config, 9)
    last = reference.extend(tokens, features)
    state = head.new_state(100)
    root = head.forward(state, tokens, features=features).hidden[-1:].copy()
    state.commit(range(9))
    first = [reference.add(token, last) for token in (5, 6, 7)]
    level = head.forward(state, [5, 6, 7], [ROOT] * 3, features=np.repeat(root, 3, axis=0))
    assert apart(level.logits, [reference.logits[pair] for pair in first]) < 0.01
    below = level.hidden[[2, 0]].copy()
    second = [reference.add(8, first[2]), reference.add(9, first[0])]
    level = head.forward(state, [8, 9], [2, 0], features=below)
    assert apart(level.logits, [reference.logits[pair] for pair in second]) < 0.02
    assert apart(level.hidden, [reference.hidden[pair] for pair in second]) < 0.02


def test_features_of_another_shape_are_refused(pool: ThreadPool) -> None:
    config = HEADS["eagle3"]
    head = native_head(config, Format.F32, pool)
    features = random_features(config, 3)
    for wrong in (None, features[:2], features[:, :-1]):
        with pytest.raises(ValueError, match="features"):
            head.forward(head.new_state(10), [1, 2, 3], features=wrong)


def test_a_head_is_one_segment(pool: ThreadPool) -> None:
    config, backend = HEADS["dgf 2"], NativeBackend(Format.F32, pool)
    with pytest.raises(ValueError, match="one segment"):
        backend.compile(config, HeadWeights(config), range(1), embed=True, head=True)


# ---- one arithmetic ----------------------------------------------------------------------------


@pytest.mark.release(keep=2, reason="every head")
@every_native_head
def test_one_hash(config: ModelConfig) -> None:
    """Chunks, a tree, instruction sets, threads: the same bits."""
    tokens, features = tokens_of(config, 130), random_features(config, 130)
    for fmt in (Format.F32, Format.Q4):
        found = set()
        for isa in ISAS:
            assert library().dt_use_isa(isa) == 0
            for threads, chunks in ((1, (130,)), (2, (7, 64)), (3, (1,) if isa else (64,))):
                head = native_head(config, fmt, ThreadPool(threads))
                found |= {bits(head, tokens, features, chunk) for chunk in chunks}
        assert len(found) == 1


def bits(head: Decoder, tokens: Sequence[int], features: Floats, chunk: int) -> str:
    state, results = head.new_state(200), []
    for start in range(0, len(tokens), chunk):
        piece = tokens[start : start + chunk]
        got = head.forward(state, piece, features=features[start : start + chunk])
        results += [*got.logits.copy(), *got.hidden.copy()] if chunk == 1 else []
        last = got.hidden[-1:].copy()
        state.commit(range(len(piece)))
    alone = head.forward(state, [5], features=last).hidden.copy()
    state.discard()
    together = head.forward(state, [9, 5, 5], [ROOT] * 3, features=np.repeat(last, 3, axis=0))
    np.testing.assert_array_equal(together.hidden[1:], np.repeat(alone, 2, axis=0))
    tail = head.forward(state, [7], [1], features=together.hidden[1:2].copy())
    return fingerprint(np.concatenate((alone[0], last[0], tail.logits[0])))


# ---- drafting ----------------------------------------------------------------------------------


Tree = tuple[list[int], list[int], list[float]]
GREEDY = Ranking(0.0, 0, share_noise=True)
SAMPLED = Ranking(0.9, 2**40 + 3, share_noise=True)


def drafted(
    head: Decoder,
    cache: NativeCache,
    tokens: Sequence[int],
    features: Floats,
    committed: int,
    ranking: Ranking,
    budget: Budget,
) -> Drafted:
    segment = head.segments[0]
    assert isinstance(segment, NativeSegment)
    rest = slice(committed, len(tokens))
    return segment.draft(
        cache, committed, 400, DraftRequest(tokens[rest], ranking, budget, features[rest])
    )


def new_cache(head: Decoder) -> NativeCache:
    cache = head.segments[0].new_cache(400)
    assert isinstance(cache, NativeCache)
    return cache


def grown(reference: HeadReference, last: int, root: int, ranking: Ranking, budget: Budget) -> Tree:
    """Tokens, parents and scores of the tree, level by level."""
    position = len(reference.path(last)) + 1
    nodes: list[tuple[int, int, float]] = [(root, -1, 0.0)]
    pair_of, beams = {0: last}, [0]
    for level in range(budget.depth):
        children = []
        for beam in beams:
            weights = weights_of(reference, pair_of[beam], ranking, position + level)
            for row in np.argsort(-weights, kind="stable")[: budget.width]:
                score = nodes[beam][2] + min(weights[row], 0.0)
                children.append(len(nodes))
                nodes.append((reference.ids[row], beam, score))
        beams = sorted(children, key=lambda node: -nodes[node][2])[: budget.width]
        if level + 1 < budget.depth:
            for beam in beams:
                pair_of[beam] = reference.add(nodes[beam][0], pair_of[nodes[beam][1]])
    best = [0, *sorted(range(1, len(nodes)), key=lambda node: -nodes[node][2])[: budget.nodes]]
    place = {node: index for index, node in enumerate(best)}
    return (
        [nodes[node][0] for node in best],
        [-1 if node == 0 else place[nodes[node][1]] for node in best],
        [nodes[node][2] for node in best],
    )


def weights_of(
    reference: HeadReference, pair: int, ranking: Ranking, position: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    scores = reference.logits[pair] - reference.logits[pair].max()
    if ranking.temperature:
        noise = gumbel(ranking.seed, position, np.array(reference.ids, dtype=np.int64))
        scores = scores / ranking.temperature + noise
    return scores - np.logaddexp.reduce(scores)


@dataclass(frozen=True, slots=True)
class Gentle(HeadWeights):
    """Numbers so small that many tokens are likely: a tree with many branches."""

    def float32(self, name: str) -> Floats:
        values = HeadWeights.float32(self, name)
        scaled = name != HEAD_IDS and values.ndim > 1 and "embed" not in name
        values = values * np.float32(0.3) if scaled else values
        return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


@pytest.mark.release(keep=8, reason="every head and format")
@every_head
@pytest.mark.parametrize("ranking", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(
    "budget", [Budget(15, 4, 3), Budget(59, 3, 10), Budget(6, 6, 1)], ids=["3", "10", "chain"]
)
def test_the_tree_is_the_references(
    config: ModelConfig, ranking: Ranking, budget: Budget, pool: ThreadPool
) -> None:
    """Tokens with the noise of their own ids, one position on; parents' outputs as features."""
    weights = Gentle(config)
    head = Decoder.build(config, weights, NativeBackend(Format.F32, pool))
    tokens, features = tokens_of(config, 20), random_features(config, 20)
    reference = HeadReference(config, weights)
    last = reference.extend(tokens, features)
    cache = new_cache(head)
    drafted(head, cache, tokens[:12], features[:12], 0, ranking, budget)
    tree = drafted(head, cache, tokens, features, 12, ranking, budget).tree
    wanted = grown(reference, last, tokens[-1], ranking, budget)
    assert len(tree.tokens) == len(wanted[0])
    assert same_nodes(tree, wanted) >= 0.9 * len(tree.tokens)  # but for what nearly ties
    np.testing.assert_allclose(sorted(tree.scores), sorted(wanted[2]), atol=0.05)


def same_nodes(tree: TokenTree, wanted: Tree) -> int:
    def paths(tokens: Sequence[int], parents: Sequence[int]) -> set[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for token, parent in zip(tokens, parents, strict=True):
            found.append((*(found[parent] if parent >= 0 else ()), token))
        return set(found)

    return len(paths(tree.tokens, tree.parents) & paths(wanted[0], wanted[1]))


@every_native_head
def test_what_was_drafted_leaves_no_trace(config: ModelConfig, pool: ThreadPool) -> None:
    """Staged keys are overwritten by those of true pairs: a long way is as good as a short one."""
    head = native_head(config, Format.Q8, pool)
    tokens, features = tokens_of(config, 30), random_features(config, 30)
    used, fresh, budget = new_cache(head), new_cache(head), Budget(30, 5, 4)
    for start, stop in ((0, 9), (9, 10), (10, 17), (17, 21)):
        drafted(head, used, tokens[:stop], features[:stop], start, SAMPLED, budget)
    tree = drafted(head, used, tokens, features, 21, SAMPLED, budget)
    assert tree == drafted(head, fresh, tokens, features, 0, SAMPLED, budget)
    assert len(tree.staged_tokens) == 4 * 4


@pytest.mark.parametrize("config", [HEADS["dgf 2"], MTP], ids=["dgf 2", "mtp"])
def test_staged_nodes_are_those_of_level_by_level(config: ModelConfig, pool: ThreadPool) -> None:
    """The keys that a draft has staged are what forwards over the same nodes would stage."""
    head = native_head(config, Format.Q8, pool)
    tokens, features, budget = tokens_of(config, 10), random_features(config, 10), Budget(20, 3, 3)
    state = head.new_state(100)
    head.draft(state, DraftRequest(tokens, SAMPLED, budget, features))
    alone = drafted(head, new_cache(head), tokens, features, 0, SAMPLED, budget)
    assert (len(state), state.staged) == (10, alone.staged_tokens)
    assert state.parents == alone.staged_parents
    probe = random_features(config, 1, seed=3)
    after = head.forward(state, [5], [4], features=probe).hidden.copy()
    other = head.new_state(100)
    root = head.forward(other, tokens, features=features).hidden[-1].copy()
    other.commit(range(10))
    outputs: list[Floats] = []
    for token, parent in zip(alone.staged_tokens, alone.staged_parents, strict=True):
        own = (root if parent < 0 else outputs[parent])[None].copy()
        outputs.append(head.forward(other, [token], [parent], features=own).hidden[0].copy())
    again = head.forward(other, [5], [4], features=probe).hidden
    np.testing.assert_array_equal(after, again)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_one_tree_on_every_instruction_set(isa: Isa) -> None:
    config = head_config("eagle3", rows=101)

    def tree(isa: Isa) -> Drafted:
        assert library().dt_use_isa(isa) == 0
        head = Decoder.build(config, Gentle(config), NativeBackend(Format.Q8, ThreadPool(2)))
        tokens, features = tokens_of(config, 20), random_features(config, 20)
        return drafted(head, new_cache(head), tokens, features, 0, SAMPLED, Budget(40, 4, 6))

    assert tree(isa) == tree(Isa.PORTABLE)


def test_a_draft_begins_with_the_targets_features(pool: ThreadPool) -> None:
    config = HEADS["eagle3"]
    head, own = native_head(config, Format.Q8, pool), np.zeros((2, 72), dtype=np.float32)
    for wrong in (None, own):
        with pytest.raises(ValueError, match="features"):
            head.draft(head.new_state(10), DraftRequest([1, 2], GREEDY, Budget(3, 2, 2), wrong))


# ---- what a target keeps for a head -------------------------------------------------------------


@pytest.mark.parametrize("taps", [(), (2,), (0, 1, 2), (5, 0)], ids=str)
def test_a_verification_gives_hidden_states_and_taps(taps: tuple[int, ...]) -> None:
    """Those of every node, the same as of a forward over the tree."""
    config = small_target()
    backend = NativeBackend(Format.Q8, ThreadPool(2))
    segment = backend.compile(config, HeadWeights(config), range(3), embed=True, head=True)
    draws = Sampler(SamplingParams()).native(config.vocab_size)
    assert draws is not None
    tokens, nodes, parents = tokens_of(config, 40), [7, 8, 9, 10, 11], [ROOT, 0, 0, 2, 1]
    cache = segment.new_cache(64)
    segment.run(Step(tokens, [*range(-1, 39)], 0, ()), cache, None)
    plain = segment.run(Step(nodes, parents, 40, (), taps), cache, None)
    hidden, tapped = plain.hidden.copy(), {tap: x.copy() for tap, x in plain.taps.items()}
    asked = cache, 40, draws, VerifyRequest(nodes, parents, [*tokens, 7], limit=5)
    verified, output = segment.verify(*asked, taps=taps)
    assert output is not None
    assert output.logits is None
    np.testing.assert_array_equal(output.hidden, hidden)
    assert set(output.taps) == set(tapped) == {tap for tap in taps if tap < 3}
    for tap, rows in output.taps.items():
        np.testing.assert_array_equal(rows, tapped[tap])
    assert segment.verify(*asked) == (verified, None)
