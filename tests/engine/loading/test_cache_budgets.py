"""How many conversations are kept, and ways back within them, where a context is long."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hybrid_models import write_hybrid

from engine.backend.decoder import Decoder
from engine.backend.ledger import Account, Ledger
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.sequence import SequenceState
from engine.loading.devices import whole
from engine.loading.load import set_cache_budgets, warm_up
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

CONTEXT = 30_000


@pytest.fixture
def pool(tmp_path: Path) -> PrefixCache:
    """Of a model with states, on a computer whose free memory holds four long sequences.

    So one may have all that is for caches, as with the contexts that plans choose.
    """
    folder = write_hybrid(tmp_path, max_position_embeddings=CONTEXT)
    config, ledger = open_config(folder), Ledger(CPU, "Memory")
    backend = NativeBackend(Format.F32, account=Account(ledger, "target"))
    model = Decoder.build(config, ModelWeights.of_folder(config, folder), backend)
    pool, blocks = PrefixCache(model, CONTEXT), whole(len(config.blocks), CPU)
    sizes = [warm_up(pool, blocks)]
    ledger.budget = model.weight_bytes + 4 * pool.nbytes
    here = DeviceMemory(CPU, ledger.budget, target=model.weight_bytes)
    devices: Any = {CPU: SimpleNamespace(ledger=ledger)}
    set_cache_budgets([pool], sizes, devices, SimpleNamespace(on=lambda _: here))  # type: ignore[arg-type]
    return pool


def read(pool: PrefixCache, text: list[int]) -> tuple[int, SequenceState]:
    """Bring a state to a text, with a way back every 20 tokens; return how many were known."""
    state = pool.take(text)
    state.crop(state.common_prefix(text))
    known = len(state)
    for first in range(known, len(text), 20):
        pool.decoder.forward(state, piece := text[first : first + 20], logit_rows=())
        state.commit(range(len(piece)))
        pool.snapshot(state)
    return known, state


def test_conversations_in_turns_are_known(pool: PrefixCache) -> None:
    texts = [[1, *range(3, 100)], [1, *range(150, 250)]]
    for each in texts:
        read(pool, each)
    for more in (4, 5):
        for each in texts:
            known, _ = read(pool, [*each, more])
            assert known >= len(each)
            each.append(more)


def test_another_end_is_read_from_the_last_way_back(pool: PrefixCache) -> None:
    text = [1, *range(3, 160)]
    read(pool, text)
    for known in (140, 100, 60):
        found, state = read(pool, [*text[: known + 7], 5, 6])
        assert found == known
        assert len(state) == known + 9
