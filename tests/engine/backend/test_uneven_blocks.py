"""Blocks that differ in heads, head sizes and feed-forwards, and that share keys and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from full_models import RandomWeights, full_decoder, uneven_config
from split_models import split_decoder
from test_native_families import TOKENS, apart
from test_native_one_arithmetic import assert_one_hash, hashes

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.commands import KvType, WeightFormat
from engine.plan.footprint import allowed_cuts, footprint

CONFIG = uneven_config()
pytestmark = pytest.mark.usefixtures("isa_as_before")


def test_blocks_are_what_torch_computes() -> None:
    dense = replace(CONFIG, blocks=tuple(replace(own, experts=None) for own in CONFIG.blocks[:4]))
    models = (
        Decoder.build(dense, RandomWeights(dense), backend)
        for backend in (NativeBackend(Format.F16), TorchCpuBackend())
    )
    one, other = (model.forward(model.new_state(640), TOKENS).logits for model in models)
    assert apart(one, other) < 4e-3


def test_torch_has_one_arithmetic_too() -> None:
    blocks = replace(CONFIG, blocks=CONFIG.blocks[:4])
    found = hashes(Decoder.build(blocks, RandomWeights(blocks), TorchCpuBackend()), (7, 512))
    assert len(set(found.values())) == 1, found


@pytest.mark.release(keep=1, reason="with keys in 8 bits")
@pytest.mark.parametrize("kv", KvType)
def test_one_hash(kv: KvType) -> None:
    assert_one_hash(lambda pool: full_decoder(None, pool, kv, CONFIG))


def test_a_split_is_the_whole() -> None:
    whole = full_decoder(Format.Q4, config=CONFIG)
    expected = whole.forward(whole.new_state(640), TOKENS).logits.copy()
    split = split_decoder(CONFIG, RandomWeights(CONFIG), (0, 4, 5), NativeBackend(Format.Q4))
    assert np.array_equal(split.forward(split.new_state(640), TOKENS).logits, expected)


def test_who_shares_keys_stays_with_their_owner() -> None:
    """A plan has no such cut, and a segment refuses it."""
    held = footprint(CONFIG, WeightFormat.Q4)
    assert allowed_cuts(held).tolist() == [True, False, False, False, True, True, True]
    with pytest.raises(ValueError, match="of one segment"):
        split_decoder(CONFIG, RandomWeights(CONFIG), (2,), NativeBackend(Format.Q4))


@pytest.mark.parametrize("kv", KvType)
def test_plans_know_what_caches_take(kv: KvType) -> None:
    held = footprint(CONFIG, WeightFormat.Q4, kv=kv)
    assert [bool(each) for each in held.kv_of_blocks] == [True, True, False, False, True, True]
    for blocks in (range(6), range(4), range(4, 6)):
        backend = NativeBackend(Format.Q4, kv=kv)
        segment = backend.compile(CONFIG, RandomWeights(CONFIG), blocks, embed=False, head=False)
        assert segment.new_cache(640).nbytes == 640 * sum(
            held.kv_of_blocks[each] for each in blocks
        )
