from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.paths import find_paths
from app.settings import Settings, SettingsStore, load, save
from app.theme.theme import ThemeChoice
from engine.errors import UserFixable


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "settings.toml"
    settings = Settings(ThemeChoice.DARK, False, True, 0.75, 2**63 - 1, 12, 1000, 700)
    save(path, settings)
    assert load(path) == (settings, None)
    assert list(path.parent.iterdir()) == [path]


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "settings.toml") == (Settings(), None)


@pytest.mark.parametrize("content", [b"theme = ", b"\xff\xfe\x00", b"[[[["])
def test_a_corrupt_file_is_kept_and_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    settings, trouble = load(path)
    assert settings == Settings()
    assert isinstance(trouble, UserFixable)
    assert "settings.toml.bad" in trouble.remedy
    assert (tmp_path / "settings.toml.bad").read_bytes() == content
    assert not path.exists()


def test_unusable_values_fall_back_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        'theme = "purple"\ntemperature = 9.0\nseed = true\nsidebar_visible = false\nfuture = 1\n'
        "window_width = -4\nperformance_visible = 1\n"
    )
    settings, trouble = load(path)
    assert trouble is None
    assert settings == Settings(sidebar_visible=False)


@hypothesis_settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=200))
def test_any_file_gives_settings(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    settings, _ = load(path)
    assert 0 <= settings.temperature <= 2


def test_changes_are_saved_and_announced(tmp_path: Path, qtbot: QtBot) -> None:
    path = tmp_path / "settings.toml"
    store = SettingsStore(path)
    with qtbot.waitSignal(store.changed):
        store.change(temperature=0.5)
    qtbot.waitUntil(path.exists)
    assert load(path)[0].temperature == 0.5


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, qtbot: QtBot) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = SettingsStore(blocked / "settings.toml")
    with qtbot.waitSignal(store.problem) as told:
        store.change(temperature=0.5)
        store.flush()
    assert isinstance(told.args[0], UserFixable)


def test_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUOTAIL_DATA_DIR", str(tmp_path / "env"))
    monkeypatch.delenv("DUOTAIL_CONFIG_DIR", raising=False)
    assert find_paths().data == tmp_path / "env"
    assert find_paths().config == tmp_path / "env"
    assert find_paths(str(tmp_path / "option")).history.parent == tmp_path / "option"
    monkeypatch.delenv("DUOTAIL_DATA_DIR")
    assert find_paths().data.name.lower() == "duotail"
