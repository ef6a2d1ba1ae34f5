"""A scripted draft: the acceptance it is given, the costs of a real one, the target's text."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Run, decode

from engine.backend.decoder import Decoder, Forward
from engine.backend.native.library import Format
from engine.backend.sequence import SequenceState
from engine.backend.state_pool import StatePool
from engine.backend.tree import TokenTree
from engine.bench.scripted_draft import NODES, FixedDepth, ScriptedDrafter, script
from engine.request import SamplingParams
from engine.speculative.drafters.model import StandaloneDrafter

PROMPT = [3, 14, 15, 92, 65, 35]
TOKENS = 49
Pair = tuple[Decoder, Decoder]


class Counting(Decoder):
    """A decoder that notes the rows of its forwards."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__(decoder.config, decoder.segments)
        self.rows: list[int] = []

    def forward(
        self, state: object, tokens: list[int], *arguments: object, **more: object
    ) -> Forward:  # type: ignore[override]
        self.rows.append(len(tokens))
        return super().forward(state, tokens, *arguments, **more)  # type: ignore[arg-type]

    def draft(self, state: SequenceState, pending: list[int], *arguments: object) -> TokenTree:  # type: ignore[override]
        tree = super().draft(state, pending, *arguments)  # type: ignore[arg-type]
        self.rows += [len(pending), *(1 for _ in state.staged)]
        return tree


class LevelByLevel(Counting):
    """One that cannot draft in one call."""

    @property
    def drafts_trees(self) -> bool:
        return False


def drafted(
    pair: Pair, depth: int, acceptance: float, draft: Decoder | None = None, width: int = 1
) -> Run:
    target, own = pair
    text = decode(target, PROMPT, SamplingParams(), max_tokens=TOKENS).tokens
    lines = script([*PROMPT, *text], target.config.vocab_size, acceptance, seed=2)
    inner = StandaloneDrafter("draft", draft or own, StatePool(draft or own, 512, 0))
    run = decode(
        target,
        PROMPT,
        SamplingParams(),
        drafter=ScriptedDrafter(inner, lines, trees=width > 1),
        controller=FixedDepth(depth, width),
        max_tokens=TOKENS,
    )
    assert run.tokens == text
    return run


@pytest.fixture(scope="module")
def pair(native: dict[Format, Pair]) -> Pair:
    return native[Format.Q8]


def test_a_draft_that_is_always_right(pair: Pair) -> None:
    run = drafted(pair, 5, 1.0)
    assert [len(done.tokens) for done in run.rounds] == [1] + [6] * 8
    assert all(done.accepted == done.drafted == 5 for done in run.rounds[1:])


def test_a_draft_that_is_never_right(pair: Pair) -> None:
    run = drafted(pair, 3, 0.0)
    assert len(run.rounds) == TOKENS
    assert all(done.accepted == 0 for done in run.rounds)


def test_acceptance_is_as_asked(pair: Pair) -> None:
    rounds = drafted(pair, 4, 0.7).rounds[1:]
    judged = sum(min(done.accepted + 1, done.drafted) for done in rounds)
    assert sum(done.accepted for done in rounds) / judged == pytest.approx(0.7, abs=0.15)


@pytest.mark.parametrize("kind", [Counting, LevelByLevel])
def test_the_draft_does_the_work_of_a_real_one(pair: Pair, kind: type[Counting]) -> None:
    """One forward per drafted token; what was accepted is not computed again."""
    counting = kind(pair[1])
    run = drafted(pair, 4, 0.7, counting)
    after_prompt = counting.rows[counting.rows.index(1) :]
    assert len(counting.rows) >= sum(done.drafted for done in run.rounds)
    assert max(after_prompt) <= 2


def test_both_ways_of_drafting_say_the_same(pair: Pair) -> None:
    ways = [drafted(pair, 4, 0.7, kind(pair[1])) for kind in (Counting, LevelByLevel)]
    rounds = [[(done.tokens, done.accepted) for done in way.rounds] for way in ways]
    assert rounds[0] == rounds[1]


@pytest.mark.parametrize("kind", [Counting, LevelByLevel])
def test_trees_have_the_script_s_path_in_them(pair: Pair, kind: type[Counting]) -> None:
    """As much is accepted as of chains, and all nodes are computed and verified."""
    counting = kind(pair[1])
    run = drafted(pair, 5, 1.0, counting, width=10)
    assert [len(done.tokens) for done in run.rounds] == [1] + [6] * 8
    assert all(done.accepted == 5 and done.drafted == NODES for done in run.rounds[1:])
    chains, trees = (drafted(pair, 4, 0.7, kind(pair[1]), width=width) for width in (1, 10))
    assert len(trees.rounds) == pytest.approx(len(chains.rounds), abs=2)
    assert sum(counting.rows) >= 8 * (1 + 4 * 10)


def test_the_script_is_right_as_often_as_told() -> None:
    tokens = np.random.default_rng(0).integers(0, 1000, 20_000).tolist()
    said = script(tokens, 1000, 0.3, seed=1)
    right = sum(own == token for own, token in zip(said.tokens, tokens, strict=True))
    assert right / len(tokens) == pytest.approx(0.3, abs=0.02)
    assert all(0 <= token < 1000 for token in said.tokens)
    assert said == script(tokens, 1000, 0.3, seed=1)
