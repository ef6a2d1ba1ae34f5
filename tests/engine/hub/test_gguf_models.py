"""A GGUF file, a part of a split one, or a folder of them as a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from gguf_models import Kind, write_gguf
from tiny_models import write_chat_model

from engine.errors import UserFixable
from engine.hub.local import resolve_model
from engine.model.local_model import LocalModel
from engine.model.model_files import SeveralModels, is_gguf, models_in
from engine.model.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, chat_model: Path) -> Path:
    """A folder with the chat model whole and split."""
    folder = tmp_path_factory.mktemp("gguf")
    more = {"general.name": "Babbler 0.1", "general.file_type": 7}
    write_gguf(chat_model, folder / "babbler-q8.gguf", Kind.Q8_0, more=more)
    write_gguf(chat_model, folder / "split.gguf", Kind.F16, parts=12)
    return folder


@pytest.fixture
def alone(made: Path, tmp_path: Path) -> Path:
    """A folder with one of them only."""
    return Path(shutil.copy(made / "babbler-q8.gguf", tmp_path / "babbler-q8.gguf"))


def test_a_file_is_a_model(alone: Path, chat_model: Path) -> None:
    model = LocalModel.inspect(alone)
    assert (model.path, model.name, model.kind) == (alone, "babbler-q8", "Q8_0")
    assert model.draft is None
    ours, theirs = model.tokenizer(), Tokenizer.open(chat_model)
    assert ours.encode_text("Why 42 skies?") == theirs.encode_text("Why 42 skies?")
    assert model.template().can_think == LocalModel.inspect(chat_model).template().can_think
    whole = LocalModel.inspect(chat_model)
    assert 0.25 < model.weight_bytes / whole.weight_bytes < 0.3


def test_every_part_of_a_split_model_is_the_model(made: Path) -> None:
    parts = sorted(made.glob("split-*"))
    assert len(parts) == 3
    models = [LocalModel.inspect(part) for part in parts]
    assert {model.name for model in models} == {"split"}
    assert {model.kind for model in models} == {"F16"}
    assert len({model.weight_bytes for model in models}) == 1


def test_a_folder_with_one_model_is_that_model(alone: Path) -> None:
    (alone.parent / "mmproj-babbler.gguf").write_bytes(b"GGUF")  # only sees pictures
    (alone.parent / "README.md").write_text("Hello")
    model = LocalModel.inspect(alone.parent)
    assert (model.path, model.name) == (alone.parent, "babbler-q8")


def test_a_folder_with_several_asks_to_choose(made: Path) -> None:
    with pytest.raises(SeveralModels, match="holds 2 models") as several:
        LocalModel.inspect(made)
    assert [file.name for file in several.value.files] == [
        "babbler-q8.gguf", "split-00001-of-00003.gguf",
    ]  # fmt: skip
    assert "Choose one" in several.value.remedy
    assert models_in(made) == several.value.files


def test_safetensors_go_before_gguf_files(chat_model: Path, made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(chat_model, tmp_path / "Both"))
    shutil.copy(made / "babbler-q8.gguf", folder)
    assert LocalModel.inspect(folder).gguf is None


def test_a_file_is_known_by_how_it_begins(alone: Path) -> None:
    blob = alone.rename(alone.with_name("sha256-0123"))
    assert is_gguf(blob)
    assert LocalModel.inspect(blob).name == "Babbler 0.1"
    link = alone.with_name("link.gguf")
    link.symlink_to(blob)
    assert resolve_model(str(link)) == link


@pytest.mark.parametrize("sidecar", ["duotail.json", "babbler-q8.duotail.json"])
def test_a_sidecar_names_model_and_draft(alone: Path, made: Path, sidecar: str) -> None:
    draft = Path(shutil.copy(made / "babbler-q8.gguf", alone.parent / "small.gguf"))
    if sidecar == "duotail.json":  # which speaks of the only model in its folder
        (alone.parent / "drafts").mkdir()
        draft = draft.rename(alone.parent / "drafts" / "small.gguf")
    relative = str(draft.relative_to(alone.parent))
    described = json.dumps({"name": "Mine", "draft": relative})
    (alone.parent / sidecar).write_text(described)
    model = LocalModel.inspect(alone)
    assert (model.name, model.draft) == ("Mine", draft.resolve())


def test_a_folders_sidecar_does_not_speak_of_one_of_several(alone: Path) -> None:
    shutil.copy(alone, alone.with_name("other.gguf"))
    (alone.parent / "duotail.json").write_text('{"name": "Mine"}')
    assert LocalModel.inspect(alone).name == "babbler-q8"


@pytest.mark.parametrize("name", ["model.gguf", "ggml-model-Q4_0.gguf"])
def test_a_file_whose_name_says_nothing_is_called_what_is_written_in_it(
    alone: Path, name: str
) -> None:
    assert LocalModel.inspect(alone.rename(alone.with_name(name))).name == "Babbler 0.1"


def test_the_commonest_type_names_a_file_that_does_not(tmp_path: Path, chat_model: Path) -> None:
    def mixed(name: str) -> Kind:
        return Kind.Q4_0 if "ffn" in name else Kind.Q8_0

    file = write_gguf(chat_model, tmp_path / "mixed.gguf", mixed)
    assert LocalModel.inspect(file).kind == "Q8_0"  # the embedding is large


def test_an_unknown_architecture_is_a_sentence(tmp_path: Path, chat_model: Path) -> None:
    file = write_gguf(chat_model, tmp_path / "odd.gguf")
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b"llama", b"mamba", 1))
    with pytest.raises(UserFixable, match="mamba") as refused:
        LocalModel.inspect(file)
    assert refused.value.remedy


def test_a_draft_in_the_same_words(tmp_path: Path) -> None:
    """A file that is not there is no draft."""
    folder = write_chat_model(tmp_path / "Target")
    (folder / "duotail.json").write_text(json.dumps({"draft": "nowhere.gguf"}))
    assert LocalModel.inspect(folder).draft is None
