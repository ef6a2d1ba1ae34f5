"""Trainings to the end: the result, resuming, a kill in the middle, a full disk."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from training_runs import SHORT, run, settings, weights_of, write_data

from engine.backend.decoder import Decoder
from engine.backend.sequence import SequenceState
from engine.errors import NotPossible, UserFixable
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.tensors import borrowed_tensors, expected_tensors
from engine.train import answers, recording
from engine.train.checkpoint import FILE
from engine.train.draft_folder import _taps as tapped
from engine.train.draft_folder import describe_draft, draft_config
from engine.train.recording import Recorded
from engine.train.settings import DraftKind, DraftShape
from engine.train.trainer import Paused
from engine.train.training import train


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data.jsonl")


@pytest.fixture(autouse=True)
def _threads() -> None:
    torch.set_num_threads(1)


@pytest.mark.release(keep=1, reason="every kind of head is trained")
@pytest.mark.parametrize("kind", [DraftKind.DGF, DraftKind.EAGLE, DraftKind.EAGLE3])
def test_a_head_learns_and_is_written(
    chat_model: Path, data: Path, tmp_path: Path, kind: DraftKind
) -> None:
    """Less is lost than over the same batches without learning.

    A single batch says little of that: a head that least squares begin has little left to learn.
    """
    schedule = replace(SHORT, tokens=6000)
    wanted = settings(
        chat_model, data, tmp_path / "out", shape=DraftShape(kind, 2),
        schedule=schedule, recording=tmp_path / "kept",
    )  # fmt: skip
    still = replace(wanted, out=tmp_path / "still", schedule=replace(schedule, rate=1e-12))
    begun, _ = run(still)
    result, _ = run(wanted)
    assert result.progress.steps == begun.progress.steps
    assert result.progress.loss < begun.progress.loss
    assert result.progress.tokens >= 6000
    target = open_config(chat_model)
    config = draft_config(describe_draft(wanted.shape, target, "", ""), target)
    expected = expected_tensors(config)
    for name in borrowed_tensors(config):
        expected.pop(name, None)
    weights = weights_of(result.out)
    assert {name: tensor.shape for name, tensor in weights.items()} == expected
    assert result.parameters == sum(tensor.size for tensor in weights.values())
    described = json.loads((result.out / "config.json").read_text())
    assert described["architectures"] == ["DuotailDraftHead"]
    assert described["num_hidden_layers"] == 2
    assert config.fusion is not None
    assert described["duotail_head"]["fusion"] == config.fusion.kind
    model = LocalModel.inspect(result.out)
    assert isinstance(model.config, DraftOnly)
    assert model.config.for_target(target, "head", "Babbler") == config
    assert sorted(file.name for file in result.out.iterdir()) == [
        "config.json", "duotail.json", "model.safetensors",
    ]  # fmt: skip


@pytest.mark.release(reason="a whole training")
def test_a_distilled_model_is_a_model(chat_model: Path, data: Path, tmp_path: Path) -> None:
    shape = DraftShape(DraftKind.MODEL, blocks=1, hidden=32, heads=2, intermediate=48)
    result, reports = run(settings(chat_model, data, tmp_path / "out", shape=shape))
    assert result.progress.loss < reports[0].progress.loss
    model = LocalModel.inspect(result.out)
    assert isinstance(model.config, ModelConfig)
    assert model.config.num_layers == 1
    assert model.tokenizer().vocabulary == LocalModel.inspect(chat_model).tokenizer().vocabulary
    begun = DraftShape(DraftKind.MODEL, 1, 32, 2, 48, begin=result.out)
    again, _ = run(settings(chat_model, data, tmp_path / "again", shape=begun))
    assert again.progress.loss < result.progress.loss


@pytest.mark.release(reason="a whole training")
def test_with_muon_it_learns_more_in_the_same_time(
    chat_model: Path, data: Path, tmp_path: Path
) -> None:
    shape = DraftShape(DraftKind.MODEL, blocks=1, hidden=32, heads=2, intermediate=48)
    losses = []
    for muon in (0.0, 0.02):
        schedule = replace(SHORT, tokens=16_000, muon=muon)
        out = tmp_path / str(muon)
        result, _ = run(settings(chat_model, data, out, shape=shape, schedule=schedule))
        losses.append(result.progress.loss)
    assert losses[1] < losses[0]


@pytest.mark.release(keep=1, reason="every kind of draft is trained")
@pytest.mark.parametrize("muon", [0.0, 0.02])
def test_stopped_and_resumed_is_as_if_never_stopped(
    chat_model: Path, data: Path, tmp_path: Path, muon: float
) -> None:
    schedule = replace(SHORT, muon=muon)
    kept = tmp_path / "kept"  # what is recorded is there, so that only steps are asked about
    wanted = settings(chat_model, data, tmp_path / "whole", schedule=schedule, recording=kept)
    whole, _ = run(wanted)
    steps = 0

    def after_five() -> bool:
        nonlocal steps
        steps += 1
        return steps % 5 == 0

    reached: list[int] = []
    result = None
    while result is None:
        wanted = replace(wanted, out=tmp_path / "parts", resume=bool(reached))
        try:
            result = train(wanted, lambda _: None, after_five)
        except Paused as paused:
            reached.append(paused.progress.steps)
    assert reached == [5 * (sitting + 1) for sitting in range(len(reached))]
    assert len(reached) > 1
    assert result.progress.steps == whole.progress.steps
    assert result.progress.loss == whole.progress.loss
    _assert_same(result.out, whole.out)
    assert not (result.out / FILE).exists()


def _assert_same(one: Path, other: Path) -> None:
    ours, theirs = weights_of(one), weights_of(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        np.testing.assert_array_equal(tensor, theirs[name])


def _steps_kept(folder: Path) -> int:
    with safe_open(folder / FILE, "pt") as stream:
        steps: int = json.loads(stream.metadata()["progress"])["steps"]
        return steps


_CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from training_runs import settings
from engine.train.training import train
wanted = settings(Path({model!r}), Path({data!r}), Path({out!r}), every_steps=4)
def stopped():
    global steps
    steps += 1
    if steps == 7:
        print("seven", flush=True)
        sys.stdin.read()
    return False
steps = 0
train(wanted, lambda _: None, stopped)
"""


