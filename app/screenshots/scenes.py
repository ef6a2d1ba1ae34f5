"""What the pictures show. A scene leaves the window ready for the next one."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Protocol, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QWidget

from app.history import ChatSetup
from app.reports.dialog import ReportsDialog
from app.screenshots.script import sample
from app.screenshots.stage import Stage, settle
from app.settings.dialog import SettingsDialog
from app.settings.model import Section
from app.settings.presets_dialog import PresetsDialog
from engine.errors import UserFixable
from engine.events import Failed, FinishReason, LoadProgress, TextDelta, Unloaded

D = TypeVar("D", bound=QDialog)

_QUESTION = "How does speculative decoding make a model faster? Please show some code too."
_ANSWER = """\
A small **draft** model guesses a few tokens ahead, and the *target* checks all of them in a
single pass. Whatever it agrees with is kept, so the text is exactly the target's own.

### What happens in a round

1. The draft proposes up to `k` tokens.
2. The target reads them all at once.
3. The longest agreed prefix is committed, plus one token of the target's own.

```python
def speculate(target, draft, tokens: list[int], k: int = 4) -> list[int]:
    \"\"\"One round: draft, verify, commit.\"\"\"
    guess = draft.propose(tokens, k)
    checked = target.verify(tokens, guess)  # one forward pass
    return tokens + checked.accepted + [checked.bonus]
```

| Mode | Tokens/s | Speed-up |
|:-----|---------:|---------:|
| Plain decoding | 21.4 | 1.00 |
| CPU, drafting | 33.0 | 1.54 |
| Dovetail | 41.8 | 1.95 |

> Only verified tokens are ever shown.

The gain depends on how often the two agree: see [the paper](https://arxiv.org/abs/2412.18934).
"""
_OLD_TITLES = (
    "A letter to a new neighbour",
    "Why the sky is blue, and sunsets are red",
    "Regular expressions for log files",
    "Ideas for a rainy Sunday",
)
_FRAMES_MS = 280
"""Rendering comes some frames after the text."""


class Shoot(Protocol):
    """How a scene has its picture taken."""

    def __call__(self, name: str, widget: QWidget = ...) -> None:
        """Take one, of the window unless told otherwise."""


def first_start(stage: Stage, shoot: Shoot) -> None:
    """From an empty window to one that is ready."""
    window = stage.window
    shoot("preparing")
    window.performance.hide()
    stage.assembly.start(lambda: Path("model"))
    stage.tell(sample(0.0, 3.0), LoadProgress(0.0, "Loading Duotail 7M", 0.62))
    shoot("loading")
    stage.ready()
    window.performance.show()
    shoot("first-start")
    window.performance.hide()


def an_answer(stage: Stage, shoot: Shoot) -> None:
    """A question, waiting, text coming in, the finished answer."""
    _fill_list(stage)
    stage.assembly.session.send(_QUESTION)
    shoot("waiting")
    stage.stream(_ANSWER[:900])
    QTest.qWait(_FRAMES_MS)
    shoot("streaming")
    stage.tell(TextDelta(perf_counter(), stage.request_id, _ANSWER[900:], ()))
    stage.finish(_ANSWER)
    shoot("finished")
    stage.window.performance.show()
    shoot("performance")
    stage.window.performance.hide()


def troubles(stage: Stage, shoot: Shoot) -> None:
    """Errors, a stopped answer, a deletion, no model, a narrow window."""
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
    window.chat.banners.clear()
    session.send("And in one sentence?")
    stage.stream("A small model guesses ahead and")
    session.stop()
    stage.finish("A small model guesses ahead and", FinishReason.STOPPED)
    shoot("stopped")
    window.chat.show_trouble(UserFixable("The history is on a full drive.", "Free some space."))
    if session.current is not None:
        session.conversations.delete([session.current.id])
    shoot("deleted-undo")
    window.chat.banners.clear()
    stage.tell(Unloaded(0.0))
    shoot("no-model")
    stage.ready()


def narrow(stage: Stage, shoot: Shoot) -> None:
    """Half the screen for something else."""
    size = stage.window.size()
    stage.window.resize(560, 800)
    session = stage.assembly.session
    session.open(session.conversations.newest_first()[0])
    shoot("narrow")
    stage.window.resize(size)


def panels(stage: Stage, shoot: Shoot) -> None:
    """What opens above the window."""
    chat = stage.window.chat
    stage.assembly.session.set_setup(ChatSetup(temperature=0.7))
    chat.open_setup()
    shoot("sampling", chat.setup_panel)
    chat.setup_panel.hide()
    for name, opener in (
        ("shortcuts", stage.window.commands.show_shortcuts),
        ("about", stage.window.commands.show_about),
    ):
        opener()
        settle()
        for dialog in stage.window.findChildren(QDialog):
            if dialog.isVisible():
                shoot(name, dialog)
                dialog.close()


def settings(stage: Stage, shoot: Shoot) -> None:
    """Every section of the settings, the presets, the crash reports."""
    stage.window.settings_asked.emit()
    dialog = _opened(stage.window, SettingsDialog)
    for section in Section:
        dialog.page.show_section(section)
        shoot(f"settings-{section.name.lower()}", dialog)
    dialog.page.show_section(Section.CHAT)
    QTest.keyClick(dialog.page.rows["presets"].editor.control, Qt.Key.Key_Space)
    presets = _opened(dialog, PresetsDialog)
    shoot("presets", presets)
    presets.close()
    dialog.page.privacy.show_reports()
    reports = _opened(dialog, ReportsDialog)
    shoot("crash-reports", reports)
    reports.close()
    dialog.close()


ALL = (first_start, an_answer, troubles, narrow, panels, settings)
"""Every scene, in the order of the walk."""


def _opened(parent: QWidget, kind: type[D]) -> D:
    """The dialog of this kind that is open."""
    settle()
    return next(each for each in parent.findChildren(kind) if each.isVisible())


def _fill_list(stage: Stage) -> None:
    store = stage.assembly.store
    for title in reversed(_OLD_TITLES):
        conversation = store.create_conversation(title)
        store.add_user_message(conversation.id, title)
    stage.assembly.session.conversations.refresh()
