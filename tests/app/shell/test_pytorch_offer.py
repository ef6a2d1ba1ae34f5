"""A model that needs PyTorch: it is offered, its download is shown, and the model loads then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtWidgets import QProgressDialog, QPushButton

from app.engine_link.status import Phase
from app.shell import pytorch_offer
from app.shell.banner import Banner
from engine.commands import Load
from engine.errors import Cancelled, UserFixable
from engine.events import Failed, FailureKind

NEEDED = Failed(
    0.0, None, "A “bloom” model needs PyTorch.", "`duotail pytorch`", kind=FailureKind.NEEDS_PYTORCH
)


@dataclass
class Download:
    """Plays `download_pytorch`: half of it comes at once, the rest when it is let go."""

    go_on: Event = field(default_factory=Event)
    error: Exception | None = None
    calls: int = 0

    def __call__(
        self, progress: Callable[[str, float], None], cancelled: Callable[[], bool]
    ) -> None:
        self.calls += 1
        progress("Downloading PyTorch", 0.5)
        while not self.go_on.wait(0.01):
            if cancelled():
                raise Cancelled
        if self.error is not None:
            raise self.error


@pytest.fixture
def download(monkeypatch: pytest.MonkeyPatch) -> Iterator[Download]:
    played = Download()
    monkeypatch.setattr(pytorch_offer, "download_pytorch", played)
    yield played
    played.go_on.set()


@pytest.fixture
def refused(open_desk: Callable[[Script | None], Desk]) -> Desk:
    """A window in which a model did not load for want of PyTorch."""
    desk = open_desk(Script(fail_load=NEEDED))
    desk.bot.waitUntil(lambda: bool(buttons(desk)))
    return desk


def buttons(desk: Desk) -> dict[str, QPushButton]:
    return {
        button.text(): button
        for banner in desk.assembly.window.findChildren(Banner)
        for button in banner.findChildren(QPushButton)
        if button.text()
    }


def dialog(desk: Desk) -> QProgressDialog:
    return desk.assembly.window.findChildren(QProgressDialog)[-1]


def loads(desk: Desk) -> int:
    return sum(isinstance(command, Load) for command in desk.script.commands)


def begin(desk: Desk) -> QProgressDialog:
    """Press the button, and wait until half is there."""
    buttons(desk)["Download PyTorch"].click()
    desk.bot.waitUntil(lambda: dialog(desk).value() == 500)
    return dialog(desk)


def gone(desk: Desk) -> bool:
    return not any(each.isVisible() for each in desk.assembly.window.findChildren(QProgressDialog))


def test_the_offer_names_the_size_and_fetches_nothing_by_itself(
    refused: Desk, download: Download
) -> None:
    (banner,) = refused.assembly.window.findChildren(Banner)
    said = banner.accessibleName() + banner.accessibleDescription()
    assert "needs PyTorch" in said
    assert "220" in said
    assert download.calls == 0


def test_the_model_is_loaded_once_it_is_here(refused: Desk, download: Download) -> None:
    before = loads(refused)
    shown = begin(refused)
    assert shown.isVisible()
    assert shown.labelText() == "Downloading PyTorch"
    refused.script.fail_load = None
    download.go_on.set()
    refused.bot.waitUntil(lambda: refused.assembly.bridge.status.phase is Phase.READY)
    assert loads(refused) == before + 1
    assert gone(refused)


def test_it_can_be_cancelled(refused: Desk, download: Download) -> None:
    before = loads(refused)
    cancel = begin(refused).findChild(QPushButton)
    assert cancel is not None
    cancel.click()
    refused.bot.waitUntil(lambda: not refused.assembly.window.findChildren(QProgressDialog))
    assert loads(refused) == before
    assert download.calls == 1


def test_what_went_wrong_is_told_and_can_be_tried_again(refused: Desk, download: Download) -> None:
    download.error = UserFixable("The connection broke off.", "Try again later.", "pip said")
    begin(refused)
    download.go_on.set()
    refused.bot.waitUntil(lambda: "Try again" in buttons(refused))
    assert gone(refused)
    download.error = None
    refused.script.fail_load = None
    buttons(refused)["Try again"].click()
    refused.bot.waitUntil(lambda: refused.assembly.bridge.status.phase is Phase.READY)
    assert download.calls == 2
