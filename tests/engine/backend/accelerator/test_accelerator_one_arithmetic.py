"""Rule 3.2 on an accelerator's path: on torch's "cpu" device, in fp32, it holds bit for bit.

On a real device it is not promised across passes of more than 64 rows (prefill) and smaller ones,
nor across numbers of chunks looked at: tests/gpu compares there with a margin.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerated import accelerated
from comparing import check_tree_in_parts, in_chunks
from full_models import RandomWeights, full_config
from test_native_one_arithmetic import hashes
from tiny_models import write_model

from engine.backend.accelerator import sizes
from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.memory import DeviceCache
from engine.backend.decoder import Decoder
from engine.commands import WeightFormat


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llama"))


def full() -> Decoder:
    config = full_config()
    backend = TorchDevice("cpu").backend(WeightFormat.Q8, "target")
    return Decoder.build(config, RandomWeights(config), backend)


@pytest.mark.release(reason="every family")
@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_one_hash(family: str, tmp_path: Path) -> None:
    model = accelerated(write_model(tmp_path, family), WeightFormat.Q8)
    found = hashes(model, (1, 7, 64, 512) if family == "llama" else (7, 512))
    assert len(set(found.values())) == 1, found


def test_one_hash_with_every_feature() -> None:
    found = hashes(full(), (7, 512))
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("chunk", [5, 33, 100, 300])
def test_rows_are_the_same_in_every_bucket(chunk: int, llama: Path) -> None:
    """Buckets from 8 to 256 rows, looking at 4 to 8 chunks of keys; logits in several parts."""
    model = accelerated(llama)
    tokens = np.random.default_rng(4).integers(3, 320, 300).tolist()
    assert np.array_equal(in_chunks(model, tokens, chunk), in_chunks(model, tokens, 64))


def test_a_tree_of_many_rows_is_computed_in_parts(llama: Path) -> None:
    check_tree_in_parts(accelerated(llama), 9)


def test_heads_one_after_the_other_give_the_same(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are computed where a long context would take too much memory at once."""
    model = accelerated(llama)
    tokens = np.random.default_rng(6).integers(3, 320, 100).tolist()
    together = in_chunks(model, tokens, 20)
    monkeypatch.setattr(sizes, "WORKING_BYTES", 1)
    assert sizes.heads_at_once(4, 2, 2, 16) == 1
    assert np.array_equal(in_chunks(model, tokens, 20), together)


def test_what_padding_writes_is_never_seen(llama: Path) -> None:
    model = accelerated(llama)
    tokens = np.random.default_rng(7).integers(3, 320, 40).tolist()
    expected = in_chunks(model, tokens, 9)
    state, rows = model.new_state(24), []  # as many chunks as there are, and the one for padding
    (cache,) = state.caches
    assert isinstance(cache, DeviceCache)
    for start in range(0, 18, 9):
        cache._data[:, :, cache.chunks :] = torch.nan
        rows.append(model.forward(state, tokens[start : start + 9]).logits.copy())
        state.commit(range(9))
    assert np.array_equal(np.concatenate(rows), expected[:18])


@pytest.mark.release(reason="a whole model, interpreted")
def test_a_forward_asks_the_device_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On torch's "meta" device there are no numbers to ask for: reading one raises.

    So whatever a forward does is the same at every replay.
    """
    from engine.backend.accelerator.input_buffers import Outbox

    monkeypatch.setattr(Outbox, "take", lambda _self, _place, _found: None)
    config = full_config()
    backend = TorchDevice("meta").backend(WeightFormat.STORED, "target")
    model = Decoder.build(config, RandomWeights(config), backend)
    state = model.new_state(640)
    for count in (1, 3, 20, 200):
        model.forward(state, [5] * count)
        state.commit(range(count))
    model.forward(state, [5, 6, 7], [-1, -1, 0])
