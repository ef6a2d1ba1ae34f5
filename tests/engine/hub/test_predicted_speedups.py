"""What a draft that is here would bring, by the planner."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_models import Kind, write_gguf
from head_folders import write_head
from hollow_models import LLAMA_13B, write_hollow_model
from tiny_models import write_chat_model

from engine.backend.cpu import native_is_built
from engine.hub.draft_candidates import Vocabularies, candidates
from engine.hub.predictions import Predictions
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.machine.facts import Host, Machine
from engine.machine.speeds import Speeds
from engine.model.config import ModelConfig
from engine.model.local_model import LocalModel

pytestmark = pytest.mark.skipif(not native_is_built(), reason="drafting is not planned without it")

GIB = 2**30
SMALL = {
    "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 8,
}  # fmt: skip


def gains(memory: int = 64) -> Predictions:
    host = Host(8, memory * GIB, memory * GIB, instruction_sets=("avx2",))
    return Predictions(Machine(host), Speeds({}))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return LocalModel.inspect(write_hollow_model(tmp_path_factory.mktemp("13b"), LLAMA_13B))


def test_a_small_draft_pays_and_one_nearly_as_large_does_not(
    large: LocalModel, tmp_path: Path
) -> None:
    small = LocalModel.inspect(write_hollow_model(tmp_path / "small", LLAMA_13B | SMALL))
    wide = LLAMA_13B | {"num_hidden_layers": 36}
    slow = LocalModel.inspect(write_hollow_model(tmp_path / "slow", wide))
    much, little = gains().speedup(large, small), gains().speedup(large, slow)
    assert much is not None
    assert little is not None
    assert 1.2 < much < 8
    assert little < 1.1


def test_a_head_pays_too(tmp_path: Path) -> None:
    deep = LLAMA_13B | SMALL | {"num_hidden_layers": 200}
    target = LocalModel.inspect(write_hollow_model(tmp_path / "deep", deep))
    assert isinstance(target.config, ModelConfig)
    head = LocalModel.inspect(write_head(tmp_path / "head", "our linear", target.config))
    gain = gains().speedup(target, head)
    assert gain is not None
    assert gain > 1.2


def test_where_the_target_does_not_fit_nobody_knows(large: LocalModel, tmp_path: Path) -> None:
    small = LocalModel.inspect(write_hollow_model(tmp_path / "small", LLAMA_13B | SMALL))
    assert gains(memory=2).speedup(large, small) is None


def test_candidates_that_fit_are_told_with_it(chat_model: Path, tmp_path: Path) -> None:
    folder = write_chat_model(tmp_path / "small", hidden_size=32, num_hidden_layers=1)
    file = write_gguf(folder, tmp_path / "small.gguf", Kind.Q8_0)
    kept = [KeptModel(path, path.name, ModelOrigin.IN_PLACE, 1) for path in (folder, file)]
    found = candidates(chat_model, kept, Vocabularies(), gains().speedup)
    assert len(found) == 2
    assert all(each.speedup is not None and each.speedup > 0 for each in found)
