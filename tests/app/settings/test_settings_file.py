from __future__ import annotations

import logging
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot
from tomli_w import dumps

from app.data_folder.paths import find_paths
from app.history.records import ChatSetup
from app.notices import Notice, NoticeKind
from app.settings import Preset, Settings, SettingsStore
from app.settings.file import VERSION, load, save
from app.settings.model import SPECS
from app.settings.presets import BALANCED, BUILT_IN, FIELDS, STARTER
from app.settings.prompts import BUILT_IN_PROMPTS, SavedPrompt
from app.theme.theme import ThemeChoice
from engine.errors import UserFixable

_EVERYTHING = Settings(
    language="de",
    reopen_last=False,
    theme=ThemeChoice.DARK,
    font_scale=1.3,
    reduced_motion=True,
    default_preset="Pirate ☠",
    presets=(
        Preset("Pirate ☠", ChatSetup(system_prompt='Say "Arr"\n\x7f', top_k=40, thinking=False)),
        *BUILT_IN,
    ),
    prompts=(SavedPrompt("Ping", "Answer {{this}}:\n\tnow"), *BUILT_IN_PROMPTS[1:]),
    instructions="I am a nurse.\nAnswer briefly.",
    token_tint=True,
    show_thinking=True,
    sidebar_visible=False,
    performance_visible=False,
    performance_details=True,
    last_conversation=12,
    window_width=1000,
    window_height=700,
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "settings.toml"
    save(path, _EVERYTHING)
    loaded = load(path)
    assert loaded.settings == _EVERYTHING
    assert loaded.trouble is None
    assert list(path.parent.iterdir()) == [path]


def test_half_a_character_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save(path, Settings(presets=(Preset("Odd", ChatSetup(system_prompt="a\ud83db")),)))
    assert load(path).settings.presets[0].setup.system_prompt == "a?b"


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "settings.toml").settings == Settings()


def test_all_presets_deleted_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save(path, Settings(presets=()))
    assert load(path).settings.presets == ()


@pytest.mark.parametrize("content", [b"theme = ", b"\xff\xfe\x00", b"[[[["])
def test_a_corrupt_file_is_kept_and_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    loaded = load(path)
    assert loaded.settings == Settings()
    assert isinstance(loaded.trouble, UserFixable)
    assert "settings.toml.bad" in loaded.trouble.remedy
    assert (tmp_path / "settings.toml.bad").read_bytes() == content
    assert not path.exists()


def test_unusable_values_fall_back_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        'version = 2\ntheme = "purple"\nfont_scale = 9.0\nlast_conversation = true\n'
        'sidebar_visible = false\nwindow_width = -4\nlanguage = "klingon"\ntoken_tint = 1\n'
        '[[preset]]\nname = " Mine  too "\ntemperature = nan\ntop_k = true\ntop_p = 0.5\n'
        "[[preset]]\nname = 3\n"
    )
    with caplog.at_level(logging.WARNING):
        loaded = load(path)
    assert loaded.trouble is None
    mine = Preset("Mine too", ChatSetup(top_p=0.5))
    assert loaded.settings == Settings(sidebar_visible=False, presets=(mine, STARTER))
    for name in ("theme", "font_scale", "last_conversation", "window_width", "language"):
        assert f"{name!r} has an unusable value" in caplog.text


def test_tables_and_numbers_of_another_type_fall_back(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        'font_scale = "large"\ninstructions = 3\npreset = 4\nprompt = "x"\nprofile = true\n'
        "token_tint = true\n"
    )
    loaded = load(path)
    assert loaded.trouble is None
    assert loaded.settings.token_tint
    assert loaded.settings.font_scale == Settings().font_scale
    assert loaded.settings.instructions == ""
    assert loaded.settings.profiles == ()
    assert loaded.settings.prompts == Settings().prompts


def test_a_file_of_version_1_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        'version = 1\ntheme = "dark"\nsidebar_visible = true\nperformance_visible = false\n'
        "temperature = 0.8\nseed = 7\nlast_conversation = 3\nwindow_width = 900\n"
        "window_height = 600\n"
    )
    settings = load(path).settings
    assert settings.theme is ThemeChoice.DARK
    assert not settings.performance_visible
    assert settings.last_conversation == 3
    assert settings.new_setup() == ChatSetup(preset="As before", temperature=0.8, seed=7)
    assert settings.presets == (*BUILT_IN[:3], settings.preset("As before"), STARTER)
    save(path, settings)
    saved = tomllib.loads(path.read_text())
    assert saved["version"] == VERSION
    assert "temperature" not in saved
    assert load(path).settings == settings


def test_a_plain_file_of_version_1_gets_no_preset_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("version = 1\ntemperature = 0.0\nwindow_width = 900\n")
    assert load(path).settings == Settings(window_width=900)


