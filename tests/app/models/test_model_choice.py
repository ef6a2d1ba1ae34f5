"""Choosing the model: the menu, what is loaded, what the next start loads."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import FakeEngine, Script
from folder_models import FOLDER_TARGET
from PySide6.QtCore import QEvent, QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QAction, QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QLineEdit, QMenu, QPushButton
from pytestqt.qtbot import QtBot

from app.application import Assembly
from app.data_folder.paths import Paths
from app.engine_link.status import Phase
from app.models.choice import Installed, ModelChoice, installed
from app.models.file_chooser import FileChooser
from app.models.model_button import ModelButton
from app.notices import Notice, NoticeKind
from app.settings.file import save
from app.settings.model import DEFAULTS
from app.settings.profiles import ModelProfile, ProfiledModel
from app.shell.banner import Banner
from app.shell.page_names import PageName
from app.theme.theme import Theme
from app.widgets.file_dialog import file_dialog
from engine.commands import DraftChoice, Load, Mode, Stop, Unload
from engine.events import Failed
from engine.hub.local import default_target
from engine.model.local_model import LocalModel

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
from gguf_models import Kind, write_gguf

pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support"),
    pytest.mark.usefixtures("shipped"),
]

OpenDesk = Callable[[Script | None], Desk]


def menu_of(desk: Desk) -> dict[str, QAction]:
    desk.bot.waitUntil(lambda: len(desk.assembly.models.models) >= 2)
    menu: QMenu = desk.assembly.window.model_button.make_menu()
    return {action.text(): action for action in menu.actions()}


def loads(desk: Desk) -> list[Load]:
    return [command for command in desk.script.commands if isinstance(command, Load)]


def test_the_bundled_models_are_listed_and_one_of_them_loads(desk: Desk) -> None:
    actions = menu_of(desk)
    title = LocalModel.inspect(default_target()).name
    (name,) = [text for text in actions if text.startswith(f"{title}  ")]
    actions[name].trigger()
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == default_target())
    assert menu_of(desk)[name].isChecked()
    desk.ready()
    assert desk.assembly.settings.value.model == str(default_target())
    desk.assembly.bridge.submit(Load(Path("another")))  # as a benchmark does
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.model == "another")


@pytest.mark.parametrize("works", [True, False])
def test_a_choice_is_kept_once_it_has_worked(desk: Desk, files: Path, *, works: bool) -> None:
    """What ends or hangs the engine would do it at every start."""
    settings, before = desk.assembly.settings, len(loads(desk))
    hanging = threading.Event()
    desk.script.load_gate = hanging
    model, draft = files / "small.gguf", files / "large.gguf"
    desk.assembly.models.load(model, draft)
    desk.bot.waitUntil(lambda: len(loads(desk)) > before)
    assert (settings.value.model, settings.value.recent_models) == ("", ())
    desk.assembly.models.running.keep_mode(Mode.PLAIN)
    assert settings.value.profiles == ()
    if not works:
        desk.script.fail_load = Failed(0, None, "It does not fit.", "Free memory.", "")
    hanging.set()
    desk.ready()
    desk.bot.waitUntil(lambda: not desk.assembly.bridge._events)
    if works:
        desk.bot.waitUntil(lambda: bool(settings.value.profiles))
    assert settings.value.model == (str(model) if works else "")
    kept = settings.value.profiled(model).profile
    assert (kept.mode, kept.draft) == (
        (Mode.PLAIN, draft) if works else (Mode.AUTO, DraftChoice.AUTO)
    )


def test_the_start_after_one_that_never_got_ready_offers_the_starter_model(
    open_desk: OpenDesk, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_ISA", "")
    monkeypatch.setenv("DUOTAIL_SAFE_MODE", "")
    paths, starter = Paths(tmp_path / "data", tmp_path / "config"), default_target()
    save(paths.settings, replace(DEFAULTS, model=str(files / "small.gguf")))
    paths.load_mark.parent.mkdir()
    paths.load_mark.write_text("-1")  # no process has this number
    for _ in range(2):  # to close the window is no answer: the next start asks again
        desk = open_desk(Script(starter=starter))
        desk.bot.waitUntil(lambda d=desk: d.assembly.bridge.status.phase is Phase.NO_MODEL)
        assert loads(desk) == []
        assert "ended while it was loading small" in desk.banners.texts[0]
        desk.assembly.close()
    desk = open_desk(Script(starter=starter))
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.NO_MODEL)
    offers = desk.banners.findChildren(QPushButton)
    (button,) = [each for each in offers if each.text() == "Load the starter model"]
    button.click()
    desk.ready()
    assert [each.model for each in loads(desk)] == [starter]
    assert not paths.load_mark.exists()
    assert desk.banners.texts == []
    assert desk.assembly.settings.value.model == str(starter)


def test_after_such_a_start_a_folder_is_named_whole(
    open_desk: OpenDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dot in its name is no ending."""
    monkeypatch.setenv("DUOTAIL_ISA", "")
    monkeypatch.setenv("DUOTAIL_SAFE_MODE", "")
    paths, model = Paths(tmp_path / "data", tmp_path / "config"), tmp_path / "Qwen2.5-1.5B"
    model.mkdir()
    save(paths.settings, replace(DEFAULTS, model=str(model)))
    paths.load_mark.parent.mkdir()
    paths.load_mark.write_text("-1")
    desk = open_desk(Script())
    assert "while it was loading Qwen2.5-1.5B." in desk.banners.texts[0]


