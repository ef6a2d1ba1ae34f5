"""The hub of a window: its models lie on a disk, and its advice comes from files and planner."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from desk import Desk
from folder_models import FOLDER_DRAFT, FOLDER_TARGET

from app.models.hub import Doing, Hub, HubContext, HubMessage
from app.models.real_hub import real_hub
from app.showcase import hub_story as story
from engine.commands import Load
from engine.errors import Cancelled, UserFixable
from engine.hub.advice import Verdict
from engine.hub.curated import curated
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin

_SIMULATED = 2 << 30


@dataclass
class House:
    """What the window says of itself to its hub, and what the hub has said."""

    data: Path
    in_use: tuple[Path, ...] = ()
    recent: tuple[Path, ...] = ()
    cache: Path | None = None
    heard: list[HubMessage] = field(default_factory=list)

    def hub(self) -> Hub:
        return real_hub(
            HubContext(
                self.data,
                _SIMULATED,
                None,
                lambda: self.in_use,
                lambda: self.recent,
                lambda: self.cache,
            ),
            self.heard.append,
        )


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "data")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of the user's."""
    return Path(shutil.copytree(FOLDER_TARGET, tmp_path / "mine"))


def doing(*, stopped: bool = False) -> tuple[Doing, list[float]]:
    shares: list[float] = []
    return Doing(shares.append, lambda: stopped), shares


def paths(models: object) -> set[Path]:
    assert isinstance(models, list)
    return {each.path for each in models if isinstance(each, KeptModel)}


def test_a_model_is_listed_copied_checked_moved_and_deleted(
    house: House, model: Path, tmp_path: Path
) -> None:
    shelf = house.hub().shelf
    work, shares = doing()
    kept = shelf.adopt(model, copy=False, doing=work)
    assert (kept.path, kept.origin) == (model, ModelOrigin.IN_PLACE)
    assert model in paths(shelf.kept())
    with pytest.raises(Cancelled):
        shelf.adopt(kept, copy=True, doing=doing(stopped=True)[0])
    copy = shelf.adopt(kept, copy=True, doing=work)
    assert copy.origin is ModelOrigin.COPIED
    assert house.data in copy.path.parents
    assert shares[-1] == 1.0
    assert shelf.check(copy, work).startswith(f"{copy.name}: no problems found.")

    moved = shelf.move(copy, tmp_path / "drive", work)
    assert moved.path.parent == tmp_path / "drive"
    assert not copy.path.exists()
    weights = moved.path / "model.safetensors"
    assert shelf.removable(moved) >= weights.stat().st_size
    house.in_use = (moved.path,)
    with pytest.raises(UserFixable):
        shelf.delete(moved)
    assert weights.exists()
    house.in_use = ()

    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(UserFixable) as raised:
        shelf.check(moved, work)
    assert raised.value.details == str(moved.path)
    shelf.delete(moved)
    assert not moved.path.exists()
    shelf.forget(kept)
    assert model not in paths(shelf.kept())
    assert model.exists()


def test_a_download_is_kept_with_where_it_came_from(house: House, model: Path) -> None:
    shelf, job = house.hub().shelf, replace(story.UNDER_WAY[0].job, licence="mit")
    shelf.keep(JobReport(job, JobState.DONE))  # nobody knows where it is
    shelf.keep(JobReport(job, JobState.DONE, model=str(model / "gone")))
    assert not [each for each in shelf.kept() if each.origin is ModelOrigin.DOWNLOADED]
    shelf.keep(JobReport(job, JobState.DONE, model=str(model)))
    (kept,) = [each for each in shelf.kept() if each.path == model]
    told = (kept.origin, kept.repo, kept.revision, kept.licence)
    assert told == (ModelOrigin.DOWNLOADED, job.repo, job.revision, job.licence)


def test_another_cache_is_looked_through_from_then_on(house: House, tmp_path: Path) -> None:
    shelf = house.hub().shelf
    assert not shelf.elsewhere()
    snapshot = tmp_path / "cache" / "models--owner--name" / "snapshots" / ("1" * 40)
    shutil.copytree(FOLDER_TARGET, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("1" * 40)
    house.cache = tmp_path / "cache"
    (found,) = shelf.elsewhere()
    assert (found.origin, found.repo) == (ModelOrigin.CACHE, "owner/name")


def test_advice_comes_from_this_machine_and_from_the_files(
    house: House, model: Path, tmp_path: Path
) -> None:
    hub = house.hub()
    draft = Path(shutil.copytree(FOLDER_DRAFT, tmp_path / "small"))
    house.recent = (model, draft)
    kept = {each.path: each for each in hub.shelf.kept()}
    advice = hub.advice
    told = {each.path: each for each in advice.drafts_of_kept(kept[model], list(kept.values()))}
    assert told[draft].verdict is Verdict.FITS
    for file in model.iterdir():
        file.unlink()
    assert advice.drafts_of_kept(kept[model], list(kept.values())) == ()

    suggested = advice.suggestions()
    assert suggested
    assert all(curated().of_repo(each.repo) is not None for each in suggested)
    small, large = story.SMALL_REPOSITORY, story.REPOSITORY
    speeds = [advice.fit(each, each.variants[1]).fastest for each in (small, large)]
    assert speeds[0] is not None
    assert speeds[1] is None or speeds[0] > speeds[1]


def test_drafts_of_a_model_of_the_hub(house: House) -> None:
    advice = house.hub().advice
    own = KeptModel(Path("own"), "own", ModelOrigin.DOWNLOADED, 1, repo=story.QWEN3_SMALL.repo)
    kept = [
        KeptModel(Path("same"), "same", ModelOrigin.COPIED, 1, parameters=8_190_000_000),
        KeptModel(Path("less"), "less", ModelOrigin.COPIED, 1, parameters=1_000_000),
        KeptModel(Path("broken"), "broken", ModelOrigin.COPIED, 1, problem="It is cut off."),
        KeptModel(Path("head"), "head", ModelOrigin.COPIED, 1, head=True),
        own,
    ]
    found = advice.drafts_of_remote(story.REPOSITORY, story.REPOSITORY.variants[1], kept)
    reasons = {each.path.name: each.reason for each in found if each.path is not None}
    assert reasons == {
        "own": "A smaller model with the same vocabulary.",
        "same": "It is not smaller than the target.",
        "less": "Its vocabulary can be compared after the download.",
        "broken": "It is cut off.",
    }
    assert found[0].path == own.path
    assert found[0].verdict is Verdict.LIKELY
    assert all(each.repo != own.repo for each in found[1:])  # what is here is not fetched again


def test_a_token_without_a_keyring_lasts_until_the_end(house: House) -> None:
    tokens = house.hub().tokens
    assert tokens.read() is None
    said = tokens.keep("hf_abcdefghijklmnop")
    assert tokens.read() == "hf_abcdefghijklmnop"
    assert tokens.keep("") != said
    assert tokens.read() is None


def test_the_window_s_hub_protects_what_is_loaded(desk: Desk, model: Path) -> None:
    assembly = desk.assembly
    shelf = assembly._real_hub(lambda _message: None).shelf
    copy = shelf.adopt(model, copy=True, doing=doing()[0])
    bridge = assembly.bridge
    bridge.status = replace(bridge.status, wanted=Load(copy.path, FOLDER_DRAFT))
    assert assembly._in_use() == (copy.path, FOLDER_DRAFT)
    with pytest.raises(UserFixable, match="in use"):
        shelf.delete(copy)
    bridge.status = replace(bridge.status, wanted=None)
    assert assembly._in_use() == ()
    shelf.delete(copy)
    assert not copy.path.exists()
