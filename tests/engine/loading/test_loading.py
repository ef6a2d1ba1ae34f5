"""What a Load command comes to: which draft, which mode, how much context, or why not."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from engine_session import Session
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from hollow_models import write_hollow_weights
from machines import machine_with
from safetensors.numpy import load_file, save_file
from tiny_models import write_chat_model

import engine.loading.decoder_builder
import engine.service.model_slot
import engine.speculative.sampler
from engine.backend.cpu import native_is_built
from engine.backend.ledger import Purpose
from engine.backend.native.packed_cache import PackedCache, settle
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.commands import DraftChoice, Load, Mode, Stop, Unload
from engine.errors import Absent, UserFixable
from engine.events import Failed, FinishReason, LoadProgress, PlanReady, Unloaded
from engine.loading.planned_load import plan_load
from engine.loading.streamed_weights import StreamedWeights
from engine.machine.facts import CPU
from engine.model.families import open_config
from engine.model.tensors import EMBEDDING, HEAD_IDS
from engine.model.weights.model_weights import ModelWeights
from engine.request import SamplingParams

PLENTY = machine_with(64 << 30)


@pytest.mark.parametrize(
    ("mode", "draft", "runs_as", "names"),
    [
        (Mode.AUTO, DraftChoice.AUTO, Mode.CPU, "Duotail 1M draft + lookup"),
        (Mode.CPU, DraftChoice.AUTO, Mode.CPU, "Duotail 1M draft + lookup"),
        (Mode.PLAIN, DraftChoice.AUTO, Mode.PLAIN, None),
        (Mode.AUTO, DraftChoice.NONE, Mode.PLAIN, None),
        (Mode.CPU, DraftChoice.NONE, Mode.PLAIN, None),
        (Mode.AUTO, DraftChoice.LOOKUP, Mode.CPU, "lookup"),
        (Mode.PLAIN, DraftChoice.LOOKUP, Mode.PLAIN, None),
        (Mode.AUTO, FOLDER_DRAFT, Mode.CPU, "Duotail 1M draft + lookup"),
        (Mode.PLAIN, FOLDER_DRAFT, Mode.PLAIN, None),
    ],
)
def test_modes_and_drafts(
    mode: Mode, draft: DraftChoice | Path, runs_as: Mode, names: str | None
) -> None:
    plan = plan_load(Load(FOLDER_TARGET, draft, mode), PLENTY).summary
    assert (plan.mode, plan.draft) == (runs_as, names)
    assert plan.draft_device == ("CPU" if names else None)
    assert any(memory.draft for memory in plan.memory) == ("1M" in (names or ""))
    assert plan.reasons


def test_dovetail_needs_a_card() -> None:
    with pytest.raises(Absent, match="GPU") as refused:
        plan_load(Load(FOLDER_TARGET, mode=Mode.DOVETAIL), PLENTY)
    assert "dovetail" in refused.value.cause


def test_a_mode_that_is_absent_is_a_failure_in_words(session: Session) -> None:
    session.load(FOLDER_TARGET)
    after = len(session.events)
    session.submit(Load(FOLDER_TARGET, DraftChoice.NONE, mode=Mode.DUO))
    assert session.wait(PlanReady, after=after).plan.mode is Mode.CPU
    failed = session.wait(Failed)
    assert "“duo” needs" in failed.cause
    assert not failed.bug


def test_a_model_without_a_draft_of_its_own_looks_up(chat_model: Path) -> None:
    assert plan_load(Load(chat_model), PLENTY).summary.draft == "lookup"


def test_a_draft_that_went_missing_is_done_without(tmp_path: Path) -> None:
    alone = Path(shutil.copytree(FOLDER_TARGET, tmp_path / "alone"))
    assert plan_load(Load(alone), PLENTY).summary.draft == "lookup"


def with_tokens(folder: Path, change: Callable[[dict[str, int]], dict[str, int]]) -> Path:
    """A copy of the small draft whose tokenizer has other tokens."""
    shutil.copytree(FOLDER_DRAFT, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"] = change(tokenizer["model"]["vocab"])
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


def test_a_draft_with_another_vocabulary_is_refused(tmp_path: Path) -> None:
    def turned_over(vocabulary: dict[str, int]) -> dict[str, int]:
        kept = {token: number for token, number in vocabulary.items() if number < 300}
        others = [token for token in vocabulary if token not in kept]
        return kept | dict(
            zip(others, sorted(vocabulary[each] for each in others)[::-1], strict=True)
        )

    draft = with_tokens(tmp_path / "stranger", turned_over)
    with pytest.raises(UserFixable, match="different vocabularies") as refused:
        plan_load(Load(FOLDER_TARGET, draft), PLENTY)
    assert "Duotail 7M" in refused.value.cause
    assert "lookup" in refused.value.remedy


@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
def test_tokens_that_a_draft_does_not_share_are_never_drafted(
    tmp_path: Path, session: Session
) -> None:
    """As Qwen2.5 drafts for QwQ, which has four tokens more."""

    def swapped(vocabulary: dict[str, int]) -> dict[str, int]:
        first, second = list(vocabulary)[300:302]
        return {**vocabulary, first: vocabulary[second], second: vocabulary[first]}

    whole, draft = tmp_path / "whole", with_tokens(tmp_path / "sibling", swapped)
    shutil.copytree(FOLDER_DRAFT, whole)
    vocabulary = json.loads((whole / "tokenizer.json").read_text(encoding="utf-8"))["model"][
        "vocab"
    ]
    odd = {vocabulary[token] for token in list(vocabulary)[300:302]}
    found = plan_load(Load(FOLDER_TARGET, draft), PLENTY).draft
    assert found is not None
    rows = set(found.weights.float32(HEAD_IDS).astype(int).tolist())
    assert set(vocabulary.values()) - rows == odd
    assert plan_load(Load(FOLDER_TARGET, whole), PLENTY).facts[1].footprint.vocab > len(rows)
    session.load(FOLDER_TARGET, mode=Mode.PLAIN)
    alone = session.ask("Once upon a time", max_tokens=24)
    session.load(FOLDER_TARGET, draft=draft, mode=Mode.CPU)
    drafted = session.ask("Once upon a time", max_tokens=24)
    assert drafted.token_ids == alone.token_ids
    assert sum(drafted.stats.accepted_by_depth) > 0


def test_draws_take_the_threads_that_compute(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model has fewer than there are cores, and a draft beside it the others."""
    asked: list[int | None] = []

    def pool(threads: int | None = None) -> ThreadPool:
        asked.append(threads)
        return shared_pool(threads)

    monkeypatch.setattr(engine.speculative.sampler, "shared_pool", pool)
    monkeypatch.setenv("DUOTAIL_THREADS", "3")
    session.load(FOLDER_TARGET, mode=Mode.PLAIN)
    session.ask("Hello", max_tokens=3)
    assert asked == [3]


