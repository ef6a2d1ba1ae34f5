from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QFileDialog,
    QMessageBox,
    QPlainTextEdit,
    QPushButton,
    QSlider,
    QSpinBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.data_folder.paths import Paths
from app.settings import Settings, SettingsStore
from app.settings.file import load
from app.settings.model import SPECS, SettingsSection
from app.settings.presets import BALANCED, BUILT_IN, PRECISE
from app.settings.prompts import BUILT_IN_PROMPTS, SavedPrompt
from app.settings_page.dialog import SettingsDialog
from app.settings_page.page import Panel, SettingsPage
from app.settings_page.presets_dialog import PresetsDialog
from app.settings_page.privacy import PlaceRow
from app.settings_page.prompts_dialog import PromptsDialog
from app.settings_page.rows import SettingRow
from app.theme.theme import Theme, ThemeChoice
from app.widgets.labels import LabelledRow
from engine import language

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "data", tmp_path / "config", tmp_path / "config" / "data-folder.toml")


@pytest.fixture
def store(paths: Paths, qtbot: QtBot) -> SettingsStore:  # noqa: ARG001 - a timer needs Qt
    return SettingsStore(paths.settings)


@pytest.fixture
def dialog(store: SettingsStore, paths: Paths, theme: Theme, qtbot: QtBot) -> SettingsDialog:
    dialog = SettingsDialog(store, theme, paths)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitExposed(dialog)
    return dialog


def control(dialog: SettingsDialog, name: str, kind: type[QWidget]) -> QWidget:
    widget = dialog.page.rows[name].editor.control
    assert isinstance(widget, kind)
    return widget


def shown(dialog: SettingsDialog) -> set[str]:
    return {name for name, row in dialog.page.rows.items() if row.isVisible()}


def test_every_setting_with_a_section_has_a_named_control(dialog: SettingsDialog) -> None:
    wanted = {name for name, spec in SPECS.items() if spec.section is not None}
    assert set(dialog.page.rows) == wanted
    for name, row in dialog.page.rows.items():
        assert row.editor.control.accessibleName() == SPECS[name].label
        assert row.editor.control.accessibleDescription() == SPECS[name].about
        assert row.editor.control.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_sections_are_shown_one_at_a_time(dialog: SettingsDialog, qtbot: QtBot) -> None:
    for section in SettingsSection:
        assert shown(dialog) == {n for n, s in SPECS.items() if s.section is section}
        assert dialog.page.privacy.isVisible() is (section is SettingsSection.PRIVACY)
        qtbot.keyClick(dialog.page.sections, Qt.Key.Key_Down)


def made(dialog: SettingsDialog) -> set[str]:
    return {row.name for row in dialog.page.findChildren(SettingRow)}


def test_settings_open_with_one_section_and_make_the_others_later(
    store: SettingsStore, paths: Paths, theme: Theme, qtbot: QtBot
) -> None:
    dialog = SettingsDialog(store, theme, paths, section=SettingsSection.CHAT)
    qtbot.addWidget(dialog)
    assert made(dialog) == {n for n, s in SPECS.items() if s.section is SettingsSection.CHAT}
    qtbot.waitUntil(lambda: len(made(dialog)) > len(shown(dialog)))
    qtbot.waitUntil(lambda: len(dialog.page.findChildren(PlaceRow)) > 0)
    assert made(dialog) == {n for n, s in SPECS.items() if s.section is not None}
    dialog.show()
    assert shown(dialog) == {n for n, s in SPECS.items() if s.section is SettingsSection.CHAT}


