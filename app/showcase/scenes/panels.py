"""Scenes with what lies beside and above the conversation."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QWidget

from app.performance.panel import PerformancePanel
from app.performance.verdict import SpeedRange, SpeedVerdict
from app.settings.model import SettingsSection
from app.settings_page.dialog import SettingsDialog
from app.settings_page.presets_dialog import PresetsDialog
from app.settings_page.prompts_dialog import PromptsDialog
from app.settings_page.reports_dialog import ReportsDialog
from app.showcase.scenes.shoot import Shoot, answer, dialog, menu, new_chat
from app.showcase.stage import Stage, catch_up, settle

D = TypeVar("D", bound=QDialog)

_TEXT = " ".join(
    f"Sentence {number} says something that the draft could guess well." for number in range(40)
)


def performance(stage: Stage, shoot: Shoot) -> None:
    """The performance panel, during an answer and after it."""
    window = stage.window
    new_chat(stage)
    stage.assembly.session.send("Write something long.")
    stage.stream(_TEXT[:900])
    window.performance.show()
    catch_up()
    shoot("performance-live")
    window.performance.hide()
    stage.finish(_TEXT[:900])
    answer(stage, "And more.", _TEXT)
    _compared(stage)
    window.performance.show()
    catch_up()
    shoot("performance")
    window.performance.hide()


def _compared(stage: Stage) -> None:
    """Pass a verdict on the answer on show, as if it had been measured without its draft too."""
    panel = stage.window.performance
    assert isinstance(panel, PerformancePanel)  # noqa: S101 - the window has no other
    plain = SpeedRange.around(26.3, 0.02)
    verdict = SpeedVerdict(SpeedRange.around(41.8, 0.03), plain, 2.6)
    catch_up()
    model = panel.sight.model
    model.advance()
    if model.tally is not None:
        model.verdicts[model.tally.request_id] = verdict


def dialogs(stage: Stage, shoot: Shoot) -> None:
    """Menus and dialogs."""
    window = stage.window
    menu(shoot, "model-menu", window.model_button.make_menu())
    commands = window.commands
    dialog(stage, shoot, "commands", commands.show_palette)
    dialog(stage, shoot, "shortcuts", commands.show_shortcuts)
    dialog(stage, shoot, "about", commands.show_about)


def settings(stage: Stage, shoot: Shoot) -> None:
    """Show every section of the settings, the presets, the prompts, the crash reports."""
    stage.window.settings_asked.emit()
    opened = _opened(stage.window, SettingsDialog)
    for section in SettingsSection:
        opened.page.show_section(section)
        catch_up()
        shoot(f"settings-{section.name.lower()}", opened)
    opened.page.show_section(SettingsSection.CHAT)
    QTest.keyClick(opened.page.rows["presets"].editor.control, Qt.Key.Key_Space)
    presets = _opened(opened, PresetsDialog)
    shoot("presets", presets)
    presets.close()
    QTest.keyClick(opened.page.rows["prompts"].editor.control, Qt.Key.Key_Space)
    prompts = _opened(opened, PromptsDialog)
    shoot("prompts", prompts)
    prompts.close()
    opened.page.privacy.show_reports()
    reports = _opened(opened, ReportsDialog)
    shoot("crash-reports", reports)
    reports.close()
    opened.close()


def _opened(parent: QWidget, kind: type[D]) -> D:
    """The dialog of this kind that is open."""
    settle()
    return next(each for each in parent.findChildren(kind) if each.isVisible())
