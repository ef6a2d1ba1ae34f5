from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QLockFile
from pytestqt.qtbot import QtBot

import app.data_folder.relocation
from app.data_folder.paths import Paths, find_paths
from app.data_folder.relocation import Pointer, ask_to_move, carry_out, delete_old, read_pointer
from app.shell.data_move import settle_data
from engine.errors import UserFixable


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A data folder with something in it, and one thing that is not Duotail's."""
    config = tmp_path / "config"
    paths = Paths(tmp_path / "data", config, config / "data-folder.toml")
    (paths.data / "reports").mkdir(parents=True)
    paths.history.write_bytes(b"h" * 3_000_000)
    (paths.data / "history.sqlite3-wal").write_bytes(b"w" * 10)
    (paths.reports / "2026-01-01 10-00-00 error.txt").write_text("r")
    (paths.data / "own.txt").write_text("mine")
    paths.load_mark.write_text("1")
    return paths


def asked(paths: Paths, target: Path) -> Path:
    assert paths.pointer is not None
    ask_to_move(paths.pointer, paths.data, target)
    return paths.pointer


def test_everything_arrives_and_the_old_folder_stays(paths: Paths, tmp_path: Path) -> None:
    target = tmp_path / "new place" / "ä"
    pointer = asked(paths, target)
    assert read_pointer(pointer) == Pointer(wanted=str(target))
    heard: list[tuple[int, int]] = []
    assert carry_out(pointer, paths.data, lambda *done: heard.append(done)) == target
    assert read_pointer(pointer) == Pointer(folder=str(target), old=str(paths.data))
    for name in ("history.sqlite3", "history.sqlite3-wal", "own.txt"):
        assert (target / name).read_bytes() == (paths.data / name).read_bytes()
    assert (target / "reports").is_dir()
    assert not (target / "loading").exists()
    assert heard[-1][0] == heard[-1][1]
    assert carry_out(pointer, target) == target  # nothing more to do


def test_what_is_not_duotails_is_not_deleted(paths: Paths, tmp_path: Path) -> None:
    pointer = asked(paths, tmp_path / "new")
    carry_out(pointer, paths.data)
    delete_old(pointer)
    assert [path.name for path in paths.data.iterdir()] == ["own.txt"]
    assert read_pointer(pointer) == Pointer(folder=str(tmp_path / "new"))
    delete_old(pointer)


def test_a_copy_that_is_not_the_same_is_not_used(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointer = asked(paths, tmp_path / "new")
    damage = app.data_folder.relocation.shutil.copystat

    def damaged(source: Path, copy: Path) -> None:
        copy.write_bytes(b"other")
        damage(source, copy)

    monkeypatch.setattr(app.data_folder.relocation.shutil, "copystat", damaged)
    with pytest.raises(UserFixable, match="could not be moved"):
        carry_out(pointer, paths.data)
    assert read_pointer(pointer) == Pointer()
    assert paths.history.stat().st_size == 3_000_000


@pytest.mark.parametrize("place", ["data", "data/inside", "."])
def test_places_that_make_no_sense(paths: Paths, tmp_path: Path, place: str) -> None:
    with pytest.raises(UserFixable, match="already in this folder"):
        asked(paths, tmp_path / place)


def test_a_folder_with_something_in_it_is_refused(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("")
    with pytest.raises(UserFixable, match="not empty"):
        asked(paths, tmp_path / "full")
    with pytest.raises(UserFixable, match="cannot write"):
        asked(paths, tmp_path / "full" / "thing" / "below")


def test_too_little_room(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.data_folder.relocation, "_RESERVE", 2**62)
    with pytest.raises(UserFixable) as told:
        asked(paths, tmp_path / "new")
    assert "are free" in told.value.details


def test_the_next_start_moves(paths: Paths, tmp_path: Path, qtbot: QtBot) -> None:  # noqa: ARG001
    asked(paths, tmp_path / "new")
    busy = QLockFile(str(paths.lock))
    assert busy.tryLock(100)
    assert settle_data(paths) == (paths, None)  # another window is open
    busy.unlock()
    moved, trouble = settle_data(paths)
    assert trouble is None
    assert moved.data == tmp_path / "new"
    assert moved.history.stat().st_size == 3_000_000
    assert settle_data(moved) == (moved, None)


def test_a_drive_that_is_not_connected(paths: Paths, tmp_path: Path) -> None:
    pointer = asked(paths, tmp_path / "new")
    gone = Paths(carry_out(pointer, paths.data), paths.config, pointer)
    for file in sorted(gone.data.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    gone.data.rmdir()
    used, trouble = settle_data(gone)
    assert trouble is not None
    assert str(gone.data) in trouble.cause
    assert used.data != gone.data
    assert not gone.data.exists()


def test_the_pointer_is_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DUOTAIL_DATA_DIR")
    monkeypatch.setenv("DUOTAIL_CONFIG_DIR", str(tmp_path))
    (tmp_path / "data-folder.toml").write_text(f"folder = '{tmp_path / 'elsewhere'}'\n")
    assert find_paths().data == tmp_path / "elsewhere"
    assert find_paths().config == tmp_path
    assert find_paths(str(tmp_path / "option")).pointer is None
    (tmp_path / "data-folder.toml").write_text("folder = [\n")
    assert find_paths().data.name.lower() == "duotail"
