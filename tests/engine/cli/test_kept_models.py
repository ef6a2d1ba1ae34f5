"""Models by their names, deleted, and held by servers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET

from engine.errors import UserFixable
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin, names_of
from engine.hub.shelf.names import model_named
from engine.hub.shelf.shelf import ModelShelf
from engine.server import running as running_module
from engine.server.running import announced, running


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A data folder with a copied model."""
    data = tmp_path / "data"
    model = Path(shutil.copytree(FOLDER_TARGET, data / "models" / "My-Model"))
    shelf = ModelShelf(data)
    shelf.keep(KeptModel(model, "My-Model", ModelOrigin.COPIED, 1))
    return data


def test_names_of_a_model() -> None:
    path = Path("/models/Some-7B-Q4_K_M.gguf")
    assert names_of("Some 7B", path, "owner/Some-7B-GGUF") == {
        "some 7b", "some-7b", "some-7b-q4_k_m.gguf", "some-7b-q4_k_m", "owner/some-7b-gguf",
        "some-7b-gguf",
    }  # fmt: skip


def test_models_have_the_names_that_lists_show(kept: Path) -> None:
    (model,) = [each for each in ModelShelf(kept).models() if each.origin is ModelOrigin.COPIED]
    for name in (model.name, model.name.upper(), "my-model"):
        assert model_named(name, kept) == model.path
    with pytest.raises(UserFixable, match="There is no model “other”"):
        model_named("other", kept)
    shutil.copytree(model.path, kept / "models" / "Twin")
    with pytest.raises(UserFixable, match="Several models"):
        model_named(model.name, kept)


def test_a_model_is_deleted_by_its_name(
    kept: Path, duotail: Duotail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_DATA_DIR", str(kept))
    folder = kept / "models" / "My-Model"
    kept_back = duotail("models", "rm", "my-model", "--json")
    assert (kept_back.code, folder.exists()) == (2, True)
    done = duotail("models", "rm", "my-model", "--yes", "--json")
    assert (done.code, folder.exists()) == (0, False)
    assert done.json["freed_bytes"] > 0
    assert duotail("models", "rm", "my-model", "--yes").code == 2


def test_a_first_start_is_found_too(tmp_path: Path) -> None:
    with announced(tmp_path / "new", "http://127.0.0.1:1/v1", "Babbler"):
        assert [each.model for each in running(tmp_path / "new")] == ["Babbler"]


def test_servers_are_found_while_they_run(tmp_path: Path) -> None:
    with announced(tmp_path, "http://127.0.0.1:1/v1", "Babbler"):
        (server,) = running(tmp_path)
        assert (server.pid, server.model) == (os.getpid(), "Babbler")
        file = tmp_path / "servers" / f"{os.getpid()}.json"
        told = json.loads(file.read_text())
        file.write_text(json.dumps(told | {"since": 5.0}))  # this process is younger
        assert running(tmp_path) == []
        assert not file.exists()
    assert running(tmp_path) == []
    assert running_module.running(tmp_path / "absent") == []