@pytest.mark.release(keep=1, reason="every way")
@pytest.mark.parametrize(("rows", "draft_rows"), [(4096, 5120), (5120, 4096)])
@pytest.mark.parametrize("tied", [True, False])
def test_a_draft_may_round_its_vocabulary_up_otherwise(
    session: Session, tmp_path: Path, rows: int, draft_rows: int, tied: bool
) -> None:
    """As in Qwen2.5, where small and large models have one tokenizer and different matrices."""
    target = write_chat_model(tmp_path / "Target", vocab_size=rows)
    draft = write_chat_model(
        tmp_path / "Draft", seed=3, vocab_size=draft_rows, tie_word_embeddings=tied
    )
    hot = SamplingParams(temperature=3.0, seed=1)  # the target takes its odd rows, too
    session.load(target, draft=DraftChoice.NONE)
    alone = session.ask("Hello there", sampling=hot, max_tokens=40)
    assert (max(alone.token_ids or ()) >= 4096) == (rows > 4096)
    session.load(target, draft=draft)
    drafted = session.ask("Hello there", sampling=hot, max_tokens=40)
    assert drafted.stats.drafted > 0
    assert drafted.token_ids == alone.token_ids


# -- context and memory ----------------------------------------------------------------------


def test_the_context_is_the_models_own_unless_told() -> None:
    assert plan_load(Load(FOLDER_TARGET), PLENTY).summary.context == 1024
    assert plan_load(Load(FOLDER_TARGET, context=100), PLENTY).summary.context == 100