def test_a_model_can_be_taken_out_of_memory(desk: Desk) -> None:
    menu_of(desk)["Unload model"].trigger()
    desk.bot.waitUntil(lambda: any(isinstance(each, Unload) for each in desk.script.commands))


def test_the_menu_offers_no_draft_and_leads_to_more_models(desk: Desk) -> None:
    menu_of(desk)
    head = Installed(Path("head"), "A draft head", "BF16", 1, head=True)
    desk.assembly.models.models = [*desk.assembly.models.models, head]
    actions = menu_of(desk)
    assert not any(text.startswith("A draft head") for text in actions)
    actions["Find more models…"].trigger()
    assert desk.assembly.window.pages.shown is PageName.MODELS


def test_a_draft_that_is_opened_without_a_model_is_not_loaded(
    desk: Desk, notices: list[Notice]
) -> None:
    before, bridge = loads(desk), desk.assembly.bridge
    bridge.status = replace(bridge.status, wanted=None)
    desk.assembly.models._use(Installed(Path("head"), "A draft head", "BF16", 1, head=True))
    assert [each.text for each in notices] == ["A draft head is a draft and cannot answer alone."]
    assert loads(desk) == before


def test_of_two_quick_choices_the_last_one_is_loaded(
    desk: Desk, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at the first takes long, as on a drive that has to wake up."""
    models, gate = desk.assembly.models, threading.Event()
    usual = models.running.kept_load

    def slow(model: Path, draft: Path | None = None) -> Load:
        if model == Path("slow"):
            gate.wait()
        return usual(model, draft)

    monkeypatch.setattr(models.running, "kept_load", slow)
    models.load(Path("slow"))
    models.load(Path("quick"))
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == Path("quick"))
    gate.set()
    models.load_path(files / "small.gguf")
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == files / "small.gguf")
    assert [each.model for each in loads(desk)[1:]] == [Path("quick"), files / "small.gguf"]


def test_a_draft_that_is_opened_drafts_for_the_present_model(desk: Desk) -> None:
    present = loads(desk)[-1].model
    desk.assembly.models._use(Installed(Path("head"), "A draft head", "BF16", 1, head=True))
    desk.bot.waitUntil(lambda: loads(desk)[-1].draft == Path("head"))
    assert loads(desk)[-1].model == present


def test_the_menu_opens_below_its_button(desk: Desk) -> None:
    button = desk.assembly.window.model_button
    button.open_menu()
    (opened,) = [each for each in button.findChildren(QMenu) if each.isVisible()]
    assert opened.actions()
    opened.close()


def test_a_folder_without_a_model_is_refused_in_words(
    desk: Desk, tmp_path: Path, notices: list[Notice]
) -> None:
    before = loads(desk)
    desk.assembly.models.load_path(tmp_path)
    desk.bot.waitUntil(lambda: bool(notices))
    assert notices[0].kind is NoticeKind.PROBLEM
    assert loads(desk) == before


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models in GGUF."""
    folder = tmp_path_factory.mktemp("models")
    for name, kind in (("small.gguf", Kind.Q4_0), ("large.gguf", Kind.Q8_0)):
        write_gguf(FOLDER_TARGET, folder / name, kind, more={"general.name": "Smollm2 135M Lc100K"})
    return folder


def test_a_file_that_was_chosen_is_loaded_and_listed(desk: Desk, files: Path) -> None:
    desk.assembly.models.load_path(files / "small.gguf")
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == files / "small.gguf")
    desk.bot.waitUntil(lambda: any(text.startswith("small  ") for text in menu_of(desk)))
    (words,) = [text for text in menu_of(desk) if text.startswith("small  ")]
    assert "Q4_0" in words
    assert menu_of(desk)[words].isChecked()
    settings = desk.assembly.settings.value
    assert settings.model == str(files / "small.gguf")
    assert desk.assembly.models.first_load(default_target).model == files / "small.gguf"