@pytest.mark.release(reason="kills a process")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing kills like that here")
def test_a_killed_training_goes_on_from_its_checkpoint(
    chat_model: Path, data: Path, tmp_path: Path
) -> None:
    whole, _ = run(settings(chat_model, data, tmp_path / "whole"))
    out = tmp_path / "killed"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[3])]
    code = _CHILD.format(paths=paths, model=str(chat_model), data=str(data), out=str(out))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "seven\n"  # there it waits, and cannot run away from us
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert not (out / "config.json").exists()
    kept = _steps_kept(out)
    assert kept == 4
    result, _ = run(settings(chat_model, data, out, resume=True))
    assert result.progress.steps == whole.progress.steps > kept
    _assert_same(result.out, whole.out)


@pytest.mark.release(reason="several trainings")
def test_a_full_disk_leaves_the_last_checkpoint(
    chat_model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, synced = tmp_path / "out", 0

    def full(_file: int) -> None:
        nonlocal synced
        synced += 1
        if synced > 2:  # what was recorded, and one checkpoint
            raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(recording.os, "fsync", full)
        with pytest.raises(UserFixable, match="disk is full") as told:
            run(settings(chat_model, data, out, every_steps=3))
    assert "--resume" in told.value.remedy
    assert sorted(file.name for file in out.iterdir()) == ["recording", FILE]
    assert _steps_kept(out) == 3
    result, _ = run(settings(chat_model, data, out, resume=True))
    whole, _ = run(settings(chat_model, data, tmp_path / "whole"))
    _assert_same(result.out, whole.out)


def test_nothing_that_is_there_is_lost(chat_model: Path, data: Path, tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    wanted = settings(chat_model, data, out, recording=kept)
    with pytest.raises(UserFixable, match="no unfinished training"):
        run(replace(wanted, resume=True))
    run(replace(wanted, out=tmp_path / "another"))
    with pytest.raises(Paused):
        train(wanted, lambda _: None, lambda: True)
    with pytest.raises(UserFixable, match="unfinished"):
        run(wanted)
    with pytest.raises(UserFixable, match="other data or settings"):
        run(replace(wanted, resume=True, batch=256))
    with safe_open(out / FILE, "pt") as kept_one:
        header = kept_one.metadata()
        tensors = {name: kept_one.get_tensor(name) for name in kept_one.keys()}  # noqa: SIM118
    save_file(tensors, out / FILE, {**header, "version": "0"})
    with pytest.raises(UserFixable, match="cannot be read"):
        run(replace(wanted, resume=True))
    (out / FILE).write_bytes(b"cut off")
    with pytest.raises(UserFixable, match="cannot be read"):
        run(replace(wanted, resume=True))
    (out / FILE).unlink()
    result, _ = run(wanted)
    with pytest.raises(UserFixable, match="holds a model already"):
        run(settings(chat_model, data, result.out))


def test_wishes_that_cannot_be_met_are_told(chat_model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserFixable, match="context of 640"):
        run(settings(chat_model, data, out, longest=641))
    with pytest.raises(UserFixable, match="no device"):
        run(settings(chat_model, data, out, device="cuda:7"))
    odd = DraftShape(DraftKind.MODEL, hidden=30, heads=4)
    with pytest.raises(UserFixable, match="attention heads"):
        run(settings(chat_model, data, out, shape=odd))
    begun = DraftShape(DraftKind.DGF, begin=chat_model)
    with pytest.raises(UserFixable, match="another shape"):
        run(settings(chat_model, data, out, shape=begun))
    assert not out.exists()
    with pytest.raises(UserFixable, match="cannot be made"):
        run(settings(chat_model, data, data / "out"))


def test_an_eagle3_head_taps_a_low_a_middle_and_a_high_layer() -> None:
    taps = {layers: tapped(DraftKind.EAGLE3, layers) for layers in (3, 7, 8, 32)}
    assert taps == {3: [0, 1, 2], 7: [0, 3, 6], 8: [1, 3, 4], 32: [1, 15, 28]}
    assert tapped(DraftKind.DGF, 2) == []
    with pytest.raises(NotPossible, match="too few layers"):
        tapped(DraftKind.EAGLE3, 2)


@pytest.mark.release(reason="several trainings")
def test_an_error_of_the_target_ends_the_training(
    chat_model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was recorded by then is kept, and the next start records only what is missing."""
    whole, asked = answers._computed, list[int]()

    def breaking(target: Decoder, state: SequenceState, index: int, *rest: Any) -> Recorded:
        asked.append(index)
        if len(asked) == 7:
            raise RuntimeError("the target is gone")
        return whole(target, state, index, *rest)

    monkeypatch.setattr(answers, "_computed", breaking)
    out = tmp_path / "out"
    with pytest.raises(RuntimeError, match="the target is gone"):
        run(settings(chat_model, data, out))
    run(settings(chat_model, data, out, resume=True))
    assert asked[6:].count(asked[6]) == 2
    assert not set(asked[:6]) & set(asked[7:])


@pytest.mark.release(reason="every kind of draft is trained")
def test_a_draft_of_few_rows_of_every_kind(chat_model: Path, data: Path, tmp_path: Path) -> None:
    for kind in DraftKind:
        shape = DraftShape(kind, hidden=32, heads=2, intermediate=48, rows=40)
        result, _ = run(settings(chat_model, data, tmp_path / kind, shape=shape))
        weights = weights_of(result.out)
        ids = weights["lm_head.ids"].astype(int).tolist()
        assert ids == sorted(set(ids))
        assert len(ids) == len(weights["lm_head.weight"]) == 40
        assert 0.5 < result.covered <= 1
        assert LocalModel.inspect(result.out).config.kind in ("dgf", "linear", "eagle3", "model")


@pytest.mark.release(reason="a whole training")
def test_it_begins_with_a_draft_of_other_rows(chat_model: Path, data: Path, tmp_path: Path) -> None:
    """Rows of tokens that both propose are taken over, the others begin as the target's."""
    still = replace(SHORT, tokens=1, rate=1e-12, warm_up=1)
    made = []
    others = tmp_path / "others.jsonl"
    others.write_text(data.read_text().replace("sea", "fork").replace("boat", "quiz"))
    for name, begin in (("target", None), ("other", None), ("begun", "other")):
        shape = DraftShape(rows=40, begin=tmp_path / begin if begin else None)
        schedule = SHORT if name == "other" else still
        source = others if name == "other" else data
        run(settings(chat_model, source, tmp_path / name, shape=shape, schedule=schedule))
        stored = weights_of(tmp_path / name)
        made.append(dict(zip(stored["lm_head.ids"], stored["lm_head.weight"], strict=True)))
    target, other, begun = made
    assert len(target.keys() & other.keys()) > 20
    assert target.keys() - other.keys()
    for token, row in begun.items():
        assert row == pytest.approx(other.get(token, target[token]), rel=1e-2, abs=1e-4)
    both = [token for token in begun if token in other]
    assert any(abs(other[token] - target[token]).max() > 1e-3 for token in both), "it has learned"


@pytest.mark.release(reason="several trainings")
def test_one_recording_serves_several_drafts(chat_model: Path, data: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first, _ = run(settings(chat_model, data, tmp_path / "one", recording=kept))
    shards = {file: file.stat().st_mtime_ns for file in kept.iterdir()}
    run(settings(chat_model, data, tmp_path / "two", recording=kept, shape=DraftShape(blocks=2)))
    assert {file: file.stat().st_mtime_ns for file in kept.iterdir()} == shards
    again, _ = run(settings(chat_model, data, tmp_path / "again", recording=kept))
    _assert_same(first.out, again.out)
    with pytest.raises(UserFixable, match="recorded with another model"):
        run(settings(chat_model, data, tmp_path / "other", recording=kept, longest=63))
    next(iter(shards)).write_bytes(b"cut off")
    with pytest.raises(UserFixable, match="is damaged"):
        run(settings(chat_model, data, tmp_path / "damaged", recording=kept))