@pytest.mark.parametrize("context", [-1, 0, 1025, 10**12])
def test_a_context_out_of_range_is_refused_with_the_range(context: int) -> None:
    with pytest.raises(UserFixable, match="up to 1024") as refused:
        plan_load(Load(FOLDER_TARGET, context=context), PLENTY)
    assert "between 1 and 1024" in refused.value.remedy


def test_the_smallest_context_answers_in_words(session: Session, chat_model: Path) -> None:
    session.load(chat_model, context=1)
    assert session.ask("Hello").reason is FinishReason.ERROR
    assert "the context holds 1." in session.wait(Failed).cause


LLAMA_70B = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}


@pytest.fixture
def nothing_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_arguments: object) -> None:
        pytest.fail("weights were read of a model that cannot be loaded")

    monkeypatch.setattr(engine.service.model_slot, "load", forbidden)


@pytest.mark.usefixtures("nothing_is_allocated")
@pytest.mark.parametrize("weights", ["none", "tiny"])
def test_a_huge_config_around_small_weights_is_refused(
    session: Session, chat_model: Path, tmp_path: Path, weights: str
) -> None:
    folder = Path(shutil.copytree(chat_model, tmp_path / "Giant"))
    (folder / "config.json").write_text(json.dumps(LLAMA_70B))
    if weights == "none":
        (folder / "model.safetensors").unlink()
    session.submit(Load(folder))
    failed = session.wait(Failed)
    assert not failed.bug
    assert ("no weights" if weights == "none" else "80 blocks") in failed.cause


@pytest.mark.skipif(sys.platform == "win32", reason="files have no holes there by default")
@pytest.mark.usefixtures("nothing_is_allocated")
def test_a_model_larger_than_memory_is_refused_with_the_numbers(
    session: Session, chat_model: Path, tmp_path: Path
) -> None:
    """All its bytes are there (as a hole in the file), and no memory on earth holds them here."""
    folder = Path(shutil.copytree(chat_model, tmp_path / "Giant"))
    (folder / "config.json").write_text(json.dumps(LLAMA_70B))
    write_hollow_weights(folder)
    session.submit(Load(folder))
    failed = session.wait(Failed)
    assert not failed.bug
    assert failed.cause.startswith("Giant needs 37")  # 70.6e9 weights of 4.5 bits: 37.0 GiB
    assert "GiB are free" in failed.cause
    assert "smaller model" in failed.remedy


# -- what the weights do not fit ---------------------------------------------------------------


def test_a_tokenizer_with_more_tokens_than_the_model(session: Session, tmp_path: Path) -> None:
    folder = write_chat_model(tmp_path / "Small", vocab_size=320)
    session.load(folder)
    assert session.ask("What is the sun made of?").reason is FinishReason.ERROR
    failed = session.wait(Failed)
    assert "do not belong together" in failed.cause
    assert not failed.bug


