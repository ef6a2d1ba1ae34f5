"""What lies beside and above the conversation."""

from __future__ import annotations

from app.screenshots.scenes.shoot import Shoot, answer, dialog, menu, new_chat, rendered
from app.screenshots.stage import Stage, settle

_TEXT = " ".join(
    f"Sentence {number} says something that the draft could guess well." for number in range(40)
)


def performance(stage: Stage, shoot: Shoot) -> None:
    """The performance panel, during an answer and after it."""
    window = stage.window
    window.performance.show()
    new_chat(stage)
    stage.assembly.session.send("Write something long.")
    stage.stream(_TEXT[:900])
    rendered()
    shoot("performance-live")
    stage.finish(_TEXT[:900])
    answer(stage, "And more.", _TEXT)
    shoot("performance")
    window.performance.hide()


def dialogs(stage: Stage, shoot: Shoot) -> None:
    """Menus and dialogs."""
    window = stage.window
    menu(shoot, "model-menu", window.model_button.make_menu())
    commands = window.commands
    dialog(stage, shoot, "commands", commands.show_palette)
    dialog(stage, shoot, "shortcuts", commands.show_shortcuts)
    dialog(stage, shoot, "about", commands.show_about)


def settings(stage: Stage, shoot: Shoot) -> None:
    """Every part of the settings."""
    from app.settings.dialog import SettingsDialog

    assembly = stage.assembly
    opened = SettingsDialog(assembly.settings, stage.theme, assembly.paths, stage.window)
    opened.open()
    settle()
    for number in range(opened.page.sections.count()):
        opened.page.sections.setCurrentRow(number)
        rendered()
        shoot(f"settings-{number + 1}", opened)
    opened.close()
    opened.deleteLater()
    settle()
