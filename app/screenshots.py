"""Draws every page and state of the window into PNG files, with a scripted engine."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from PySide6.QtCore import QSize
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QWidget

from app.application import Assembly, make_application
from app.paths import Paths
from app.theme.theme import Theme, ThemeChoice
from engine.commands import Command, Generate, Mode
from engine.errors import UserFixable
from engine.events import (
    AnswerStats,
    DeviceSample,
    Event,
    Failed,
    Finished,
    FinishReason,
    Interval,
    LoadProgress,
    Origin,
    PlanReady,
    PlanSummary,
    PrefillProgress,
    RoundFinished,
    TextDelta,
    TokenSpan,
    Unloaded,
)

_log = logging.getLogger(__name__)

_SIZES = (QSize(1280, 800), QSize(1920, 1080))
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


class _Stage:
    """An engine that says what it is told to, and the window on top of it."""

    def __init__(self, theme: Theme, folder: Path) -> None:
        self._emit: Callable[[Event], None] = lambda _: None
        self.request_id = ""
        self.assembly = Assembly(Paths(folder, folder), theme, self._make)
        self.window = self.assembly.window

    def _make(self, emit: Callable[[Event], None]) -> _Stage:
        self._emit = emit
        return self

    def submit(self, command: Command) -> None:
        if isinstance(command, Generate):
            self.request_id = command.request.id

    def close(self, timeout: float = 5.0) -> None:
        """Nothing runs."""

    def tell(self, *events: Event) -> None:
        """Let the engine say something, and let the window take it in."""
        settle()
        for event in events:
            self._emit(event)
        self.assembly.bridge.drain()
        settle()

    def ready(self) -> None:
        """A model is loaded and the machine is known."""
        self.tell(
            _sample(0.0, 3.0), PlanReady(perf_counter(), Path("model"), "Duotail 7M", _plan())
        )

    def stream(self, text: str) -> None:
        """Write `text` in rounds of four tokens."""
        words = [word + " " for word in text.split(" ")]
        words[-1] = words[-1][:-1]
        now = perf_counter() - len(words) / 40
        self.tell(PrefillProgress(now, self.request_id, 31, 31, 0))
        offset = 0
        for index in range(0, len(words), 4):
            piece = words[index : index + 4]
            spans = []
            for word in piece:
                spans.append(TokenSpan(index, offset, offset + len(word), Origin.DRAFTED))
                offset += len(word)
            now += 0.09
            self.tell(
                TextDelta(now, self.request_id, "".join(piece), tuple(spans)),
                _round(now, self.request_id, index, len(piece)),
                *([_sample(now, 88.0)] if index % 16 == 0 else []),
            )

    def finish(self, text: str, reason: FinishReason = FinishReason.STOP) -> None:
        """End the answer."""
        stats = AnswerStats(
            31, 0, 212, 86, 3, 340, 126, (83, 60, 31), (60, 41, 25), 2.48, 0.118, 41.8, 5.07
        )
        now = perf_counter()
        self.tell(Finished(now, self.request_id, reason, text, (1,), stats, 0, "bf16/f32/cpu"))


def take_screenshots(folder: Path) -> int:
    """Write the pictures into `folder`; the exit code."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    folder.mkdir(parents=True, exist_ok=True)
    application = make_application()
    theme = Theme(application)
    for size in _SIZES:
        for choice in (ThemeChoice.LIGHT, ThemeChoice.DARK):
            suffix = f"{choice}-{size.width()}x{size.height()}"
            with tempfile.TemporaryDirectory(prefix="duotail-shots-") as data:
                _tour(theme, choice, size, Path(data), _namer(folder, suffix))
    return 0


def _namer(folder: Path, suffix: str) -> Callable[[str], Path]:
    return lambda name: folder / f"{name}-{suffix}.png"