def test_the_other_sections_are_made_a_row_in_each_turn(
    dialog: SettingsDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest section would hold the window for 25 ms."""
    made = [0]
    make_next = SettingsPage._make_next

    def counted(page: SettingsPage) -> None:
        before = len(page.findChildren(LabelledRow))
        make_next(page)
        made.append(len(page.findChildren(LabelledRow)) - before)

    monkeypatch.setattr(SettingsPage, "_make_next", counted)
    dialog.page._make_next()
    qtbot.waitUntil(lambda: not dialog.page._unmade)
    assert max(made) <= 2, "the page of privacy begins with two"
    assert sum(made) > 20
    assert set(dialog.page.rows) == {n for n, spec in SPECS.items() if spec.section is not None}


def test_what_is_typed_at_once_is_looked_for_in_sections_not_made_yet(
    store: SettingsStore, paths: Paths, theme: Theme, qtbot: QtBot
) -> None:
    dialog = SettingsDialog(store, theme, paths)
    qtbot.addWidget(dialog)
    dialog.page.search.setText("crash")
    dialog.show()
    found = [row for row in dialog.page.findChildren(PlaceRow) if row.isVisible()]
    assert found


def test_the_keyboard_visits_a_panel_where_it_stands(
    store: SettingsStore, paths: Paths, theme: Theme, qtbot: QtBot
) -> None:
    def panel(parent: QWidget) -> tuple[QWidget, list[LabelledRow]]:
        row = LabelledRow("More", "", QPushButton("More"), parent)
        return row, [row]

    more = Panel(SettingsSection.GENERAL, panel, behind="language")
    dialog = SettingsDialog(store, theme, paths, [more])
    qtbot.addWidget(dialog)
    widget, names = dialog.page.sections.nextInFocusChain(), []
    while widget is not dialog.page.sections:
        if isinstance(widget, QComboBox | QCheckBox | QPushButton) and widget.accessibleName():
            names.append(widget.accessibleName())
        elif isinstance(widget, QPushButton):
            names.append(widget.text())
        widget = widget.nextInFocusChain()
    at = names.index("More")
    assert SPECS["language"].label in names[:at]
    assert SPECS["reopen_last"].label in names[at:]


def test_searching_finds_rows_of_every_section(dialog: SettingsDialog, qtbot: QtBot) -> None:
    qtbot.keyClicks(dialog.page.search, "Size TEXT")
    assert shown(dialog) == {"font_scale"}
    dialog.page.search.setText("crash")
    assert shown(dialog) == set()
    assert any(row.isVisible() for row in dialog.page.privacy.rows)
    dialog.page.search.setText("no such thing")
    assert not any(row.isVisible() for row in dialog.page.privacy.rows)
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    general = {"language", "reopen_last", "look_for_updates", "updates_address"}
    assert shown(dialog) == general
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_a_change_applies_at_once_and_can_be_reset(
    dialog: SettingsDialog, store: SettingsStore, qtbot: QtBot
) -> None:
    dialog.page.show_section(SettingsSection.CHAT)
    row = dialog.page.rows["token_tint"]
    assert not row.back.isVisible()
    qtbot.keyClick(control(dialog, "token_tint", QCheckBox), Qt.Key.Key_Space)
    assert store.value.token_tint is True
    assert row.back.isVisible()
    qtbot.mouseClick(row.back, Qt.MouseButton.LeftButton)
    assert store.value == Settings()
    assert not row.back.isVisible()
    assert row.editor.control.hasFocus()


def test_a_list_of_choices(dialog: SettingsDialog, store: SettingsStore, qtbot: QtBot) -> None:
    dialog.page.show_section(SettingsSection.APPEARANCE)
    combo = control(dialog, "theme", QComboBox)
    combo.setFocus()
    qtbot.keyClick(combo, Qt.Key.Key_Down)
    assert store.value.theme is ThemeChoice.LIGHT
    store.change(theme=ThemeChoice.DARK)
    assert isinstance(combo, QComboBox)
    assert combo.currentText() == "Dark"


def test_the_text_size_applies_where_the_slider_rests(
    dialog: SettingsDialog, store: SettingsStore, qtbot: QtBot
) -> None:
    dialog.page.show_section(SettingsSection.APPEARANCE)
    slider = control(dialog, "font_scale", QSlider)
    with qtbot.waitSignal(store.changed):
        qtbot.keyClick(slider, Qt.Key.Key_Right)
        qtbot.keyClick(slider, Qt.Key.Key_Right)
        assert store.value.font_scale == 1.0
    assert store.value.font_scale == 1.2


def test_a_slider_that_is_being_moved_stays_where_it_is(
    dialog: SettingsDialog, store: SettingsStore
) -> None:
    slider = control(dialog, "font_scale", QSlider)
    assert isinstance(slider, QSlider)
    slider.setValue(slider.value() + 2)
    moved = slider.value()
    store.change(token_tint=True)
    assert slider.value() == moved


def test_the_wheel_scrolls_the_page_and_changes_no_setting(
    dialog: SettingsDialog, store: SettingsStore
) -> None:
    for name, kind in (("theme", QComboBox), ("font_scale", QSlider), ("serve_port", QSpinBox)):
        wheel = QWheelEvent(
            QPointF(5, 5), QPointF(5, 5), QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(control(dialog, name, kind), wheel)
        assert not wheel.isAccepted()
    assert store.value == Settings()


def test_a_value_that_is_no_choice_is_named(dialog: SettingsDialog, store: SettingsStore) -> None:
    store.change(language="tlh", default_preset="Gone")
    language_box = control(dialog, "language", QComboBox)
    preset_box = control(dialog, "default_preset", QComboBox)
    assert isinstance(language_box, QComboBox)
    assert isinstance(preset_box, QComboBox)
    assert (language_box.currentText(), preset_box.currentText()) == ("tlh", "No preset")


def test_presets_and_prompts_are_edited_in_dialogs(dialog: SettingsDialog) -> None:
    for name, kind in (("presets", PresetsDialog), ("prompts", PromptsDialog)):
        button = control(dialog, name, QPushButton)
        assert isinstance(button, QPushButton)
        button.click()
        opened = dialog.findChild(kind)
        assert opened is not None
        assert opened.isVisible()
        opened.close()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("hub_cache", QFileDialog.FileMode.Directory),
        ("serve_certificate", QFileDialog.FileMode.ExistingFile),
    ],
)
def test_a_file_or_folder_is_chosen_where_the_last_one_was(
    dialog: SettingsDialog,
    store: SettingsStore,
    tmp_path: Path,
    name: str,
    mode: QFileDialog.FileMode,
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "a.pem").touch()
    known, chosen = place, tmp_path
    if mode is QFileDialog.FileMode.ExistingFile:
        known, chosen = place / "a.pem", place / "b.pem"
        chosen.touch()
    editor = dialog.page.rows[name].editor
    editor.control.setText(str(known))  # type: ignore[attr-defined]
    next(b for b in editor.findChildren(QPushButton) if b.text() == "Choose…").click()
    (asked,) = dialog.findChildren(QFileDialog)
    assert asked.fileMode() is mode
    assert asked.directory().path() == str(place)
    asked.fileSelected.emit(str(chosen))
    assert getattr(store.value, name) == str(chosen)
    asked.close()


def test_a_section_ends_a_search(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.page.search.setText("size of text")
    qtbot.keyClick(dialog.page.sections, Qt.Key.Key_Down)
    assert dialog.page.search.text() == ""
    assert shown(dialog) == {n for n, s in SPECS.items() if s.section is SettingsSection.APPEARANCE}


def test_texts_stay_together_beside_a_high_control(qtbot: QtBot) -> None:
    """What a setting is about had drifted from its name."""
    host = QWidget()
    qtbot.addWidget(host)
    control = QPushButton("High", host)
    control.setFixedHeight(120)
    row = LabelledRow("Name", "About it.", control, host)
    row.resize(900, row.sizeHint().height())
    host.show()
    row.layout().activate()
    apart = row.about.geometry().center().y() - row.label.geometry().center().y()
    assert apart < 2 * row.label.sizeHint().height()


def test_the_list_of_sections_grows_with_its_letters(dialog: SettingsDialog) -> None:
    before = dialog.page.sections.iconSize().height()
    font = dialog.page.font()
    font.setPointSizeF(2 * font.pointSizeF())
    dialog.page.setFont(font)
    assert dialog.page.sections.iconSize().height() > before


def test_a_language_asks_for_another_start(
    dialog: SettingsDialog, store: SettingsStore, qtbot: QtBot
) -> None:
    row = dialog.page.rows["language"]
    said = row.note
    assert not said.isVisible()
    store.change(language="de")
    assert said.isVisible()
    with qtbot.waitSignal(dialog.page.restart_asked) as asked:
        qtbot.mouseClick(row.restart, Qt.MouseButton.LeftButton)
    assert asked.args == [False]
    store.reset("language")
    assert not said.isVisible()


def test_resetting_everything_keeps_the_window(
    dialog: SettingsDialog, store: SettingsStore
) -> None:
    store.change(window_width=901, theme=ThemeChoice.DARK, presets=())
    dialog.page.show_section(SettingsSection.PRIVACY)
    dialog.page.privacy.reset_settings_asked.emit()
    assert store.value == Settings(window_width=901)


@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_deleting_all_conversations_is_asked_twice(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.page.show_section(SettingsSection.PRIVACY)
    row = next(r for r in dialog.page.privacy.rows if r.label.text() == "Conversations")
    button = row.buttons.findChildren(QWidget)[-1]
    with qtbot.assertNotEmitted(dialog.page.privacy.delete_conversations_asked):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    box = dialog.findChild(QMessageBox)
    assert box is not None
    assert box.defaultButton().text() == "Cancel"
    delete = next(b for b in box.buttons() if b.text() == "Delete all")
    with qtbot.waitSignal(dialog.page.privacy.delete_conversations_asked):
        delete.click()


def test_the_privacy_page_says_where_everything_is(
    dialog: SettingsDialog, paths: Paths, qtbot: QtBot
) -> None:
    paths.data.mkdir()
    paths.history.write_bytes(b"x" * 2048)
    dialog.page.show_section(SettingsSection.PRIVACY)
    texts = {row.label.text(): row for row in dialog.page.privacy.rows}
    for label, path in (
        ("Data folder", paths.data),
        ("Conversations", paths.history),
        ("Settings", paths.settings),
        ("Log", paths.log),
        ("Crash reports", paths.reports),
    ):
        assert texts[label].path_label.toolTip() == str(path)
    qtbot.waitUntil(lambda: texts["Conversations"].size_label.text() == "2.00 KiB")
    qtbot.waitUntil(lambda: texts["Crash reports"].size_label.text() == "Empty")


def test_presets_are_made_changed_and_deleted(store: SettingsStore, qtbot: QtBot) -> None:
    dialog = PresetsDialog(store)
    qtbot.addWidget(dialog)
    dialog.new.click()
    qtbot.keyClicks(dialog.form.name, "Pirate")
    assert store.value.presets[-1].name == "Pirate"
    dialog.form.controls["system_prompt"].setPlainText("Say arr.")  # type: ignore[attr-defined]
    dialog.form.controls["temperature"].setValue(1.25)  # type: ignore[attr-defined]
    seed = dialog.form.controls["seed"]
    qtbot.keyClicks(seed, "7\b12x")
    setup = store.value.presets[-1].setup
    assert (setup.system_prompt, setup.temperature, setup.seed) == ("Say arr.", 1.25, 12)
    store.change(default_preset="Pirate")
    dialog.form.name.clear()
    qtbot.keyClicks(dialog.form.name, "Captain")
    assert store.value.default_preset == "Captain"
    dialog.form.name.setText("Precis")
    qtbot.keyClicks(dialog.form.name, "e")  # taken
    assert store.value.presets[-1].name == "Captain"
    qtbot.keyClick(dialog.form.name, Qt.Key.Key_Return)
    assert dialog.form.name.text() == "Captain"
    dialog.delete.click()
    assert store.value.presets == BUILT_IN
    assert load(store.path).settings is not None


def test_built_in_presets_can_go_and_come_back(store: SettingsStore, qtbot: QtBot) -> None:
    dialog = PresetsDialog(store)
    qtbot.addWidget(dialog)
    assert not dialog.restore.isEnabled()
    for _ in BUILT_IN:
        dialog.delete.click()
    assert store.value.presets == ()
    assert not dialog.delete.isEnabled()
    dialog.restore.click()
    assert store.value.presets == BUILT_IN
    dialog.list.setCurrentRow(1)
    dialog.copy.click()
    assert store.value.presets[-1].setup == BALANCED.setup
    assert store.value.presets[-1] != BALANCED
    dialog.list.setCurrentRow(1)
    dialog.copy.click()
    assert len({preset.name for preset in store.value.presets}) == len(BUILT_IN) + 2
    assert PRECISE.in_use().preset == "Precise"


def test_prompts_are_made_edited_deleted_and_brought_back(
    store: SettingsStore, qtbot: QtBot
) -> None:
    dialog = PromptsDialog(store)
    qtbot.addWidget(dialog)
    dialog.new.click()
    qtbot.keyClicks(dialog.form.name, "Poem")
    dialog.form.text.setPlainText("A poem about {{topic}}")  # type: ignore[attr-defined]
    poem = SavedPrompt("Poem", "A poem about {{topic}}")
    assert store.value.prompts == (*BUILT_IN_PROMPTS, poem)
    dialog.list.setCurrentRow(1)
    dialog.delete.click()
    dialog.list.setCurrentRow(0)
    dialog.form.text.setPlainText("Shorter:")  # type: ignore[attr-defined]
    qtbot.keyClick(dialog.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    dialog.undo.click()
    changed = SavedPrompt("Summarize", "Shorter:")
    assert store.value.prompts == (changed, *BUILT_IN_PROMPTS[1:], poem)
    dialog.restore.click()
    assert store.value.prompts == (*BUILT_IN_PROMPTS, poem)
    dialog.undo.click()
    assert store.value.prompts == (changed, *BUILT_IN_PROMPTS[1:], poem)
    store.flush()
    assert load(store.path).settings.prompts == store.value.prompts


def test_custom_instructions_are_kept_as_they_are_typed(
    dialog: SettingsDialog, store: SettingsStore, qtbot: QtBot
) -> None:
    dialog.page.show_section(SettingsSection.CHAT)
    field = dialog.page.rows["instructions"].editor.control
    assert isinstance(field, QPlainTextEdit)
    field.setPlainText("Answer in rhymes.")
    dialog.close()
    assert store.value.instructions == "Answer in rhymes."
    dialog.page.rows["instructions"].back.click()
    assert (store.value.instructions, field.toPlainText()) == ("", "")
    field.undo()
    qtbot.waitUntil(lambda: store.value.instructions == "Answer in rhymes.")


def test_a_language_that_waits_for_a_restart_says_so_until_then(
    store: SettingsStore, paths: Paths, theme: Theme, qtbot: QtBot
) -> None:
    """Also where the page was closed and is opened again."""
    first = SettingsDialog(store, theme, paths)
    qtbot.addWidget(first)
    store.change(language="de")
    first.close()
    again = SettingsDialog(store, theme, paths)
    qtbot.addWidget(again)
    assert not again.page.rows["language"].restart.isHidden()
    store.reset("language")
    assert again.page.rows["language"].restart.isHidden()


def test_texts_are_whole_at_the_largest_size_in_another_language(
    store: SettingsStore, paths: Paths, theme: Theme, qtbot: QtBot
) -> None:
    language.use(language.PSEUDO)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.6)
    try:
        dialog = SettingsDialog(store, theme, paths)
        qtbot.addWidget(dialog)
        dialog.show()
        qtbot.waitExposed(dialog)
        for section in SettingsSection:
            dialog.page.show_section(section)
            rows = (*dialog.page.rows.values(), *dialog.page.privacy.rows)
            seen = [row for row in rows if row.isVisible()]
            labels = [label for row in seen for label in (row.label, row.about)]
            qtbot.waitUntil(
                lambda labels=labels: all(
                    label.height() >= label.heightForWidth(label.width()) for label in labels
                )
            )
            qtbot.waitUntil(
                lambda seen=seen: all(row.width() >= row.minimumSizeHint().width() for row in seen)
            )
    finally:
        language.use(language.ENGLISH)
        theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
