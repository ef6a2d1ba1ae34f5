"""The composer: setups, files, the context meter, and a context that is full."""

from __future__ import annotations

import tempfile
from pathlib import Path

from app.chat.composer.attachment_chips import ReadingFile
from app.history import ChatSetup
from app.settings.prompts import BUILT_IN_PROMPTS
from app.showcase.scenes.shoot import Shoot, new_chat
from app.showcase.stage import Stage, catch_up, settle, wait_for

_STORY_TOKENS = 20_000
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
        project = Path(folder) / "project"
        project.mkdir()
        (project / "main.py").write_text(_NOTES)
        prices = Path(folder) / "prices.csv"
        prices.write_bytes("Größe;Preis\nmüßig;3,50 €\n".encode("cp1252"))
        chat.outgoing.attach([project, prices])
        wait_for(lambda: len(chat.outgoing.attachments) == 2)
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
    chat.composer.set_text("Where does the heron live?")
    with tempfile.TemporaryDirectory() as folder:
        story = Path(folder) / "Story of the marsh.txt"
        story.write_text("\n\n".join(f"{part}. The heron flies. " * 20 for part in range(300)))
        chat.outgoing.attach([story])
        wait_for(lambda: meter.fill is not None and meter.fill.used > _STORY_TOKENS)
        chat.composer.send()
        wait_for(chat.context_card.parts_button.isVisible)
        chat.context_card.parts_button.click()
        wait_for(lambda: meter.fill is not None and meter.fill.fits)
        catch_up()
        shoot("relevant-parts")
    for chip in list(chat.composer.chips.chips):
        chip.removed.emit()
    chat.composer.set_text("")
    new_chat(stage)
