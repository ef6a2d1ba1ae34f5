"""The composer: setups, files, the context meter, and a context that is full."""

from __future__ import annotations

import tempfile
from pathlib import Path

from app.chat.composer.attachment_chips import ReadingFile
from app.history import ChatSetup
from app.settings.prompts import BUILT_IN_PROMPTS
from app.showcase.scenes.shoot import Shoot, new_chat
from app.showcase.stage import Stage, catch_up, settle, wait_for

_NOTES = "def main() -> None:\n    print('Hello')\n" * 30


def composer(stage: Stage, shoot: Shoot) -> None:
    """Show the prompts, a setup of its own, its panel, files attached, a long message."""
    chat = stage.window.chat
    new_chat(stage)
    chat.composer.set_text("/")
    catch_up()
    shoot("prompt-menu")
    chat.composer.field.take_prompt(BUILT_IN_PROMPTS[1].text)
    catch_up()
    shoot("prompt")
    stage.assembly.settings.change(instructions="I teach biology. Answer briefly.")
    stage.assembly.session.set_setup(
        ChatSetup(system_prompt="You are a patient teacher.", temperature=0.7, top_p=0.9)
    )
    chat.open_setup()
    settle()
    shoot("setup", chat.setup_panel)
    chat.setup_panel.hide()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "main.py"
        file.write_text(_NOTES)
        chat.outgoing.attach([file])
        catch_up()
        chat.composer.chips.show_files([*chat.outgoing.attachments, ReadingFile("Thesis.pdf")])
        chat.composer.set_text("What does this program do?\nPlease explain it line by line.")
        catch_up()
        shoot("composer")
    chat.composer.send()
    stage.stream("It says hello, thirty times.")
    stage.finish("It says hello, thirty times.")
    catch_up()
    shoot("attached")
    stage.assembly.settings.reset("instructions")


def context_full(stage: Stage, shoot: Shoot) -> None:
    """Show a text longer than the context: the user chooses."""
    chat = stage.window.chat
    chat.composer.set_text("A long question. " * 3_000)
    meter = chat.composer.meter
    wait_for(lambda: meter.fill is not None and not meter.fill.fits)
    chat.composer.send()
    stage.tell()
    catch_up()
    shoot("context-full")
    chat.composer.set_text("")
    new_chat(stage)
