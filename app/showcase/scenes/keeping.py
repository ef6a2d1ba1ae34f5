"""The conversations: folders, pins, search; and what can go wrong."""

from __future__ import annotations

from pathlib import Path

from app.history import HistoryStore, NoPlace
from app.history.database import lock_path
from app.history.place import full_words
from app.models.crash_offer import offer_starter
from app.notices import report
from app.shell.open_history import OpenHistory
from app.showcase.scenes.shoot import Shoot
from app.showcase.stage import Stage, catch_up, settle
from engine.errors import UserFixable
from engine.events import Failed, Unloaded

_OLD_TITLES = (
    "A letter to a new neighbour",
    "Why the sky is blue, and sunsets are red",
    "Regular expressions for log files",
    "Ideas for a rainy Sunday",
)


def folders(stage: Stage, shoot: Shoot) -> None:
    """Pinned conversations, two folders, the rest by day."""
    store, listed = stage.assembly.store, stage.assembly.session.conversations
    made = []
    for title in reversed(_OLD_TITLES):
        conversation = store.conversations.create(title)
        store.answers.add_user_message(conversation.id, title)
        made.append(conversation.id)
    listed.refresh()
    work, home = listed.create_folder("Work"), listed.create_folder("Home")
    if work is not None and home is not None:
        listed.move([made[1]], work.id)
        listed.move([made[0]], home.id)
    listed.pin([made[3]], pinned=True)
    settle()
    shoot("folders")


def searching(stage: Stage, shoot: Shoot) -> None:
    """Hits in titles and texts."""
    field = stage.window.sidebar.search
    field.setText("model")
    catch_up()
    catch_up()
    shoot("search")
    field.setText("nothing like it")
    catch_up()
    catch_up()
    shoot("search-nothing")
    field.clear()
    catch_up()


def troubles(stage: Stage, shoot: Shoot) -> None:
    """Errors, a deletion that can be undone."""
    window, session = stage.window, stage.assembly.session
    stage.tell(
        Failed(
            0.0,
            None,
            "There is not enough free memory for Llama 13B: 24.2 GiB are needed, 5.9 are free.",
            "Close other programs, or choose a smaller model.",
            "details",
        )
    )
    shoot("error-banner")
    window.banners.clear()
    report(UserFixable("The preset could not be read.", "Choose another file."))
    session.conversations.delete([session.conversations.newest_first()[0].id])
    settle()
    shoot("deleted-undo")
    window.banners.clear()


def drives(stage: Stage, shoot: Shoot) -> None:
    """Show a full drive, an answer that is not saved, and a history that can only be read."""
    saving, place = stage.assembly.session.writer.saving, stage.assembly.paths.data

    def refuse() -> None:
        raise NoPlace(*full_words(place))

    saving.write(0, refuse)
    settle()
    shoot("full-drive")
    stage.window.close()
    settle()
    shoot("not-saved")
    saving.write(0, lambda: None)
    saving.settle()
    settle()
    shoot("saved-again")
    stage.window.banners.clear()
    path = place / "elsewhere" / "history.sqlite3"
    HistoryStore.open(path).close()
    lock = lock_path(path)
    lock.unlink()
    lock.mkdir()  # nobody can lock it
    history = OpenHistory(path)
    history.tell(lambda: None)
    settle()
    shoot("read-only")
    history.close()
    stage.window.banners.clear()


def no_model(stage: Stage, shoot: Shoot) -> None:
    """Show the window without a model."""
    stage.assembly.session.open(None)
    stage.tell(Unloaded(0.0))
    shoot("no-model")
    offer_starter(
        stage.assembly.models, Path("Qwen3-8B-Q4_K_M.gguf"), Path("starter"), lambda: None
    )
    settle()
    shoot("start-after-a-crash")
    stage.ready()
