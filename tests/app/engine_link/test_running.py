"""How the model runs: what is asked of the engine, what is remembered, what a failure leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from desk import Desk
from fake_engine import Script
from PySide6.QtWidgets import QPushButton

from app.engine_link.plan_texts import mode_name
from app.engine_link.running import Running
from app.settings.file import load, save
from app.settings.model import Settings
from app.settings.profiles import GIB, ModelProfile, ProfiledModel
from app.shell.banner import Banner
from app.showcase.script import MODEL_NAME
from engine.commands import DraftChoice, Generate, Load, Mode
from engine.events import Failed, PlanReady

MODEL = Path("model")
NO = Failed(0.0, None, "This head was trained for another model.", "Choose another one.")


def running(desk: Desk) -> Running:
    return desk.assembly.models.running


def loads(desk: Desk) -> list[Load]:
    return [command for command in desk.script.commands if isinstance(command, Load)]


def kept_profile(desk: Desk) -> ModelProfile:
    return desk.assembly.settings.value.profiled(MODEL).profile


def banners(desk: Desk) -> list[str]:
    return [banner.text for banner in desk.banners.findChildren(Banner)]


def test_a_wish_reloads_the_same_model_between_answers_and_is_remembered(
    desk: Desk, tmp_path: Path
) -> None:
    head = tmp_path / "head"
    head.mkdir()
    before = loads(desk)[-1]
    running(desk).apply(ModelProfile(Mode.DOVETAIL, head, 3 * GIB))
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.profiles != ())
    asked = loads(desk)[-1]
    assert asked == Load(before.model, head, Mode.DOVETAIL, vram=3 * GIB, after_answer=True)
    assert running(desk).drafts == [head]
    desk.assembly.settings.flush()
    kept = load(desk.assembly.settings.path).settings
    profile = ModelProfile(Mode.DOVETAIL, head, 3 * GIB)
    assert kept.profiles == (ProfiledModel(str(MODEL), profile, (str(head),)),)
    again = running(desk).kept_load(MODEL)
    assert again == Load(MODEL, head, Mode.DOVETAIL, vram=3 * GIB)
    assert running(desk).kept_load(Path("other")) == Load(Path("other")), "it was for one model"
    head.rmdir()
    assert running(desk).kept_load(MODEL).draft is DraftChoice.AUTO, "what is gone is not asked for"


def test_the_same_wish_again_asks_for_nothing(desk: Desk) -> None:
    running(desk).apply(ModelProfile())
    assert len(loads(desk)) == 1
    running(desk).draft_with(DraftChoice.NONE)
    running(desk).draft_with(DraftChoice.NONE)
    desk.bot.waitUntil(lambda: kept_profile(desk).draft is DraftChoice.NONE)
    assert len(loads(desk)) == 2


def test_an_answer_is_written_to_its_end_first(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.type_and_send("Hello")
    desk.streaming("Hello!")
    running(desk).apply(ModelProfile(Mode.PLAIN))
    assert running(desk).pending
    assert banners(desk) == ["The change takes effect when this answer is finished."]
    assert desk.assembly.window.run_button.text().startswith("Next: Target alone")
    assert "CPU" in desk.chat.status_line.text, "what is still in force"
    desk.script.gate.set()
    assert desk.answered().message.text == desk.script.answer
    desk.bot.waitUntil(lambda: kept_profile(desk).mode is Mode.PLAIN)
    desk.ready()
    assert not running(desk).pending
    order = [type(each) for each in desk.script.commands if isinstance(each, Load | Generate)]
    assert order == [Load, Generate, Load]
    desk.type_and_send("Resume")
    desk.answered()
    assert len(desk.session.messages) == 4


def test_a_draft_that_is_refused_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.script.fail_load = NO
    running(desk).apply(ModelProfile(draft=tmp_path))
    desk.bot.waitUntil(lambda: NO.cause in banners(desk))
    desk.bot.waitUntil(lambda: running(desk).profile == ModelProfile())
    assert running(desk).drafts == []
    assert desk.assembly.settings.value.profiles == ()
    assert desk.assembly.bridge.status.plan is not None
    desk.type_and_send("Hello")
    assert desk.answered().text.raw_text


class Picky(Script):
    """Refuses every mode but the automatic one, and every draft from a folder."""

    @property
    def fail_load(self) -> Failed | None:  # type: ignore[override]
        last = next(each for each in reversed(self.commands) if isinstance(each, Load))
        return NO if last.mode is not Mode.AUTO or isinstance(last.draft, Path) else None

    @fail_load.setter
    def fail_load(self, _value: Failed | None) -> None:
        """It follows from the commands."""


def test_a_wish_that_is_impossible_at_the_start_leaves_a_model(
    open_desk: Callable[[Script | None], Desk], tmp_path: Path
) -> None:
    """First without the mode, then without the draft; what was kept is kept for another start."""
    kept = ProfiledModel(str(MODEL), ModelProfile(Mode.DOVETAIL, tmp_path, 2 * GIB))
    wished = Settings(profiles=(kept,))
    save(tmp_path / "config" / "settings.toml", wished)
    desk = open_desk(Picky())
    desk.ready()
    asked = [(each.mode, each.draft, each.vram) for each in loads(desk)]
    assert asked == [
        (Mode.DOVETAIL, tmp_path, 2 * GIB),
        (Mode.AUTO, tmp_path, None),
        (Mode.AUTO, DraftChoice.AUTO, None),
    ]
    (told,) = banners(desk)
    assert told.startswith("Your last settings don't fit right now; using Automatic.")
    assert NO.cause in told
    assert desk.assembly.settings.value.profiles == (kept,)


def test_a_kept_mode_that_does_not_fit_gives_way_while_another_model_is_in_memory(
    open_desk: Callable[[Script | None], Desk], tmp_path: Path
) -> None:
    """DuoDecoding was chosen for one model, and now its draft is gone: the load must not fail."""
    other = Path("other")
    kept = ProfiledModel(str(other), ModelProfile(Mode.DUO))
    save(tmp_path / "config" / "settings.toml", Settings(profiles=(kept,)))
    desk = open_desk(Picky())
    desk.ready()
    assert loads(desk)[-1].mode is Mode.AUTO, "the mode was chosen for another model"
    desk.assembly.models.load(other)
    desk.bot.waitUntil(lambda: bool(banners(desk)))
    assert [(each.model, each.mode) for each in loads(desk)[1:]] == [
        (other, Mode.DUO),
        (other, Mode.AUTO),
    ]
    (told,) = banners(desk)
    assert "using Automatic" in told
    assert running(desk).in_force == ModelProfile()
    assert desk.assembly.settings.value.profiled(other).profile.mode is Mode.DUO


def test_what_is_applied_by_hand_does_not_give_way(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    desk = open_desk(Picky())
    desk.ready()
    running(desk).apply(ModelProfile(Mode.DUO))
    desk.bot.waitUntil(lambda: banners(desk) == [NO.cause])
    assert [each.mode for each in loads(desk)] == [Mode.AUTO, Mode.DUO]


class Tight(Script):
    """Refuses the mode and the draft that were kept, and takes the rest."""

    @property
    def fail_load(self) -> Failed | None:  # type: ignore[override]
        last = next(each for each in reversed(self.commands) if isinstance(each, Load))
        return NO if last.mode is not Mode.AUTO else None

    @fail_load.setter
    def fail_load(self, _value: Failed | None) -> None:
        """It follows from the commands."""


def test_the_context_that_was_chosen_outlives_a_mode_that_does_not_fit(
    open_desk: Callable[[Script | None], Desk], tmp_path: Path
) -> None:
    kept = ProfiledModel(str(MODEL), ModelProfile(Mode.DUO, context=8192))
    save(tmp_path / "config" / "settings.toml", Settings(profiles=(kept,)))
    desk = open_desk(Tight())
    desk.ready()
    desk.bot.waitUntil(lambda: bool(banners(desk)))
    assert [(each.mode, each.context) for each in loads(desk)] == [
        (Mode.DUO, 8192),
        (Mode.AUTO, 8192),
    ]


def test_a_context_that_gets_shorter_is_said_and_can_be_kept(desk: Desk) -> None:
    """Another placement leaves less memory to the conversation."""
    desk.ready()
    long = desk.script.plan.context
    desk.script.plan = replace(desk.script.plan, context=long // 2)
    running(desk).apply(ModelProfile(Mode.PLAIN))
    desk.bot.waitUntil(lambda: any("before it was" in text for text in banners(desk)))
    (banner,) = [each for each in desk.banners.findChildren(Banner) if "before it was" in each.text]
    keep = next(b for b in banner.findChildren(QPushButton) if b.text().startswith("Keep "))
    keep.click()
    desk.bot.waitUntil(lambda: loads(desk)[-1].context == long)
    assert loads(desk)[-1].mode is Mode.PLAIN


def test_a_model_that_automatic_moves_is_told_of(desk: Desk) -> None:
    """The engine does so between answers; another plan for another reason is no move."""
    desk.ready()
    load, before = loads(desk)[-1], desk.script.plan
    mode = Mode.DUO if before.mode is not Mode.DUO else Mode.CPU
    moved = replace(before, mode=mode)
    for plan in (before, moved):
        desk.tell(PlanReady(0.0, load.model, MODEL_NAME, plan, load))
    assert banners(desk) == []
    desk.tell(PlanReady(0.0, load.model, MODEL_NAME, moved, load, moved=True))
    desk.bot.waitUntil(lambda: bool(banners(desk)))
    place = f"{mode_name(mode)} ({moved.target_device})"
    assert banners(desk) == [f"Automatic has changed to {place}, which should be faster here."]
