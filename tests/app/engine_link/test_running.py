"""How the model runs: what is asked of the engine, what is remembered, what a failure leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import Script

from app.engine_link.running import GIB, Running, RunWish
from app.settings.drafts import DraftOf, DraftSource
from app.settings.file import load, save
from app.settings.model import Settings
from app.widgets.banner import Banner
from engine.commands import DraftChoice, Generate, Load, Mode
from engine.events import Failed

MODEL = Path("model")
NO = Failed(0.0, None, "This head was trained for another model.", "Choose another one.")


def running(desk: Desk) -> Running:
    return desk.assembly.models.running


def loads(desk: Desk) -> list[Load]:
    return [command for command in desk.script.commands if isinstance(command, Load)]


def banners(desk: Desk) -> list[str]:
    return [banner.text for banner in desk.chat.banners.findChildren(Banner)]


def test_a_wish_reloads_the_same_model_between_answers_and_is_remembered(
    desk: Desk, tmp_path: Path
) -> None:
    head = tmp_path / "head"
    head.mkdir()
    before = loads(desk)[-1]
    running(desk).apply(RunWish(Mode.DOVETAIL, head, 3 * GIB))
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.mode is Mode.DOVETAIL)
    asked = loads(desk)[-1]
    assert asked == Load(before.model, head, Mode.DOVETAIL, vram=3 * GIB, after_answer=True)
    assert running(desk).drafts == [head]
    desk.assembly.settings.flush()
    kept = load(desk.assembly.settings.path).settings
    assert (kept.mode, kept.draft, kept.vram) == (Mode.DOVETAIL, DraftSource.CHOSEN, 3.0)
    assert kept.drafts == (DraftOf(str(MODEL), str(head)),)
    again = running(desk).command(MODEL)
    assert again == Load(MODEL, head, Mode.DOVETAIL, vram=3 * GIB)
    assert running(desk).command(Path("other")).draft is DraftChoice.AUTO, "it was for one model"
    head.rmdir()
    assert running(desk).command(MODEL).draft is DraftChoice.AUTO, "what is gone is not asked for"


def test_the_same_wish_again_asks_for_nothing(desk: Desk) -> None:
    running(desk).apply(RunWish())
    assert len(loads(desk)) == 1
    running(desk).draft_with(DraftChoice.NONE)
    running(desk).draft_with(DraftChoice.NONE)
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.draft is DraftSource.NONE)
    assert len(loads(desk)) == 2


def test_an_answer_is_written_to_its_end_first(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.type_and_send("Hello")
    desk.streaming("Hello!")
    running(desk).apply(RunWish(Mode.PLAIN))
    assert running(desk).pending
    assert banners(desk) == ["The change takes effect when this answer is finished."]
    assert desk.assembly.window.run_button.text().startswith("Next: Target alone")
    assert "CPU only" in desk.chat.status_line.text, "what is still in force"
    desk.script.gate.set()
    assert desk.answered().message.text == desk.script.answer
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.mode is Mode.PLAIN)
    desk.ready()
    assert not running(desk).pending
    order = [type(each) for each in desk.script.commands if isinstance(each, Load | Generate)]
    assert order == [Load, Generate, Load]
    desk.type_and_send("Go on")
    desk.answered()
    assert len(desk.session.messages) == 4


def test_a_draft_that_is_refused_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.script.fail_load = NO
    running(desk).apply(RunWish(draft=tmp_path))
    desk.bot.waitUntil(lambda: NO.cause in banners(desk))
    desk.bot.waitUntil(lambda: running(desk).wish == RunWish())
    assert running(desk).drafts == []
    value = desk.assembly.settings.value
    assert (value.draft, value.drafts) == (DraftSource.AUTO, ())
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
    wished = Settings(
        mode=Mode.DOVETAIL,
        draft=DraftSource.CHOSEN,
        drafts=(DraftOf(str(MODEL), str(tmp_path)),),
        vram=2.0,
    )
    save(tmp_path / "config" / "settings.toml", wished)
    desk = open_desk(Picky())
    desk.ready()
    asked = [(each.mode, each.draft, each.vram) for each in loads(desk)]
    assert asked == [
        (Mode.DOVETAIL, tmp_path, 2 * GIB),
        (Mode.AUTO, tmp_path, None),
        (Mode.AUTO, DraftChoice.AUTO, None),
    ]
    assert NO.cause in banners(desk)
    assert any("Duotail chooses itself" in text for text in banners(desk))
    value = desk.assembly.settings.value
    assert (value.mode, value.draft, value.vram) == (Mode.DOVETAIL, DraftSource.CHOSEN, 2.0)


@pytest.mark.parametrize(
    ("text", "mode", "drafts"),
    [
        ('mode = "dovetail"', Mode.DOVETAIL, ()),
        ('mode = "duo"', Mode.DUO, ()),
        ('mode = "warp"', Mode.AUTO, ()),
        ('[[draft_of]]\nmodel = "m"\ndraft = "d"', Mode.AUTO, (DraftOf("m", "d"),)),
        ('[[draft_of]]\nmodel = "m"\ndraft = 3', Mode.AUTO, ()),
        ("draft_of = 7", Mode.AUTO, ()),
        ("vram = -1.0", Mode.AUTO, ()),
    ],
)
def test_a_settings_file_that_somebody_wrote(
    tmp_path: Path, text: str, mode: Mode, drafts: tuple[DraftOf, ...]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    found = load(file).settings
    assert (found.mode, found.drafts, found.vram) == (mode, drafts, None)
