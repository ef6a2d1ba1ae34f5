"""Draft heads in a load: paired with a target, held beside it without its matrices twice."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_session import Session, answer_of, user
from folder_models import FOLDER_TARGET
from head_folders import LAYOUTS, write_head
from machines import machine_with
from tiny_models import write_chat_model, write_model

from engine.backend.cpu import native_is_built
from engine.backend.ledger import Held, Ledger, Purpose
from engine.backend.simulated.spec import DEVICE
from engine.commands import DraftChoice, Load, Mode, Stop, Unload, WeightFormat
from engine.errors import NotPossible
from engine.events import Finished, LoadProgress, PlanReady, Unloaded
from engine.loading.load import LoadedPair
from engine.loading.planned_load import plan_load
from engine.machine.facts import CPU
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.tensors import EMBEDDING, HEAD, HEAD_IDS
from engine.plan.footprint import held_bytes
from engine.request import SamplingParams

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 2**30
PLENTY = machine_with(64 * GIB)
HOT = SamplingParams(temperature=3.0, seed=5)
"""The noise decides, and draft and target share it: even a random head is right now and then."""
QUESTION = "Tell me a story about a fox."


@pytest.fixture(scope="module")
def config() -> ModelConfig:
    return open_config(FOLDER_TARGET)


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory, config: ModelConfig) -> dict[str, Path]:
    """One in every layout, for a trained model."""
    folder = tmp_path_factory.mktemp("heads")
    return {name: write_head(folder / name, name, config) for name in LAYOUTS}


@pytest.fixture(scope="module")
def reference() -> Iterator[Finished]:
    """What the target writes alone."""
    session = Session()
    session.load(FOLDER_TARGET, mode=Mode.PLAIN)
    yield story(session)
    session.close()


def story(session: Session, id: str = "a", **wishes: Any) -> Finished:  # noqa: A002
    wishes = {"sampling": HOT, "max_tokens": 40, **wishes}
    return session.ask(QUESTION, id=id, **wishes)


def pair_of(session: Session) -> LoadedPair:
    pair = session.engine._slot.pair
    assert pair is not None
    return pair


def lines(session: Session, device: str = CPU) -> list[Held]:
    return pair_of(session).devices[device].ledger.lines()


def held(session: Session, owner: str, purpose: Purpose, device: str = CPU) -> int:
    found = [
        line for line in lines(session, device) if (line.owner, line.purpose) == (owner, purpose)
    ]
    return sum(line.nbytes for line in found)


# -- one text ----------------------------------------------------------------------------------


@pytest.mark.release(keep=4, reason="every head")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "wishes",
    [
        {"mode": Mode.CPU},
        {"mode": Mode.DOVETAIL, "simulate_gpu": GIB, "layers_on_gpu": 0},
        {"mode": Mode.DOVETAIL, "simulate_gpu": GIB, "layers_on_gpu": 3},
        {"mode": Mode.DUO, "simulate_gpu": GIB},
    ],
    ids=["cpu", "draft there", "split", "ahead"],
)
def test_the_text_is_the_targets_own(
    session: Session,
    heads: dict[str, Path],
    reference: Finished,
    layout: str,
    wishes: dict[str, Any],
) -> None:
    plan = session.load(FOLDER_TARGET, draft=heads[layout], **wishes).plan
    assert (plan.mode, plan.draft) == (wishes["mode"], f"{layout} + lookup")
    assert any(memory.draft for memory in plan.memory)
    written = story(session)
    assert written.token_ids == reference.token_ids
    assert written.stats.drafted > 0
    assert sum(written.stats.accepted_by_depth) > 0


def test_a_conversation_goes_on_after_a_change_of_drafts(
    session: Session, heads: dict[str, Path], reference: Finished
) -> None:
    """Features of what was written before are there again whichever way it came about."""
    turns = (answer_of(reference), user("And then?"))
    expected: list[object] = []
    for draft in (DraftChoice.NONE, heads["dgf"], heads["eagle3"], heads["dgf"]):
        session.load(FOLDER_TARGET, draft=draft)
        first = story(session)
        second = session.ask(QUESTION, *turns, id="b", sampling=HOT, max_tokens=30)
        expected.append((first.token_ids, second.token_ids))
        assert (second.stats.drafted > 0) == (draft is not DraftChoice.NONE)
    assert len(set(map(str, expected))) == 1


def test_a_head_may_see_less_than_its_target(
    session: Session, tmp_path: Path, config: ModelConfig, reference: Finished
) -> None:
    short = write_head(tmp_path / "short", "eagle3", config, max_position_embeddings=24)
    session.load(FOLDER_TARGET, draft=short)
    assert story(session).token_ids == reference.token_ids


# -- memory ------------------------------------------------------------------------------------


@pytest.fixture
def ledgers(monkeypatch: pytest.MonkeyPatch) -> list[Ledger]:
    """Every ledger of this test."""
    opened: list[Ledger] = []
    honest: Callable[..., None] = Ledger.__init__

    def watched(self: Ledger, *arguments: Any, **named: Any) -> None:
        honest(self, *arguments, **named)
        opened.append(self)

    monkeypatch.setattr(Ledger, "__init__", watched)
    return opened


def own_bytes(folder: Path) -> int:
    """What a head holds of its own, in 8 bits."""
    draft = plan_load(Load(FOLDER_TARGET, folder), PLENTY).draft
    assert draft is not None
    shapes = {name: draft.weights.shape(name) for name in draft.weights.names()}
    return sum(
        held_bytes("Q8_0" if len(shape) == 2 else "F32", shape)
        for name, shape in shapes.items()
        if name not in draft.lent
    )


@pytest.mark.release(keep=1, reason="every head")
@pytest.mark.parametrize("layout", ["dgf", "eagle3", "eagle2"])
def test_what_is_the_targets_is_held_once(
    session: Session, heads: dict[str, Path], config: ModelConfig, layout: str
) -> None:
    session.load(FOLDER_TARGET, draft=heads[layout])
    matrix = held_bytes("Q8_0", (config.vocab_size, config.hidden_size))
    weights = held(session, "draft", Purpose.WEIGHTS)
    assert weights == pytest.approx(own_bytes(heads[layout]), abs=matrix / 20)


def test_on_another_device_it_is_held_there_as_well(
    session: Session, heads: dict[str, Path], config: ModelConfig
) -> None:
    session.load(
        FOLDER_TARGET, draft=heads["dgf"], mode=Mode.DOVETAIL, simulate_gpu=GIB, layers_on_gpu=0
    )
    matrix = held_bytes("Q8_0", (config.vocab_size, config.hidden_size))
    count = 1 if config.tie_word_embeddings else 2
    there = held(session, "draft", Purpose.WEIGHTS, DEVICE)
    assert there == pytest.approx(own_bytes(heads["dgf"]) + count * matrix, abs=matrix / 20)
    assert held(session, "draft", Purpose.WEIGHTS) == 0


@pytest.mark.release(keep=1, reason="every format")
@pytest.mark.parametrize("wish", [WeightFormat.Q4, WeightFormat.Q8, WeightFormat.BF16])
def test_borrowed_matrices_keep_the_targets_format(
    session: Session, heads: dict[str, Path], wish: WeightFormat
) -> None:
    """The head's own are 8 bits wide, whatever the target's are."""
    session.load(FOLDER_TARGET, weights=wish, mode=Mode.PLAIN)
    alone = story(session)
    session.load(FOLDER_TARGET, weights=wish, draft=heads["dgf"])
    assert story(session).token_ids == alone.token_ids
    own = held(session, "draft", Purpose.WEIGHTS)
    assert own == pytest.approx(own_bytes(heads["dgf"]), rel=0.1)


def test_features_are_the_targets_and_in_the_ledger(
    session: Session, heads: dict[str, Path], config: ModelConfig
) -> None:
    session.load(FOLDER_TARGET, draft=heads["eagle3"])
    context = pair_of(session).plan.context
    width = 3 * config.hidden_size
    assert held(session, "target", Purpose.FEATURES) >= context * width * 2
    session.load(FOLDER_TARGET)
    assert held(session, "target", Purpose.FEATURES) == 0


def test_a_load_of_a_head_is_called_off_at_once(
    session: Session, heads: dict[str, Path], ledgers: list[Ledger]
) -> None:
    with session.holding(LoadProgress, lambda event: "dgf" in event.stage) as hold:
        session.submit(Load(FOLDER_TARGET, heads["dgf"]))
        hold.reached()
        assert sum(ledger.held for ledger in ledgers) > 0  # the target
        session.submit(Stop())
        hold.release()
        session.wait(Unloaded)
    assert not session.of(PlanReady)
    gc.collect()
    assert [ledger.held for ledger in ledgers] == [0] * len(ledgers)


def test_unload_gives_everything_back(
    session: Session, heads: dict[str, Path], ledgers: list[Ledger]
) -> None:
    session.load(
        FOLDER_TARGET, draft=heads["eagle3"], mode=Mode.DOVETAIL, simulate_gpu=GIB,
        layers_on_gpu=2,
    )  # fmt: skip
    story(session)
    session.submit(Unload())
    session.wait(Unloaded)
    gc.collect()
    assert [ledger.held for ledger in ledgers] == [0] * len(ledgers)


# -- what is refused ---------------------------------------------------------------------------


def test_a_head_is_no_chat_model(heads: dict[str, Path]) -> None:
    with pytest.raises(NotPossible, match="draft head for Some target, not a model") as refused:
        plan_load(Load(heads["dgf"]), PLENTY)
    assert "as its draft" in refused.value.remedy


def test_a_head_of_another_model(tmp_path: Path, heads: dict[str, Path]) -> None:
    target = write_chat_model(tmp_path / "target")
    with pytest.raises(NotPossible, match="cannot draft for target"):
        plan_load(Load(target, heads["dgf"]), PLENTY)
    assert plan_load(Load(target, heads["dgf"], Mode.PLAIN), PLENTY).draft is None


def test_a_head_for_a_model_of_another_family(tmp_path: Path, heads: dict[str, Path]) -> None:
    target = write_model(tmp_path / "target", "stablelm", vocab_size=4096)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER_TARGET / name, target)
    with pytest.raises(NotPossible, match="no hidden states to draft from"):
        plan_load(Load(target, heads["dgf"]), PLENTY)


def test_a_sidecar_may_name_a_head(tmp_path: Path, heads: dict[str, Path]) -> None:
    target = Path(shutil.copytree(FOLDER_TARGET, tmp_path / "mine"))
    shutil.copytree(heads["dgf"], target / "head")
    (target / "duotail.json").write_text(json.dumps({"name": "Mine", "draft": "head"}))
    assert plan_load(Load(target), PLENTY).summary.draft == "head + lookup"


def test_an_experts_model_and_a_gemma_may_have_heads(tmp_path: Path) -> None:
    for family in ("qwen3_moe", "gemma3_text"):
        target = write_chat_model(tmp_path / family, family, num_hidden_layers=6)
        head = write_head(tmp_path / f"head of {family}", "dgf", open_config(target))
        draft = plan_load(Load(target, head), PLENTY).draft
        assert draft is not None
        assert draft.lent.keys() >= {EMBEDDING}


def test_output_rows_of_a_list_are_taken_from_the_target(
    config: ModelConfig, heads: dict[str, Path]
) -> None:
    """A head that names its tokens and has no rows of its own uses the target's for them."""
    draft = plan_load(Load(FOLDER_TARGET, heads["our borrowed rows"]), PLENTY).draft
    target = plan_load(Load(FOLDER_TARGET, DraftChoice.NONE), PLENTY).inspection.target
    assert draft is not None
    ids = draft.weights.float32(HEAD_IDS).astype(int)
    matrix = EMBEDDING if config.tie_word_embeddings else HEAD
    assert np.array_equal(draft.weights.float32(HEAD), target.weights.float32(matrix)[ids])
    assert HEAD not in draft.lent
    assert draft.facts.footprint.vocab == len(ids) < config.vocab_size
