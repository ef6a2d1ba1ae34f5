"""A scripted draft: the acceptance it is given, the costs of a real one, the target's text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Run, decode

from engine.backend.decoder import Decoder, Forward
from engine.backend.native.library import Format
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget, DraftRequest
from engine.backend.sequence import SequenceState
from engine.backend.tree import TokenTree
from engine.bench.scripted_draft import NODES, FixedDepth, Script, ScriptedDraft
from engine.request import SamplingParams
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

PROMPT = [3, 14, 15, 92, 65, 35]
TOKENS = 49
Pair = tuple[Decoder, Decoder]


class Counting(ScriptedDraft):
    """A scripted draft that notes the rows of its forwards."""

    def __init__(self, draft: Decoder, *, trees: bool = False) -> None:
        super().__init__(draft, trees=trees)
        self.rows: list[int] = []

    def forward(
        self, state: object, tokens: list[int], *arguments: object, **more: object
    ) -> Forward:  # type: ignore[override]
        self.rows.append(len(tokens))
        return super().forward(state, tokens, *arguments, **more)  # type: ignore[arg-type]

    def draft(self, state: SequenceState, request: DraftRequest, *cancelled: Any) -> TokenTree:
        tree = super().draft(state, request, *cancelled)
        self.rows += [len(request.pending), *(1 for _ in state.staged)]
        return tree


class LevelByLevel(Counting):
    """One that cannot draft in one call."""

    @property
    def drafts_trees(self) -> bool:
        return False


def drafted(
    pair: Pair, depth: int, acceptance: float, draft: ScriptedDraft | None = None, width: int = 1
) -> Run:
    target, own = pair
    text = decode(target, PROMPT, SamplingParams(), max_tokens=TOKENS).tokens
    draft = draft or ScriptedDraft(own, trees=width > 1)
    vocab = target.config.vocab_size
    draft.script = Script.write([*PROMPT, *text], vocab, acceptance, seed=2)
    run = decode(
        target,
        PROMPT,
        SamplingParams(),
        drafter=StandaloneDrafter(draft, PrefixCache(draft, 512, 0)),
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
    counting = kind(pair[1], trees=True)
    run = drafted(pair, 5, 1.0, counting, width=10)
    assert [len(done.tokens) for done in run.rounds] == [1] + [6] * 8
    assert all(done.accepted == 5 and done.drafted == NODES for done in run.rounds[1:])
    chains, trees = (
        drafted(pair, 4, 0.7, kind(pair[1], trees=width > 1), width=width) for width in (1, 10)
    )
    assert len(trees.rounds) == pytest.approx(len(chains.rounds), abs=2)
    assert sum(counting.rows) >= 8 * (1 + 4 * 10)


def test_a_path_too_unlikely_for_the_budget_ends() -> None:
    """As a draft does that knows its probabilities: the level that falls below is the last."""
    script = Script([5] * 8, [True] * 8, 0.8, 97)
    assert script.depth(Budget(15, 7, 1)) == 7
    assert script.depth(Budget(15, 7, 1, floor=0.6)) == 3  # 0.8, 0.64, 0.51
    assert script.depth(Budget(15, 7, 1, floor=0.9)) == 1
    assert script.depth(Budget(15, 0, 1)) == 0


def test_in_parallel_the_scripts_token_is_the_best_candidate(pair: Pair) -> None:
    """Behind it come the draft's own, which are never right."""
    draft = ScriptedDraft(pair[1])
    text = [7 * place % 61 for place in range(40)]
    draft.script = Script(text, [place % 2 == 0 for place in range(40)], 0.7, 97)
    state = draft.new_state(64)
    ranking = Sampler(SamplingParams()).ranking
    found = draft.expand(state, text[:8], range(-1, 7), (5, 7), ranking, 4)
    assert found is not None
    for candidates, position in zip(found.candidates, (6, 8), strict=True):
        assert len(candidates) == 4
        assert candidates[0] == (text[position], pytest.approx(np.log(0.7)))
        assert text[position] not in [token for token, _ in candidates[1:]]
        weights = [weight for _, weight in candidates]
        assert weights == sorted(weights, reverse=True)
    state.discard()
    wrong = draft.expand(state, text[:8], range(-1, 7), (6,), ranking, 4)
    assert wrong is not None
    assert wrong.candidates[0][0][0] == text[7] + 1
    assert text[7] not in [token for token, _ in wrong.candidates[0]]


def test_a_token_that_a_draft_has_no_row_for_is_not_favoured(pair: Pair) -> None:
    draft = ScriptedDraft(pair[1])
    draft.script, draft.ids = Script([7] * 9, [True] * 9, 0.9, 97), np.array([3, 5, 6])
    logits = np.array([0.5, 1.5, 1.0], dtype=np.float32)
    draft._favour(logits, 2)
    assert logits.tolist() == [0.5, 1.5, 1.0]
    draft.ids = np.array([3, 7, 5])
    draft._favour(logits, 2)
    assert logits.argmax() == 1
    assert logits[1] > 1.5


def test_the_script_is_right_as_often_as_told() -> None:
    tokens = np.random.default_rng(0).integers(0, 1000, 20_000).tolist()
    script = Script.write(tokens, 1000, 0.3, seed=1)
    said = [script.token(position) for position in range(len(tokens))]
    right = sum(own == token for own, token in zip(said, tokens, strict=True))
    assert right / len(tokens) == pytest.approx(0.3, abs=0.02)
    assert all(0 <= token < 1000 for token in said)
    assert script == Script.write(tokens, 1000, 0.3, seed=1)
    assert script.token(len(tokens)) != 0, "behind the text nothing is right"