def _tour(
    theme: Theme, choice: ThemeChoice, size: QSize, data: Path, target: Callable[[str], Path]
) -> None:
    """One walk through the window in one look."""
    stage = _Stage(theme, data)
    stage.assembly.settings.change(theme=choice)
    theme.apply(choice)
    window = stage.window
    window.resize(size)
    window.show()

    def shoot(name: str, widget: QWidget = window) -> None:
        settle()
        QTest.qWait(30)
        with suppress(OSError):
            if not widget.grab().save(str(target(name))):
                _log.error("%s could not be written", target(name))

    shoot("01-preparing")
    window.performance.hide()
    stage.assembly.start(lambda: Path("model"))
    stage.tell(_sample(0.0, 3.0), LoadProgress(0.0, "Loading Duotail 7M", 0.62))
    shoot("02-loading")
    stage.ready()
    window.performance.show()
    shoot("03-first-start")
    window.performance.hide()
    _fill_list(stage)
    stage.assembly.session.send(_QUESTION)
    shoot("04-waiting")
    stage.stream(_ANSWER[:900])
    QTest.qWait(280)  # rendering comes some frames after the text
    shoot("05-streaming")
    stage.tell(TextDelta(perf_counter(), stage.request_id, _ANSWER[900:], ()))
    stage.finish(_ANSWER)
    shoot("06-finished")
    window.performance.show()
    shoot("07-performance")
    _shoot_troubles(stage, shoot)
    _shoot_dialogs(stage, shoot)
    window.close()
    stage.assembly.close()
    window.deleteLater()
    settle()


def _shoot_troubles(stage: _Stage, shoot: Callable[..., None]) -> None:
    window, session = stage.window, stage.assembly.session
    window.performance.hide()
    stage.tell(
        Failed(
            0.0,
            None,
            "There is not enough free memory for Llama 13B: 24.2 GiB are needed, 5.9 are free.",
            "Close other programs, or choose a smaller model.",
            "details",
        )
    )
    shoot("08-error-banner")
    window.chat.banners.clear()
    session.send("And in one sentence?")
    stage.stream("A small model guesses ahead and")
    session.stop()
    stage.finish("A small model guesses ahead and", FinishReason.STOPPED)
    shoot("09-stopped")
    window.chat.show_trouble(UserFixable("The history is on a full drive.", "Free some space."))
    if session.current is not None:
        session.delete(session.current)
    shoot("10-deleted-undo")
    window.chat.banners.clear()
    stage.tell(Unloaded(0.0))
    shoot("11-no-model")
    stage.ready()
    window.resize(560, 800)
    session.open(stage.window.listed[0])
    shoot("12-narrow")
    window.resize(1280, 800)


def _shoot_dialogs(stage: _Stage, shoot: Callable[..., None]) -> None:
    chat = stage.window.chat
    stage.assembly.settings.change(temperature=0.7)
    chat.open_sampling()
    shoot("13-sampling", chat.popover)
    chat.popover.hide()
    for name, opener in (
        ("14-shortcuts", stage.window.show_shortcuts),
        ("15-about", stage.window.show_about),
    ):
        opener()
        settle()
        for dialog in stage.window.findChildren(QDialog):
            if dialog.isVisible():
                shoot(name, dialog)
                dialog.close()


def _fill_list(stage: _Stage) -> None:
    store = stage.assembly.store
    for title in reversed(_OLD_TITLES):
        conversation = store.create_conversation(title)
        store.add_user_message(conversation.id, title)
    stage.assembly.session.refresh()


def settle() -> None:
    """Let everything that is due happen."""
    for _ in range(4):
        QApplication.processEvents()
    QApplication.sendPostedEvents()


def _plan() -> PlanSummary:
    return PlanSummary(
        Mode.CPU,
        "CPU",
        "CPU",
        "Duotail 1M draft + lookup",
        1024,
        "bf16/f32/cpu",
        ("No accelerator was found, so target and draft share the CPU.",),
        15_000_000,
        2_000_000,
        8_000_000,
    )


def _sample(at: float, percent: float) -> DeviceSample:
    return DeviceSample(at, percent, percent + 6, 412_000_000, 16 * 2**30)


def _round(at: float, request_id: str, index: int, committed: int) -> RoundFinished:
    accepted = max(committed - 1, 0)
    return RoundFinished(
        at,
        request_id,
        index // 4,
        Interval(at - 0.085, at - 0.052),
        Interval(at - 0.051, at - 0.002),
        4,
        accepted,
        committed,
        (1, 1, 1, 1)[: accepted + 1],
        (1,) * accepted,
        31 + index,
    )
