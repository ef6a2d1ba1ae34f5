"""`duotail models`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import Duotail
from folder_models import FOLDER_DRAFT, FOLDER_STORIES, FOLDER_TARGET
from gguf_models import Kind, write_gguf
from head_folders import write_head
from reduced_drafts import write_reduced

from engine.backend.native.packed_cache import PackedCache
from engine.model.families import open_config

KINDS = (Kind.Q8_0, Kind.Q4_0)

# -- models ----------------------------------------------------------------------------------


def test_models(duotail: Duotail, shipped: Path) -> None:
    done = duotail("models", "--json")
    assert done.code == 0
    rows = done.json["models"]
    assert {row["name"] for row in rows} == {FOLDER_TARGET.name, FOLDER_DRAFT.name}
    for row in rows:
        known = {"name", "title", "path", "kind", "bytes", "head", "target", "drafts", "notes"}
        assert set(row) == known
        assert Path(row["path"]) == shipped / row["name"]
    table = duotail("models")
    assert all(row["title"] in table.out for row in rows)


@pytest.mark.usefixtures("shipped")
def test_models_tell_heads_from_models(duotail: Duotail, tmp_path: Path) -> None:
    head = write_head(tmp_path / "My head", "dgf", open_config(FOLDER_TARGET))
    row = duotail("models", head, "--json").json["models"][-1]
    assert (row["title"], row["kind"], row["head"]) == ("My head", "F32", "dgf")
    assert row["target"] == "Some target"
    listed = duotail("models", head).out.splitlines()
    (line,) = [line for line in listed if "My head" in line]
    assert line.endswith("(draft head for Some target)")
    (line,) = [line for line in listed if line.startswith(f"{FOLDER_TARGET.name} ")]
    assert "draft head" not in line
    published = write_head(tmp_path / "Published", "eagle3", open_config(FOLDER_TARGET))
    few = write_reduced(tmp_path / "Few rows", FOLDER_TARGET)
    listed = duotail("models", published, few).out.splitlines()
    assert any(line.endswith("Published (draft head)") for line in listed)
    assert any(line.endswith("Few rows (draft for Some target)") for line in listed)


@pytest.mark.usefixtures("shipped")
def test_models_tell_what_their_files_leave_out(duotail: Duotail, tmp_path: Path) -> None:
    file = write_gguf(FOLDER_STORIES, tmp_path / "plain.gguf", Kind.F16)
    notes = duotail("models", file, "--json").json["models"][-1]["notes"]
    assert "tokenizer.ggml.unknown_token_id = 0" in notes[0]
    assert "no chat template" in notes[1]
    assert {f"plain: {note}" for note in notes} <= set(duotail("models", file).out.splitlines())


@pytest.mark.usefixtures("shipped")
def test_all_models_of_a_folder_are_listed(
    duotail: Duotail, chat_model: Path, tmp_path: Path
) -> None:
    files = [write_gguf(chat_model, tmp_path / f"{kind.name}.gguf", kind) for kind in KINDS]
    rows = duotail("models", tmp_path, "--json").json["models"][-2:]
    assert [row["path"] for row in rows] == sorted(map(str, files))
    assert {row["kind"] for row in rows} == {kind.name for kind in KINDS}


def test_models_show_and_clear_the_cache(duotail: Duotail) -> None:
    folder = PackedCache().folder
    assert str(folder).startswith(os.environ["DUOTAIL_CACHE_DIR"])
    folder.mkdir(parents=True)
    (folder / f"{'0' * 32}.packed").write_bytes(bytes(2_000_000))
    shown = duotail("models", "--json").json["cache"]
    assert shown == {"path": str(folder), "bytes": 2_000_000, "freed_bytes": 0}
    cleared = duotail("models", "--clear-cache", "--json").json["cache"]
    assert cleared == {"path": str(folder), "bytes": 0, "freed_bytes": 2_000_000}
    assert list(folder.iterdir()) == []
    assert f"0.0 GB of quantised weights in {folder}" in duotail("models", "--clear-cache").out


def test_models_ignores_stray_folders(
    duotail: Duotail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (FOLDER_TARGET, FOLDER_DRAFT):
        (tmp_path / folder.name).symlink_to(folder)
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr("engine.model.bundled.root", lambda: tmp_path)
    done = duotail("models", "--json")
    assert (done.code, len(done.json["models"])) == (0, 2)