def test_files_and_folders_are_asked_for_beside_the_last_model(desk: Desk, files: Path) -> None:
    path = files / "small.gguf"
    desk.assembly.settings.change(recent_models=(str(path),))
    button = desk.assembly.window.findChildren(ModelButton)[0]
    mode = QFileDialog.FileMode
    for ask, kind in ((button.ask_folder, mode.Directory), (button.ask_file, mode.ExistingFile)):
        ask()
        (dialog,) = desk.assembly.window.findChildren(QFileDialog)
        assert dialog.fileMode() is kind
        assert Path(dialog.directory().path()) == files
        if ask == button.ask_file:
            dialog.fileSelected.emit(str(path))
        dialog.reject()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == path)


@pytest.mark.parametrize("name", ["small.gguf", "no model.gguf"])
def test_a_start_with_a_file_opens_it_and_a_bad_one_is_no_crash(
    theme: Theme, qtbot: QtBot, tmp_path: Path, files: Path, name: str
) -> None:
    (tmp_path / "no model.gguf").write_bytes(b"x")
    good, script = name == "small.gguf", Script()
    given = files / name if good else tmp_path / name
    paths = Paths(tmp_path / "data", tmp_path / "config")
    assembly = Assembly(paths, theme, lambda emit: FakeEngine(emit, script), hub=script.make_hub)
    assembly.start(model=given)
    phase = Phase.READY if good else Phase.NO_MODEL
    qtbot.waitUntil(lambda: assembly.bridge.status.phase is phase)
    loaded = [each.model for each in script.commands if isinstance(each, Load)]
    assert loaded == ([given] if good else [])
    assembly.close()
    assembly.window.deleteLater()
    assert not paths.load_mark.exists()


def test_one_of_several_files_in_a_folder_can_be_chosen(desk: Desk, files: Path) -> None:
    before = loads(desk)
    desk.assembly.models.load_path(files)
    window = desk.assembly.window
    desk.bot.waitUntil(lambda: window.findChild(FileChooser) is not None)
    chooser = window.findChild(FileChooser)
    assert chooser is not None
    shown = [chooser.list.item(row).text() for row in range(chooser.list.count())]
    assert [text.split()[0] for text in shown] == ["large.gguf", "small.gguf"]
    assert loads(desk) == before
    desk.bot.keyClick(chooser.list, Qt.Key.Key_Down)
    desk.bot.keyClick(chooser.list, Qt.Key.Key_Return)
    desk.bot.waitUntil(lambda: len(loads(desk)) == len(before) + 1)
    assert loads(desk)[-1].model == files / "small.gguf"