def test_a_model_without_a_chat_template_ends_its_turn(session: Session, tmp_path: Path) -> None:
    """The plain "User: ... Assistant:" has no end token: the user's next line is the end."""
    folder = Path(shutil.copytree(FOLDER_TARGET, tmp_path / "plain"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    session.load(folder)
    pair = session.engine._slot.pair
    assert pair is not None
    assert pair.template.stop == ("\nUser:",)
    whole = session.ask("Hello", max_tokens=12)
    inside = whole.text[2:4]
    pair.template.stop = (inside,)  # what this model is sure to write
    ended = session.ask("Hello", max_tokens=12, stop=("\0",))
    assert ended.reason is FinishReason.STOP
    assert ended.text == whole.text[: whole.text.index(inside)]


def test_weights_of_zeros_answer_something(
    session: Session, chat_model: Path, tmp_path: Path
) -> None:
    """All logits equal: ties go to the lowest id, and nothing divides by zero."""
    folder = Path(shutil.copytree(chat_model, tmp_path / "Zero"))
    weights = load_file(folder / "model.safetensors")
    save_file({name: 0 * tensor for name, tensor in weights.items()}, folder / "model.safetensors")
    session.load(folder)
    finished = session.ask("Hello", max_tokens=5)
    assert finished.token_ids == (0,) * 5


# -- quantised once ------------------------------------------------------------------------------


@pytest.fixture
def _kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models are worth keeping, too."""
    monkeypatch.setattr(engine.loading.decoder_builder, "WORTH_KEEPING", 0)


def long_unchanged(folder: Path) -> Path:
    os.utime(folder / "model.safetensors", (1.6e9, 1.6e9))
    return folder


@pytest.mark.usefixtures("_kept_on_disk")
def test_a_model_is_quantised_once(session: Session, chat_model: Path, tmp_path: Path) -> None:
    """Target and draft come from the cache the second time, and say the same."""
    folder = long_unchanged(Path(shutil.copytree(chat_model, tmp_path / "Chat")))
    draft = long_unchanged(write_chat_model(tmp_path / "Draft", seed=3, vocab_size=4128))
    answers, memory, mapped = [], [], []
    for _ in range(2):
        session.load(folder, draft=draft)
        pair = session.engine._slot.pair
        assert pair is not None
        answers.append(session.ask("Hello", max_tokens=24).token_ids)
        held = pair.devices[CPU].ledger.lines()
        weights = [line for line in held if line.purpose is Purpose.WEIGHTS]
        memory.append(sum(line.nbytes - line.mapped for line in weights))
        mapped.append(pair.target.mapped_bytes / pair.target.weight_bytes)
        del pair
        session.submit(Unload())
        session.wait(Unloaded, count=len(answers))
        settle()
    assert answers[0] == answers[1]
    assert mapped[0] == 0
    assert mapped[1] > 0.95
    assert 0 < memory[1] < memory[0] / 20  # the draft's weights are mapped, too


@pytest.mark.usefixtures("_kept_on_disk")
def test_a_load_that_is_stopped_leaves_nothing_on_disk(
    session: Session, chat_model: Path, tmp_path: Path
) -> None:
    folder = long_unchanged(Path(shutil.copytree(chat_model, tmp_path / "Chat")))
    with session.holding(LoadProgress, lambda event: 0 < event.fraction < 0.9) as hold:
        session.submit(Load(folder))
        hold.reached()
        session.submit(Stop())
        hold.release()
    session.wait(Unloaded)
    settle()
    assert list(PackedCache().folder.iterdir()) == []


def test_small_models_take_no_place_on_disk(session: Session) -> None:
    session.load(FOLDER_TARGET)
    assert not PackedCache().folder.exists()


def test_files_that_change_while_they_are_read_are_refused(
    session: Session, chat_model: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(chat_model, tmp_path / "Chat"))
    with session.holding(LoadProgress, lambda event: 0 < event.fraction < 0.9) as hold:
        session.submit(Load(folder))
        hold.reached()
        for file in folder.glob("*.safetensors"):
            os.utime(file, (1_600_000_000, 1_600_000_000))
        hold.release()
    failed = session.wait(Failed)
    assert failed.cause == "The files of Chat changed while they were read."
    session.wait(Unloaded)
    session.load(folder)


@pytest.mark.parametrize("more", [-16, 0, 16])
def test_tables_have_as_many_rows_as_the_target(chat_model: Path, more: int) -> None:
    config = open_config(chat_model)
    stored = ModelWeights.of_folder(config, chat_model)
    rows, whole = config.vocab_size + more, stored.float32(EMBEDDING)
    told: list[int] = []
    weights = StreamedWeights(stored, told.append, lambda: False, rows, (EMBEDDING,))
    table = weights.float32(EMBEDDING)
    assert table.shape == weights.shape(EMBEDDING) == (rows, config.hidden_size)
    shared = min(rows, len(whole))
    np.testing.assert_array_equal(table[:shared], whole[:shared])
    assert not table[shared:].any()