def test_what_a_newer_version_wrote_is_kept(tmp_path: Path, qtbot: QtBot) -> None:  # noqa: ARG001
    path = tmp_path / "settings.toml"
    path.write_text(
        'version = 9\nholograms = "on"\nborn = 2026-11-21\nfont_scale = 1.2\n'
        "[cloud.none]\nat = [1, {all = true}]\n"
        '[[preset]]\nname = "Mine"\nmood = "calm"\n[[other]]\na = 1\n[[other]]\na = 2\n'
    )
    before = tomllib.loads(path.read_text())
    store = SettingsStore(path)
    assert store.value.font_scale == 1.2
    store.change(token_tint=True, presets=(replace(store.value.presets[0], name="Yours"),))
    store.flush()
    after = tomllib.loads(path.read_text())
    assert after["token_tint"] is True
    assert after["preset"] == [{"name": "Yours", "mood": "calm"}]
    for key in ("version", "holograms", "born", "cloud", "other", "font_scale"):
        assert after[key] == before[key]


@hypothesis_settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.binary(max_size=200))
def test_any_file_gives_settings(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    assert 0.8 <= load(path).settings.font_scale <= 1.6


_KEYS = st.text(max_size=8).filter(lambda key: key.encode("utf-8", "ignore").decode() == key)
_LEAVES = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | _KEYS
    | st.dates()
    | st.datetimes()
    | st.times()
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@hypothesis_settings(deadline=None, max_examples=150)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_whatever_toml_can_say_is_written_back(table: dict[str, object]) -> None:
    assert tomllib.loads(dumps(table)) == table


def test_changes_are_saved_and_announced(tmp_path: Path, qtbot: QtBot) -> None:
    path = tmp_path / "settings.toml"
    store = SettingsStore(path)
    with qtbot.waitSignal(store.changed):
        store.change(font_scale=1.5)
    qtbot.waitUntil(path.exists)
    assert load(path).settings.font_scale == 1.5
    with qtbot.waitSignal(store.changed):
        store.reset("font_scale")
    assert store.value == Settings()
    with qtbot.assertNotEmitted(store.changed):
        store.reset("font_scale")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, notices: list[Notice]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = SettingsStore(blocked / "settings.toml")
    store.change(font_scale=1.5)
    store.flush()
    assert [each.kind for each in notices] == [NoticeKind.PROBLEM]


def test_every_default_is_a_value_that_its_kind_accepts() -> None:
    default = Settings()
    for name, spec in SPECS.items():
        value = getattr(default, name)
        if value is not None:
            assert spec.kind.read(spec.kind.write(value)) == value
        assert spec.section is None or (spec.label and spec.about)


def test_a_preset_can_hold_everything_that_a_setup_has() -> None:
    of_one_conversation = {"preset", "seen_after", "instructions", "tools"}
    assert {*of_one_conversation, *FIELDS} == set(ChatSetup.__slots__)
    assert all(preset.in_use().preset == preset.name for preset in BUILT_IN)


def test_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUOTAIL_DATA_DIR", str(tmp_path / "env"))
    monkeypatch.delenv("DUOTAIL_CONFIG_DIR", raising=False)
    assert find_paths().data == tmp_path / "env"
    assert find_paths().config == tmp_path / "env"
    assert find_paths(str(tmp_path / "option")).history.parent == tmp_path / "option"
    monkeypatch.delenv("DUOTAIL_DATA_DIR")
    assert find_paths().data.name.lower() == "duotail"


def test_a_file_of_version_2_gets_the_starter_models_preset(tmp_path: Path) -> None:
    """Every file of that version says "Precise" where nothing was chosen."""
    path = tmp_path / "settings.toml"
    path.write_text(
        'version = 2\ndefault_preset = "Precise"\n[[preset]]\nname = "Precise"\n'
        '[[preset]]\nname = "Mine"\ntemperature = 0.9\n'
    )
    settings = load(path).settings
    assert [preset.name for preset in settings.presets] == ["Precise", "Mine", "Starter model"]
    assert settings.new_setup(starter=False) == BALANCED.setup
    assert settings.new_setup(starter=True) == STARTER.in_use()


def test_who_chose_a_preset_has_it_with_every_model(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('version = 2\ndefault_preset = "Creative"\n')
    settings = load(path).settings
    assert settings.new_setup(starter=True).preset == "Creative"
    assert settings.new_setup(starter=False).preset == "Creative"


def test_who_has_deleted_the_starter_models_preset_goes_without() -> None:
    settings = Settings(presets=BUILT_IN[:2])
    assert settings.new_setup(starter=True) == BALANCED.in_use()


def test_the_balanced_preset_of_version_4_is_renewed_where_nobody_changed_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "settings.toml"
    old = '[[preset]]\nname = "Balanced"\ntemperature = 0.7\ntop_p = 0.95\n'
    path.write_text("version = 4\n" + old)
    assert load(path).settings.presets == (BALANCED,)
    path.write_text("version = 4\n" + old + "min_p = 0.1\n")
    (mine,) = load(path).settings.presets
    assert mine.setup == ChatSetup(temperature=0.7, top_p=0.95, min_p=0.1)