@pytest.mark.release(keep=2, reason="every place")
@pytest.mark.parametrize("name", ["small.gguf", ""])
@pytest.mark.parametrize("where", ["chat", "field"])
def test_a_model_that_is_dropped_is_loaded(
    desk: Desk, files: Path, tmp_path: Path, where: str, name: str
) -> None:
    given = files / "small.gguf"
    if not name:
        given = tmp_path / "one"
        given.mkdir()
        (given / "model.gguf").symlink_to(files / "small.gguf")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(given))])
    if where == "field":
        desk.chat.composer.field.insertFromMimeData(data)
    else:
        at = QPointF(40, 40)
        none, left = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
        desk.chat.dropEvent(QDropEvent(at, Qt.DropAction.CopyAction, data, left, none))
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == given)
    assert not desk.chat.outgoing.attachments


def test_a_load_shows_how_far_it_is_and_can_be_called_off(desk: Desk) -> None:
    line, bridge = desk.chat.status_line, desk.assembly.bridge
    assert not line.progress.isVisible()
    assert not line.cancel_button.isVisible()
    status = replace(bridge.status, phase=Phase.LOADING, stage="Loading Mine", fraction=0.43)
    bridge.status = status
    bridge.status_changed.emit(status)
    assert "Loading Mine (43" in line.text
    assert desk.chat.greeting._title.text() == "One moment"
    assert line.progress.value() == 430
    assert line.cancel_button.accessibleName() == "Cancel loading"
    desk.bot.keyClick(line.cancel_button, Qt.Key.Key_Space)
    assert desk.script.commands[-1] == Stop()
    desk.assembly.window.commands._stop()  # what Escape does
    assert desk.script.commands[-2:] == [Stop(), Stop()]


def test_what_a_model_cannot_do_is_said(desk: Desk) -> None:
    caveat = "Duotail has no decoder of its own for “stablelm” models."
    desk.script.plan = replace(desk.script.plan, draft=None, caveat=caveat)
    desk.assembly.models.load(default_target())
    desk.bot.waitUntil(lambda: "transformers" in desk.chat.status_line.text)
    assert any(label.text().startswith(caveat) for label in desk.chat.greeting.findChildren(QLabel))
    assert not desk.banners.findChildren(Banner)
    desk.type_and_send("Hello")
    desk.answered()
    desk.assembly.models.load(default_target())
    desk.bot.waitUntil(lambda: bool(desk.banners.findChildren(Banner)))
    banners = desk.banners.findChildren(Banner)
    assert [banner.text for banner in banners] == [caveat]


def test_the_next_start_loads_what_was_used_unless_it_is_gone(desk: Desk, tmp_path: Path) -> None:
    choice: ModelChoice = desk.assembly.models
    settings = desk.assembly.settings
    kept = ProfiledModel(str(tmp_path), ModelProfile(draft=DraftChoice.LOOKUP))
    settings.change(model=str(tmp_path), profiles=(kept,))
    assert choice.first_load(default_target) == Load(tmp_path, draft=DraftChoice.LOOKUP)
    file = tmp_path / "model.gguf"
    file.touch()
    settings.change(model=str(file))
    assert choice.first_load(default_target).model == file
    settings.change(model=str(tmp_path / "gone"))
    assert choice.first_load(default_target).model == default_target()


def test_recent_folders_follow_the_bundled_models_and_the_unusable_are_left_out(
    tmp_path: Path, shipped: Path
) -> None:
    copy = tmp_path / "mine"
    shutil.copytree(default_target(), copy)
    found = installed([copy, tmp_path / "gone"])
    assert [model.path for model in found][-1] == copy
    assert {model.path.parent for model in found[:-1]} == {shipped}
    assert all(model.weight_bytes > 0 for model in found)


