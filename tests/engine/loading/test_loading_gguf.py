"""Models in GGUF through the engine: as they are stored, requantised, as target and as draft."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_session import Session
from folder_models import FOLDER_STORIES, FOLDER_TARGET
from gguf_models import Kind, write_gguf
from machines import machine_with
from tiny_models import write_chat_model, write_mxfp4_model

from engine.commands import DraftChoice, Load, Mode, Stop, WeightFormat
from engine.errors import NotPossible
from engine.events import Failed, LoadProgress, PlanReady, RoundFinished, Unloaded
from engine.loading.inspected_model import own_model
from engine.loading.planned_load import plan_load
from engine.model.local_model import LocalModel

PLENTY = machine_with(64 << 30)
QUESTION = "What is the sun made of?"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, chat_model: Path) -> Path:
    """The chat model in two types of GGUF."""
    folder = tmp_path_factory.mktemp("gguf")
    write_gguf(chat_model, folder / "f16.gguf", Kind.F16, more={"general.name": "Babbler"})
    write_gguf(chat_model, folder / "q8.gguf", Kind.Q8_0, more={"general.name": "Babbler"})
    return folder


def test_a_file_is_held_as_it_is_stored(session: Session, files: Path) -> None:
    plan = session.load(files / "f16.gguf", draft=DraftChoice.NONE).plan
    pair = session.engine._slot.pair
    assert pair is not None
    assert "f16" in plan.signature
    assert "GiB of weights in F16." in plan.reasons[0]
    assert plan.target_bytes <= pair.target.weight_bytes <= 1.05 * plan.target_bytes


def test_the_text_is_that_of_the_same_weights_in_safetensors(
    session: Session, files: Path, chat_model: Path
) -> None:
    texts = []
    for model in (files / "f16.gguf", chat_model):
        session.load(model, draft=DraftChoice.NONE, weights=WeightFormat.F32)
        texts.append(session.ask(QUESTION, max_tokens=24).token_ids)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("weights", [WeightFormat.Q4, WeightFormat.Q8, WeightFormat.BF16])
def test_it_can_be_requantised(session: Session, files: Path, weights: WeightFormat) -> None:
    plan = session.load(files / "f16.gguf", weights=weights).plan
    assert f"cpu:{weights}".split("_")[0] in plan.signature
    assert session.ask(QUESTION, max_tokens=8).token_ids


def test_target_and_draft_in_either_format(session: Session, files: Path, chat_model: Path) -> None:
    """The same tokens, whatever the files: drafting is allowed, and changes no token."""
    session.load(files / "f16.gguf", draft=DraftChoice.NONE)
    alone = session.ask(QUESTION, max_tokens=24).token_ids
    session.load(files / "f16.gguf", draft=chat_model)
    drafted = session.ask(QUESTION, max_tokens=24)
    assert drafted.token_ids == alone
    assert drafted.stats.accepted > 0
    session.load(chat_model, draft=files / "q8.gguf")
    assert session.ask(QUESTION, max_tokens=24).stats.accepted > 0


def test_a_sidecar_names_the_draft_of_a_file(session: Session, files: Path, tmp_path: Path) -> None:
    target = Path(shutil.copy(files / "f16.gguf", tmp_path / "big.gguf"))
    shutil.copy(files / "q8.gguf", tmp_path / "small.gguf")
    (tmp_path / "big.duotail.json").write_text(json.dumps({"name": "Big", "draft": "small.gguf"}))
    ready = session.load(target)
    assert (ready.model, ready.model_name) == (target, "Big")
    assert ready.plan.draft == "small + lookup"


@pytest.mark.parametrize(("rows", "draft_rows"), [(4096, 5120), (5120, 4096)])
def test_a_draft_file_may_have_other_rows_for_tokens(
    session: Session, tmp_path: Path, rows: int, draft_rows: int
) -> None:
    target = write_chat_model(tmp_path / "Target", vocab_size=rows)
    other = write_chat_model(tmp_path / "Other", seed=3, vocab_size=draft_rows)
    draft = write_gguf(other, tmp_path / "draft.gguf", Kind.F16)
    session.load(target, draft=draft)
    assert session.ask(QUESTION, max_tokens=24).stats.drafted > 0


def test_another_vocabulary_is_refused(files: Path) -> None:
    with pytest.raises(NotPossible, match="different vocabularies"):
        plan_load(Load(files / "f16.gguf", FOLDER_STORIES), PLENTY)


def test_loading_is_told_by_bytes_and_can_be_stopped_inside_a_tensor(
    session: Session, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.model.weights.reader.STRETCH_BYTES", 1 << 14)
    session.load(files / "f16.gguf", draft=DraftChoice.NONE)
    shares = [event.fraction for event in session.of(LoadProgress)]
    assert shares == sorted(shares)
    assert len(shares) > 50
    assert shares[-1] == 1
    embedding = 4096 * 64 * 2 / (files / "f16.gguf").stat().st_size
    with session.holding(LoadProgress, lambda event: 0 < event.fraction < embedding / 2) as hold:
        session.submit(Load(files / "f16.gguf"))
        hold.reached()
        session.submit(Stop())
        after = len(session.events)
        hold.release()
        session.wait(PlanReady, after=after)
    assert [e for e in session.events[after:] if isinstance(e, LoadProgress)] == []


def test_damaged_blocks_are_a_sentence(session: Session, files: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copy(files / "f16.gguf", tmp_path / "damaged.gguf"))
    raw = bytearray(damaged.read_bytes())
    raw[-4096:-4094] = np.float16(np.inf).tobytes()
    damaged.write_bytes(raw)
    session.submit(Load(damaged))
    session.wait(Unloaded)
    failed = session.wait(Failed)
    assert "not numbers" in failed.cause
    assert not failed.bug


@pytest.mark.release(reason="a large model in a process of its own")
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
def test_loading_takes_little_more_memory_than_the_tensors(tmp_path: Path) -> None:
    folder = write_chat_model(
        tmp_path / "Large", hidden_size=1024, intermediate_size=2816, num_hidden_layers=12,
        num_attention_heads=16, num_key_value_heads=4,
    )  # fmt: skip
    file = write_gguf(folder, tmp_path / "large.gguf", Kind.Q4_0)
    child = [sys.executable, str(Path(__file__).with_name("gguf_memory_child.py")), str(file)]
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(child, check=True, capture_output=True, text=True, env=where)
    peak, held, tensors = map(float, done.stdout.split())
    assert tensors > 70e6
    assert peak <= 1.15
    assert 0.95 < held <= 1.05


def test_a_mode_and_a_context_hold_for_files_as_well(files: Path) -> None:
    checked = plan_load(Load(files / "q8.gguf", mode=Mode.PLAIN, context=64), PLENTY)
    assert (checked.plan.mode, checked.plan.context) == (Mode.PLAIN, 64)


def test_the_bundled_model_drafts_for_its_own_file(session: Session, tmp_path: Path) -> None:
    file = write_gguf(FOLDER_TARGET, tmp_path / "duotail.gguf", Kind.F16)
    session.load(file, draft=FOLDER_TARGET)
    finished = session.ask(QUESTION, max_tokens=48)
    stats = finished.stats
    assert stats.accepted >= 3, finished
    # One of those on offer is taken at each depth, but beyond the answer's end, in the last round.
    rounds = session.of(RoundFinished)[:-1]
    assert all(each.accepted_by_depth == each.drafted_by_depth for each in rounds), rounds


def test_published_mxfp4_experts_are_held_as_they_are_stored(tmp_path: Path) -> None:
    """gpt-oss comes in safetensors, but quantised: packing it anew would only lose."""
    model = LocalModel.inspect(write_mxfp4_model(tmp_path, num_local_experts=24))
    assert model.kind == "MXFP4"
    _, weights, fmt = own_model(model, WeightFormat.AUTO)
    assert fmt is WeightFormat.STORED
    assert weights.kind("model.layers.0.mlp.experts.1.up_proj.weight") == "MXFP4"
