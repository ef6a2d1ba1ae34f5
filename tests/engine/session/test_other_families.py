"""Models of families without a decoder of our own, through the engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from engine_session import Session, answer_of, user
from folder_models import FOLDER_TARGET
from machines import machine_with

from engine.commands import DraftChoice, Load, Mode, Stop, WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.events import Failed, LoadProgress, Unloaded
from engine.loading.inspected_model import own_model
from engine.loading.planned_load import plan_load
from engine.model.local_model import LocalModel

PLENTY = machine_with(64 << 30)


@pytest.fixture(scope="module")
def stable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random StableLM with a trained model's tokenizer and template."""
    folder = tmp_path_factory.mktemp("other") / "Stable"
    torch.manual_seed(1)
    config = transformers.StableLmConfig(
        vocab_size=4096, hidden_size=64, intermediate_size=112, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=640,
        bos_token_id=1, eos_token_id=4,
    )  # fmt: skip
    transformers.StableLmForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER_TARGET / name, folder)
    return folder


def test_it_answers_plainly_and_says_why(session: Session, stable: Path) -> None:
    plan = session.load(stable).plan
    assert (plan.mode, plan.draft) == (Mode.PLAIN, None)
    assert "no decoder of its own for “stablelm” models" in plan.caveat
    assert plan.caveat in plan.reasons
    assert plan.signature.startswith("transformers:")
    assert "/stablelm/float32" in plan.signature
    pair = session.engine._slot.pair
    assert pair is not None
    assert pair.target.weight_bytes == pytest.approx(plan.target_bytes, rel=0.02)
    assert session.of(LoadProgress)[-1].fraction == 1
    first = session.ask("Hello", max_tokens=6)
    assert first.stats.committed == 6
    again = session.ask(user("Hello"), answer_of(first), user("And now?"), max_tokens=4)
    assert again.stats.reused_tokens >= first.stats.prompt_tokens


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.CPU, Mode.PLAIN])
def test_every_mode_is_plain(stable: Path, mode: Mode) -> None:
    for draft in (DraftChoice.AUTO, DraftChoice.LOOKUP, FOLDER_TARGET):
        plan = plan_load(Load(stable, draft, mode), PLENTY).summary
        assert (plan.mode, plan.draft) == (Mode.PLAIN, None)
        assert not any(memory.draft for memory in plan.memory)


def test_it_is_held_in_16_bits_where_32_do_not_fit(stable: Path) -> None:
    needed = plan_load(Load(stable), PLENTY).summary.target_bytes
    assert needed == pytest.approx(4 * LocalModel.inspect(stable).weight_bytes / 4, rel=0.02)
    halved = plan_load(Load(stable, context=16), machine_with(needed)).summary
    assert halved.target_bytes == needed // 2
    with pytest.raises(UserFixable, match="GiB are free"):
        plan_load(Load(stable), machine_with(needed // 4))


def test_it_cannot_be_quantised_and_cannot_draft(stable: Path) -> None:
    with pytest.raises(NotPossible, match="held in q4_0"):
        plan_load(Load(stable, weights=WeightFormat.Q4), PLENTY)
    with pytest.raises(NotPossible, match="cannot draft"):
        plan_load(Load(FOLDER_TARGET, stable), PLENTY)


def test_its_format_is_taken_as_wished_and_our_decoder_refuses_it(stable: Path) -> None:
    whole = plan_load(Load(stable), PLENTY).summary.target_bytes
    halved = plan_load(Load(stable, weights=WeightFormat.BF16), PLENTY).summary
    assert halved.target_bytes == whole // 2
    with pytest.raises(NotPossible, match="no decoder of its own for “stablelm”"):
        own_model(LocalModel.inspect(stable), WeightFormat.AUTO)


def test_a_load_of_it_can_be_called_off(session: Session, stable: Path) -> None:
    with session.holding(LoadProgress, lambda event: 0 < event.fraction < 0.9) as hold:
        session.submit(Load(stable))
        hold.reached()
        session.submit(Stop())
        hold.release()
    session.wait(Unloaded)
    assert session.of(Failed) == []


def test_a_family_nobody_knows_is_a_sentence(stable: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stable, tmp_path / "odd"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "nobodys", "auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserFixable, match="its family is “nobodys”"):
        plan_load(Load(folder), PLENTY)