def test_a_model_is_the_same_by_every_way_to_it(desk: Desk, files: Path, tmp_path: Path) -> None:
    """Through a link to its folder it stands in the menu once, and its profile is its own."""
    link = tmp_path / "link"
    link.symlink_to(files)
    models = desk.assembly.models
    for folder in (files, link):
        models.load_path(folder / "small.gguf")
        desk.bot.waitUntil(lambda: loads(desk)[-1].model.name == "small.gguf")
        desk.ready()
    assert {each.model for each in loads(desk)[1:]} == {files / "small.gguf"}
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.recent_models != ())
    assert desk.assembly.settings.value.recent_models == (str(files / "small.gguf"),)


def test_a_path_that_was_kept_as_it_was_given_is_not_guessed_at(
    desk: Desk, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    desk.assembly.settings.change(model="small.gguf")
    load = desk.assembly.models.first_load(lambda: files / "large.gguf")
    assert load is not None
    assert load.model == files / "large.gguf"


def test_every_start_can_begin_with_one_model(desk: Desk, files: Path) -> None:
    desk.assembly.models.load(files / "large.gguf")
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.model == files / "large.gguf")
    action = menu_of(desk)["Always start with this model"]
    assert not action.isChecked()
    action.trigger()
    desk.assembly.models.load(files / "small.gguf")
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.model == files / "small.gguf")
    desk.bot.waitUntil(lambda: desk.assembly.settings.value.model.endswith("small.gguf"))
    load = desk.assembly.models.first_load(lambda: None)
    assert load is not None
    assert load.model == files / "large.gguf"
    assert not menu_of(desk)["Always start with this model"].isChecked()


def test_the_menu_has_all_models_of_this_disk_and_finds_them_by_name(
    desk: Desk, files: Path
) -> None:
    """Also what was downloaded long ago and never used."""
    folder = desk.assembly.paths.data / "models" / "copies"
    folder.mkdir(parents=True)
    for number in range(6):
        shutil.copy(files / "small.gguf", folder / f"kept-{number}.gguf")
    button = desk.assembly.window.model_button
    button.open_menu()
    (menu,) = [each for each in button.findChildren(QMenu) if each.isVisible()]

    def shown() -> list[str]:
        return [
            each.toolTip()
            for each in menu.actions()
            if each.isCheckable() and each.isVisible() and each.toolTip().endswith(".gguf")
        ]

    desk.bot.waitUntil(lambda: len([each for each in shown() if "kept-" in each]) == 6)
    field = menu.findChild(QLineEdit)
    assert field is not None
    field.setText("no such model")
    assert shown() == []
    field.setText("")
    assert len(shown()) >= 6
    menu.close()


def test_a_file_from_outside_shows_the_chat(desk: Desk, files: Path) -> None:
    pages = desk.assembly.window.pages
    pages.open(PageName.TUNING)
    desk.assembly.started_again(files / "small.gguf")
    assert pages.shown is None
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == files / "small.gguf")


def test_file_dialogs_begin_where_the_last_one_was_left(desk: Desk, tmp_path: Path) -> None:
    chosen = tmp_path / "here"
    chosen.mkdir()
    (chosen / "a.gguf").touch()
    window = desk.assembly.window
    first = file_dialog(window, "Models", kind="models")
    first.setDirectory(str(chosen))
    first.accepted.emit()
    assert desk.assembly.settings.value.folders == (f"models={chosen}",)
    again = file_dialog(window, "Models", tmp_path, kind="models")
    assert Path(again.directory().absolutePath()) == chosen
    other = file_dialog(window, "Files", tmp_path)
    assert Path(other.directory().absolutePath()) == tmp_path
