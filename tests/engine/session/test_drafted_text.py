"""Guesses of scripted rounds: they agree with what was accepted, whatever the tree and the walk."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backend.native.sampling import NativeDraws
from engine.backend.round import Round, Verified, VerifyRequest
from engine.backend.tree import TokenTree, chain
from engine.events import Interval
from engine.model.text.tokenizer import Tokenizer
from engine.request import SamplingParams
from engine.session.answer import drafted_tokens, token_texts
from engine.speculative.decoding import Decoding
from engine.speculative.sampler import Sampler

VOCAB = 30
STOP = 0


@dataclass
class State:
    context: int = 100
    committed: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return 0

    def common_prefix(self, _: Any) -> int:
        return 0

    def reusable(self, length: int) -> int:
        return length

    def crop(self, _: int) -> None: ...

    def commit(self, path: Any) -> None:
        self.committed += list(path)


@dataclass
class Target:
    """Its logits at a node are those of the script."""

    logits: Any
    config = SimpleNamespace(vocab_size=VOCAB)

    def verify(self, state: State, draws: NativeDraws, request: VerifyRequest) -> Verified:
        verified = draws.verify(request, self.logits[: len(request.nodes)])
        state.commit(verified.path)
        return verified


def played(logits: Any, tree: TokenTree, most: int) -> Round:
    """One round over the tree."""
    decoding = Decoding(
        cast("Any", Target(logits)), cast("Any", State()), [1], Sampler(SamplingParams()),
        stop_ids=(STOP,), max_tokens=most,
    )  # fmt: skip
    return decoding.verify(tree)


@st.composite
def trees(draw: st.DrawFn) -> TokenTree:
    """Of a model and of somebody else, merged."""
    merged = TokenTree.root(1)
    for weighs in (True, False):
        count = draw(st.integers(0, 7))
        nodes = [
            (draw(st.integers(0, index)), draw(st.integers(0, 6)), -draw(st.floats(0.01, 5)))
            for index in range(count)
        ]
        weights = None if weighs else [None] * count
        merged = merged.merge(TokenTree.build(1, nodes, weights=weights))
    return merged


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(FOLDER_TARGET)


@settings(deadline=None)
@given(tree=trees(), seed=st.integers(0, 2**32), most=st.integers(1, 9), shown=st.integers(0, 9))
def test_guesses_agree_with_what_was_accepted(
    tokenizer: Tokenizer, tree: TokenTree, seed: int, most: int, shown: int
) -> None:
    logits = np.random.default_rng(seed).normal(0, 3, (20, VOCAB)).astype(np.float32)
    logits[:, 7:] = -9  # so that much of what is drafted is right
    done = played(logits, tree, most)
    assert len(done.guesses) == done.verified.offered
    counted = min(shown, len(done.tokens))  # a stop string may cut the answer anywhere
    refused = [str(token) for token in done.rejected]
    told = drafted_tokens(tokenizer, [], done, counted, refused)
    accepted = [guess for guess in told if guess.accepted]
    assert len(accepted) == min(done.accepted, counted)
    assert [guess.probability for guess in accepted] == list(done.verified.chances[: len(accepted)])
    others = told[len(accepted) :]
    assert len(others) == (bool(refused) and counted >= done.accepted)
    for guess in others:
        assert guess.text == refused[0]
        assert guess.probability == done.verified.refused
        assert guess.draft_probability == done.guesses[-1]
        assert not guess.accepted


def test_what_a_draft_gave_is_told_and_lookup_gives_nothing() -> None:
    model = TokenTree.build(1, [(0, 2, log(0.8)), (1, 3, log(0.4)), (0, 4, log(0.1))])
    lookup = TokenTree.build(1, [(0, 2, log(0.9)), (1, 5, log(0.7))], weights=[None, None])
    for first, second in ((model, lookup), (lookup, model)):
        tree = first.merge(second)
        found = {
            (tree.tokens[tree.parents[node]], tree.tokens[node]): tree.weight(node)
            for node in range(1, len(tree))
        }
        told = {
            place: weight if weight is None else pytest.approx(exp(weight))
            for place, weight in found.items()
        }
        assert told == {(1, 2): 0.8, (2, 3): 0.5, (1, 4): 0.1, (2, 5): None}
    # Ranked, pruned and shortened it is still known of each.
    for node in range(1, 4):
        assert tree.best(3).weight(node) == tree.weight(node)
    assert {tree.limited(1).weight(node) for node in (1, 2)} == {found[1, 2], found[1, 4]}


def test_a_character_belongs_to_the_token_that_completes_it(tokenizer: Tokenizer) -> None:
    llama = tokenizer.encode_text("🦙")
    assert len(llama) > 2
    assert token_texts(tokenizer, [], llama) == [""] * (len(llama) - 1) + ["🦙"]
    for known in range(1, len(llama)):
        assert "".join(token_texts(tokenizer, llama[:known], llama[known:])) == "🦙"
    assert token_texts(tokenizer, [], tokenizer.encode_text("a dog")) != [""]


def test_the_refused_one_is_beyond_an_answer_that_was_cut(tokenizer: Tokenizer) -> None:
    dog = tuple(tokenizer.encode_text("a dog ran"))
    instant = Interval(0.0, 1.0)
    count = len(dog)
    drafted = [*dog[:-1], dog[0]]
    tree = chain(1, drafted, [place * log(0.75) for place in range(1, count + 1)])
    path, chances = tuple(range(count)), (0.5,) * count
    verified = Verified(path, dog, count - 1, count, chances=chances, refused=0.25)
    done = Round(tree, verified, instant)
    whole = drafted_tokens(tokenizer, [], done, len(dog), ["a"])
    assert [guess.accepted for guess in whole] == [True] * (len(dog) - 1) + [False]
    assert [guess.text for guess in whole] == [*token_texts(tokenizer, [], dog[:-1]), "a"]
    assert (whole[-1].probability, whole[-1].draft_probability) == (0.25, pytest.approx(0.75))
    cut = drafted_tokens(tokenizer, [], done, 1, ["a"])
    assert [guess.accepted for guess in cut] == [True]
