"""A first start without a model: the starter model is offered, fetched, loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton

from app.engine_link.status import Phase
from app.models.job_row import JobRow
from app.models.starter_offer import StarterOffer
from app.settings.presets import BALANCED
from app.shell.banner import Banner
from engine.commands import Load
from engine.errors import UserFixable
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.messages import Job
from engine.hub.starter import KEY, REPO, starter_job
from engine.model.bundled import STARTER
from engine.request import Role

OpenDesk = Callable[[Script | None], Desk]
COMING = JobReport(starter_job(), JobState.FETCHING, 41_000_000, 5e6, 11.0)


@pytest.fixture
def desk(open_desk: OpenDesk) -> Desk:
    """A window on a computer without a model."""
    desk = open_desk(Script(starter=None))
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.NO_MODEL)
    return desk


@pytest.fixture
def offer(desk: Desk) -> StarterOffer:
    return desk.assembly.window.starter_offer


def click(desk: Desk, button: QAbstractButton) -> None:
    desk.bot.waitUntil(button.isVisible)
    desk.bot.mouseClick(button, Qt.MouseButton.LeftButton)


def tell(desk: Desk, *reports: JobReport) -> None:
    assert desk.script.scripted_hub is not None
    desk.script.scripted_hub.tell(*reports)


def row(desk: Desk, offer: StarterOffer) -> JobRow:
    desk.bot.waitUntil(lambda: offer.row is not None)
    assert offer.row is not None
    return offer.row


def test_it_is_offered_with_size_and_licence_and_nothing_is_asked_before(
    desk: Desk, offer: StarterOffer
) -> None:
    assert offer.fetch_button.isVisible()
    assert offer.fetch_button.text().replace("\N{NO-BREAK SPACE}", " ") == (
        "Download the starter model (98.4 MB)"
    )
    assert "Apache-2.0" in offer.about.text()
    assert not offer.load_button.isVisible()
    assert not any(button.isVisible() for button in desk.chat.greeting.examples)
    assert desk.chat.greeting.more_button.isVisible()
    assert desk.script.scripted_hub is None


def test_one_click_brings_it_and_it_is_ready(desk: Desk, offer: StarterOffer) -> None:
    desk.script.hub.bring = lambda job: replace(COMING, job=job)
    click(desk, offer.fetch_button)
    assert row(desk, offer).bar.value() == pytest.approx(417, abs=1)
    assert desk.script.hub.done == [("add", REPO, None)]
    assert not offer.fetch_button.isVisible()

    tell(desk, replace(COMING, state=JobState.DONE, model="/there/starter.gguf"))

    desk.ready()
    loaded = [each.model for each in desk.script.commands if isinstance(each, Load)]
    assert loaded == [Path("/there/starter.gguf")]
    assert desk.assembly.settings.value.model == "/there/starter.gguf", "the next start has it"
    assert not desk.assembly.window.findChildren(Banner)


def test_it_can_be_paused_resumed_and_cancelled(desk: Desk, offer: StarterOffer) -> None:
    desk.script.hub.bring = lambda job: replace(COMING, job=job)
    click(desk, offer.fetch_button)
    shown = row(desk, offer)
    click(desk, shown.pause_button)
    click(desk, shown.resume_button)
    click(desk, shown.cancel_button)
    desk.bot.waitUntil(lambda: offer.row is None)
    assert desk.script.hub.done[1:] == [
        (JobState.PAUSED, KEY),
        (JobState.FETCHING, KEY),
        ("cancel", KEY),
    ]
    assert offer.fetch_button.isVisible()


def test_without_a_network_it_says_so_and_everything_else_works(
    desk: Desk, offer: StarterOffer
) -> None:
    stuck = JobReport(
        starter_job(), JobState.WAITING, cause="Nobody is there.", remedy="Check the cable."
    )
    desk.script.hub.bring = lambda _job: stuck
    click(desk, offer.fetch_button)
    shown = row(desk, offer)
    assert shown.trouble.text() == "Nobody is there. Check the cable."
    assert desk.chat.greeting.more_button.isVisible()
    click(desk, shown.again_button)
    desk.bot.waitUntil(lambda: (JobState.FETCHING, KEY) in desk.script.hub.done)
    desk.chat.outgoing.model_given.emit(Path("model"))


def test_no_room_is_said_where_the_button_is(desk: Desk, offer: StarterOffer) -> None:
    def full(_job: Job) -> JobReport:
        raise UserFixable("The disk is full.", "Free some space.")

    desk.script.hub.bring = full
    click(desk, offer.fetch_button)
    desk.bot.waitUntil(lambda: offer.trouble.text() == "The disk is full. Free some space.")
    assert offer.fetch_button.isVisible()


def test_a_download_of_the_last_time_is_shown_again(open_desk: OpenDesk, tmp_path: Path) -> None:
    script = Script(starter=None)
    script.hub.reports = (replace(COMING, state=JobState.PAUSED),)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "downloads.json").write_text("{}")
    desk = open_desk(script)
    click(desk, row(desk, desk.assembly.window.starter_offer).resume_button)
    desk.bot.waitUntil(lambda: (JobState.FETCHING, KEY) in script.hub.done)


def test_where_it_is_here_it_is_loaded(desk: Desk, offer: StarterOffer) -> None:
    desk.script.starter = Path("there")
    desk.assembly.models.unload()
    desk.assembly.models.load(Path("model"))
    desk.ready()
    desk.assembly.models.unload()
    click(desk, offer.load_button)
    desk.bot.waitUntil(lambda: desk.script.commands[-1] == desk.assembly.bridge.status.wanted)
    assert desk.assembly.bridge.status.wanted is not None
    assert desk.assembly.bridge.status.wanted.model == Path("there")
    desk.ready()
    desk.assembly.models.unload()
    desk.bot.waitUntil(offer.load_button.isVisible)
    desk.script.starter = None  # deleted meanwhile
    click(desk, offer.load_button)
    assert not offer.load_button.isVisible()
    assert offer.fetch_button.isVisible()


def test_the_starter_model_has_a_preset_of_its_own_and_other_models_none(
    open_desk: OpenDesk, tmp_path: Path
) -> None:
    starter = tmp_path / STARTER.name
    with starter.open("wb") as file:
        file.truncate(STARTER.nbytes)
    desk = open_desk(Script(starter=starter))
    desk.ready()
    desk.type_and_send("Hello")
    desk.answered()
    asked = desk.script.requests[-1]
    assert asked.messages[0].role is Role.SYSTEM
    assert "Duotail" in asked.messages[0].text
    assert asked.sampling.temperature > 0

    desk.assembly.models.load(Path("another"))
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.wanted == Load(Path("another")))
    desk.ready()
    desk.session.open(None)
    desk.type_and_send("Hello")
    desk.answered()
    asked = desk.script.requests[-1]
    assert [each.role for each in asked.messages] == [Role.USER]
    assert asked.sampling.temperature == BALANCED.setup.temperature
