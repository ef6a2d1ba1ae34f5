"""A draft packed for speed: which matrices have fewer bits than in its file, and which do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from engine_session import Session
from gguf_models import Kind, write_gguf
from machines import machine_with
from tiny_models import write_chat_model

from engine.backend.cpu import native_is_built
from engine.backend.ledger import Purpose
from engine.backend.native.matrix import NATIVE_KINDS, pack_rows
from engine.backend.native.packed_cache import PackedCache, settle
from engine.backend.native.pool import shared_pool
from engine.backend.native.stretches import ggml_rows
from engine.commands import Load, Mode, WeightFormat
from engine.loading import decoder_builder, drafts
from engine.loading.planned_load import plan_load
from engine.loading.repacked import Repacked
from engine.machine.facts import CPU
from engine.model.tensors import EMBEDDING

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 2**30
DOWN = "model.layers.0.mlp.down_proj.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small drafts are worth packing anew, too."""
    monkeypatch.setattr(drafts, "WORTH_PACKING", 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A target, and its draft as a folder of floats and as a file in 8 bits."""
    root = tmp_path_factory.mktemp("repacked")
    target = write_chat_model(root / "target", hidden_size=96, num_hidden_layers=5)
    draft = write_chat_model(root / "draft", hidden_size=64, intermediate_size=128)
    return {
        "target": target,
        "floats": draft,
        "q8_0": write_gguf(draft, root / "draft.gguf", Kind.Q8_0),
        "q4_0": write_gguf(draft, root / "small.gguf", Kind.Q4_0),
    }


def weights_of(files: dict[str, Path], name: str) -> Repacked:
    draft = plan_load(
        Load(files["target"], files[name], mode=Mode.CPU), machine_with(64 * GIB)
    ).draft
    assert draft is not None
    assert draft.format is WeightFormat.STORED
    assert isinstance(draft.weights, Repacked)
    return draft.weights


@pytest.mark.parametrize(("name", "rest"), [("floats", "Q8_0"), ("q8_0", "Q8_0"), ("q4_0", "Q4_0")])
def test_feed_forward_is_in_four_bits_and_attention_is_not(
    files: dict[str, Path], name: str, rest: str
) -> None:
    weights = weights_of(files, name)
    assert weights.kind(DOWN) == "Q4_0"
    assert weights.kind(QUERY) == weights.kind(EMBEDDING) == rest
    assert (DOWN in weights.kinds) == (name != "q4_0"), "what has 4 bits stays as it is stored"


def test_what_caches_hold_stays_as_it_is(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "WORTH_PACKING", 16 << 20)
    load = Load(files["target"], files["q8_0"], mode=Mode.CPU)
    found = plan_load(load, machine_with(64 * GIB)).draft
    assert found is not None
    assert not isinstance(found.weights, Repacked)


def test_rows_are_what_packing_makes_of_the_floats(files: dict[str, Path]) -> None:
    weights = weights_of(files, "q8_0")
    floats = weights.float32(DOWN)
    packed = pack_rows(shared_pool(), floats, NATIVE_KINDS["Q4_0"])
    found = np.concatenate([part.copy() for part in weights.stretches(DOWN)])
    assert np.array_equal(found, ggml_rows(packed.struct, 0, len(floats)))


def test_the_second_load_maps_what_the_first_packed(
    session: Session, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(decoder_builder, "WORTH_KEEPING", 0)
    monkeypatch.setattr("engine.backend.native.cached_weights.JUST_NOW_S", 0.0)
    answers = []
    for _ in range(2):
        session.load(files["target"], draft=files["q8_0"], mode=Mode.CPU)
        answers.append(session.ask("Hello", max_tokens=12))
        settle()
    assert answers[0].token_ids == answers[1].token_ids
    assert answers[0].stats.accepted_by_depth == answers[1].stats.accepted_by_depth
    pair = session.engine._slot.pair
    assert pair is not None
    lines = [line for line in pair.devices[CPU].ledger.lines() if line.owner == "draft"]
    held = [line for line in lines if line.purpose is Purpose.WEIGHTS]
    mapped = sum(line.mapped for line in held)
    assert mapped > 0.95 * sum(line.nbytes for line in held), "what stays as it is stored, too"
    assert PackedCache().usage() > 0
