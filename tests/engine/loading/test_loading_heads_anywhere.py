"""Draft heads beside targets of every kind, in every format, and with weights kept on disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_session import Session
from gguf_models import Kind, write_gguf
from head_folders import change_tensors, write_head
from tiny_models import write_chat_model

import engine.loading.decoder_builder
from engine.backend.cpu import native_is_built
from engine.backend.ledger import Held, Purpose
from engine.backend.native.packed_cache import PackedCache, settle
from engine.commands import Mode, Unload, WeightFormat
from engine.events import Finished, Unloaded
from engine.machine.facts import CPU
from engine.model.families import open_config
from engine.model.weights.readable import Floats
from engine.request import SamplingParams

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

HOT = SamplingParams(temperature=3.0, seed=5)
"""The noise decides, and draft and target share it: even a random head is right now and then."""
LAYERS, HIDDEN = 6, 64


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama that talks."""
    return write_chat_model(
        tmp_path_factory.mktemp("target") / "Target", num_hidden_layers=LAYERS, hidden_size=HIDDEN
    )


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory, target: Path) -> dict[str, Path]:
    folder, config = tmp_path_factory.mktemp("heads"), open_config(target)
    return {name: write_head(folder / name, name, config) for name in ("dgf", "eagle2", "eagle3")}


def both_ways(session: Session, model: Path, head: Path, **wishes: Any) -> tuple[Finished, ...]:
    """What is written without the head and with it."""
    session.load(model, mode=Mode.PLAIN, **wishes)
    plain = ask(session)
    session.load(model, draft=head, **wishes)
    return plain, ask(session)


def ask(session: Session) -> Finished:
    return session.ask("Hello there", sampling=HOT, max_tokens=40)


def weights_of(session: Session, owner: str) -> list[Held]:
    pair = session.engine._slot.pair
    assert pair is not None
    lines = pair.devices[CPU].ledger.lines()
    return [line for line in lines if (line.owner, line.purpose) == (owner, Purpose.WEIGHTS)]


def of_file(name: str) -> Kind:
    return Kind.Q4_0 if name.startswith("blk") else Kind.Q8_0


@pytest.mark.release(keep=1, reason="every head")
@pytest.mark.parametrize("layout", ["dgf", "eagle2", "eagle3"])
def test_a_target_in_gguf(
    session: Session, target: Path, heads: dict[str, Path], tmp_path: Path, layout: str
) -> None:
    """What is borrowed stays as the file has it."""
    file = write_gguf(target, tmp_path / "target.gguf", of_file)
    plain, drafted = both_ways(session, file, heads[layout])
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.accepted > 0


@pytest.mark.release(keep=3, reason="every format")
@pytest.mark.parametrize("wish", [WeightFormat.F32, WeightFormat.BF16, WeightFormat.Q4])
@pytest.mark.parametrize("layout", ["dgf", "eagle2"])
def test_a_target_in_any_format(
    session: Session, target: Path, heads: dict[str, Path], layout: str, wish: WeightFormat
) -> None:
    plain, drafted = both_ways(session, target, heads[layout], weights=wish)
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.accepted > 0


@pytest.mark.release(keep=4, reason="every family")
@pytest.mark.parametrize(
    ("family", "shape"),
    [
        ("qwen3_moe", {}),
        ("gemma3_text", {"tie_word_embeddings": True}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("phi3", {}),
    ],
)
@pytest.mark.parametrize("layout", ["dgf", "eagle3"])
def test_targets_of_other_families(
    session: Session, tmp_path: Path, family: str, shape: dict[str, Any], layout: str
) -> None:
    model = write_chat_model(tmp_path / family, family, num_hidden_layers=LAYERS, **shape)
    head = write_head(tmp_path / "head", layout, open_config(model))
    plain, drafted = both_ways(session, model, head)
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.accepted > 0


def old(folder: Path) -> Path:
    os.utime(folder / "model.safetensors", (1.6e9, 1.6e9))
    return folder


def test_a_head_is_quantised_once_and_borrows_from_its_own_target(
    session: Session,
    target: Path,
    heads: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On disk lies what is the head's; another target of the same shape lends its own matrices."""
    monkeypatch.setattr(engine.loading.decoder_builder, "WORTH_KEEPING", 0)
    first = old(Path(shutil.copytree(target, tmp_path / "first")))
    other = Path(shutil.copytree(target, tmp_path / "other"))
    change_tensors(other, lambda tensors: tensors["lm_head.weight"].__imul__(-1))
    head = old(Path(shutil.copytree(heads["dgf"], tmp_path / "dgf")))
    wishes: dict[str, Any] = {
        "draft": head, "mode": Mode.DOVETAIL, "simulate_gpu": 1 << 30, "layers_on_gpu": 0
    }  # fmt: skip
    seen = []
    for count, model in enumerate((first, first, old(other)), 1):
        session.load(model, **wishes)
        seen.append(guess(session))
        session.submit(Unload())
        session.wait(Unloaded, count=count)
        settle()
    assert len(list(PackedCache().folder.glob("*.source"))) == 3  # two targets and the head
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0], -seen[2])  # what the target's output matrix has become


def guess(session: Session) -> Floats:
    """The head's logits for one pair."""
    pair = session.engine._slot.pair
    assert pair is not None
    drafter: Any = pair.loop.drafter
    (head,) = (each.drafter for each in drafter._records if hasattr(each.drafter, "_pool"))
    decoder = head._pool.decoder
    features = np.ones((1, HIDDEN), dtype=np.float32)
    logits = decoder.forward(decoder.new_state(8), [5], features=features).logits
    return np.array(logits)


def test_what_is_mapped_is_shared_as_well(
    session: Session,
    target: Path,
    heads: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine.loading.decoder_builder, "WORTH_KEEPING", 0)
    model = old(Path(shutil.copytree(target, tmp_path / "target")))
    head = old(Path(shutil.copytree(heads["dgf"], tmp_path / "dgf")))
    sizes, mapped = [], []
    for count in (1, 2):
        session.load(model, draft=head)
        held = weights_of(session, "draft")
        sizes.append(sum(line.nbytes for line in held))
        mapped.append(sum(line.mapped for line in held))
        session.submit(Unload())
        session.wait(Unloaded, count=count)
        settle()
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)
    assert mapped[0] == 0 < mapped[1]
