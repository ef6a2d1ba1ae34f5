"""How models run, as the settings file keeps it, and as files of older versions kept it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from app.settings import Settings
from app.settings.file import load, save
from app.settings.profiles import GIB, ModelProfile, ProfiledModel, Profiles
from engine.commands import DraftChoice, KvType, Mode, WeightFormat

EVERYTHING = ModelProfile(Mode.DUO, Path("/d/draft"), GIB // 2, 2048, WeightFormat.Q8, 3, KvType.Q8)


def test_profiles_are_one_table_a_model(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    kept = (
        ProfiledModel("/m/a", EVERYTHING, ("/d/draft", "/d/other")),
        ProfiledModel("/m/b", ModelProfile(draft=DraftChoice.NONE)),
        ProfiledModel("/m/c", name="My model"),
    )
    save(path, Settings(model="/m/a", profiles=kept))
    table = tomllib.loads(path.read_text())
    assert table["model"][0]["vram"] == 0.5
    assert table["model"][1:] == [
        {"model": "/m/b", "draft": "none"},
        {"model": "/m/c", "name": "My model"},
    ]
    loaded = load(path).settings
    assert (loaded.model, loaded.profiles) == ("/m/a", kept)


@pytest.mark.parametrize(
    ("table", "profile"),
    [
        ({"mode": "warp"}, ModelProfile()),
        ({"mode": "duo", "vram": -1.0}, ModelProfile(Mode.DUO)),
        ({"weights": ["q4_0"], "context": True}, ModelProfile()),
        ({"weights": "q4_0", "context": 512}, ModelProfile(context=512, weights=WeightFormat.Q4)),
        ({"draft": 3, "drafts": 7}, ModelProfile()),
        ({"draft": ""}, ModelProfile()),
        ({"draft": "lookup"}, ModelProfile(draft=DraftChoice.LOOKUP)),
    ],
)
def test_what_somebody_wrote_falls_back_one_by_one(
    table: dict[str, object], profile: ModelProfile
) -> None:
    (kept,) = Profiles().read([{"model": "m"} | table, 7, {"mode": "duo"}])
    assert kept == ProfiledModel("m", profile)


def test_a_file_of_version_3_goes_on(tmp_path: Path) -> None:
    """It had three tables, and a mode, a draft and a ceiling for all models."""
    path = tmp_path / "settings.toml"
    path.write_text(
        'version = 3\nmodel = "/m/a"\nmode = "dovetail"\ndraft = "chosen"\nvram = 3.0\n'
        'recent_models = ["/m/a", "/m/b"]\n'
        '[[draft_of]]\nmodel = "/m/a"\ndraft = "/d/new"\n'
        '[[draft_of]]\nmodel = "/m/a"\ndraft = "/d/old"\n'
        '[[draft_of]]\nmodel = "/m/b"\ndraft = 3\n'
        '[[fit_of]]\nmodel = "/m/b"\nweights = "q8_0"\ncontext = 2048\n'
        '[[mode_of]]\nmodel = "/m/b"\nmode = "duo"\n'
    )
    settings = load(path).settings
    assert settings.model == "/m/a"
    first, second = (settings.profiled(Path(name)) for name in ("/m/a", "/m/b"))
    assert first.profile == ModelProfile(Mode.DOVETAIL, Path("/d/new"), 3 * GIB)
    assert first.drafts == ("/d/new", "/d/old")
    assert second.profile == ModelProfile(Mode.DUO, context=2048, weights=WeightFormat.Q8)
    assert settings.profiled(Path("/m/c")).profile == ModelProfile(), "a mode belongs to its model"
    save(path, settings)
    assert not {"draft_of", "fit_of", "mode_of", "mode", "vram"} & set(
        tomllib.loads(path.read_text())
    )
    assert load(path).settings == settings


def test_the_starter_models_settings_of_version_3_go_on_under_any_path(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('version = 3\nmodel = ""\nmode = "plain"\ndraft = "auto"\n')
    settings = load(path).settings
    assert settings.profiled(Path("/there/starter.gguf")).profile.mode is Mode.PLAIN


@pytest.mark.parametrize("text", ["draft_of = 7", "fit_of = [3]", 'mode_of = "x"', "model = 9"])
def test_older_nonsense_is_left_out(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f"version = 3\n{text}\n")
    assert load(path).settings == Settings()
