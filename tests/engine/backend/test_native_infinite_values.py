"""A value beyond its type is nobody's business who cannot see it: in chains, trees and windows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from full_models import RandomWeights
from head_models import small_target

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format, instruction_sets, library
from engine.backend.native.segment import NativeBackend
from engine.commands import KvType
from engine.model.config import BlockConfig, RopeConfig
from engine.model.weights.readable import Floats

pytestmark = pytest.mark.usefixtures("isa_as_before")
HUGE = 7
"""The token whose values are infinite; those of the block behind are no numbers."""
TOKENS = [3, 4, 5, 6, 8, HUGE, 9, 10, 11, 12, 13, 14]
ROPE = RopeConfig(dim=12)


@dataclass(frozen=True, slots=True)
class OneHuge(RandomWeights):
    """One token alone has the first number of a hidden state, which values are huge times."""

    huge: float = 1e6

    def float32(self, name: str) -> Floats:
        """The tensor."""
        found = RandomWeights.float32(self, name)
        if "embed" in name:
            found[:, 0] = 0
            found[HUGE] = np.eye(1, found.shape[1])
        if ".0.self_attn.v_proj." in name:
            found[::3, 0] = self.huge
        return found


def model(blocks: tuple[BlockConfig, ...], kv: KvType) -> Decoder:
    config = replace(small_target(), blocks=blocks)
    return Decoder.build(config, OneHuge(config), NativeBackend(Format.F32, kv=kv))


def alone(decoder: Decoder, tokens: list[int], parents: list[int]) -> np.ndarray:
    """Logits of each row, computed one token after the other along its own path."""
    rows = []
    for node in range(len(tokens)):
        path = [node]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        state = decoder.new_state(64)
        for each in path:
            found = decoder.forward(state, [tokens[each]]).logits[-1].copy()
            state.commit([0])
        rows.append(found)
    return np.stack(rows)


CHAIN = [*range(-1, len(TOKENS) - 1)]
TREE = [-1, 0, 1, 1, 0, 2, 3, 3, 4, 6, 5, 7]
"""The huge token is the sixth node; only the eleventh stands behind it."""
FULL = replace(small_target().typical, rope=ROPE)
NARROW = replace(FULL, window=3)


CASES = pytest.mark.parametrize(
    ("blocks", "parents", "seeing"),
    [
        ((FULL, FULL), CHAIN, {*range(5, 12)}),
        ((FULL, FULL), TREE, {5, 10}),
        ((NARROW,), CHAIN, {5, 6, 7}),
        ((NARROW, FULL), TREE, {5, 10}),
    ],
    ids=["chain", "tree", "window", "tree and window"],
)


def only_those_that_see_it(decoder: Decoder, parents: list[int], seeing: set[int]) -> None:
    """Have no other row of a forward without numbers, and none different from its path alone."""
    together = decoder.forward(decoder.new_state(64), TOKENS, parents).logits.copy()
    numbers = np.isfinite(together).all(axis=1)
    assert {row for row, good in enumerate(numbers) if not good} == seeing
    np.testing.assert_array_equal(together, alone(decoder, TOKENS, parents))


def rejected_without_a_trace(decoder: Decoder) -> None:
    """Have what follows be the same as if the huge token had not been drafted."""
    begun, state = decoder.new_state(64), decoder.new_state(64)
    for each in (begun, state):
        decoder.forward(each, [3, 4])
        each.commit([0, 1])
    decoder.forward(state, [5, 6, HUGE, 8], [-1, 0, 1, 2])
    state.commit([0])
    decoder.forward(begun, [5])
    begun.commit([0])
    ours, theirs = (decoder.forward(each, [9, 10]).logits.copy() for each in (state, begun))
    assert np.isfinite(ours).all()
    np.testing.assert_array_equal(ours, theirs)


@CASES
@pytest.mark.parametrize("kv", KvType)
def test_rows_that_cannot_see_it(
    blocks: tuple[BlockConfig, ...], parents: list[int], seeing: set[int], kv: KvType
) -> None:
    for isa in instruction_sets():
        assert library().dt_use_isa(isa) == 0
        only_those_that_see_it(model(blocks, kv), parents, seeing)


@pytest.mark.parametrize("kv", KvType)
def test_a_rejected_one(kv: KvType) -> None:
    for isa in instruction_sets():
        assert library().dt_use_isa(isa) == 0
        rejected_without_a_trace(model((FULL, FULL), kv))
