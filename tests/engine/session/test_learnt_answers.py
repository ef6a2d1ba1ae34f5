"""What answers teach about a pair is there at the next start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from engine_session import Session

from engine.commands import Mode
from engine.devices.kept_measurements import KeptLearnt, learnt_folder
from engine.speculative.costs import Learnt


def kept() -> dict[str, Learnt]:
    """Everything on disk that is understood."""
    found = {file.stem: KeptLearnt().find(file.stem) for file in learnt_folder().glob("*.json")}
    return {name: learnt for name, learnt in found.items() if learnt is not None}


def test_the_next_start_goes_on_from_it(
    chat_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path))
    recalled: list[Learnt] = []
    watch_recalls(monkeypatch, recalled.append)
    first = Session()
    first.load(chat_model, draft=chat_model, mode=Mode.CPU)
    assert kept() == {}
    first.ask("Hello", max_tokens=24)
    first.close()
    (learnt,) = kept().values()
    assert {known.size for known in learnt.verify} > {1} or learnt.levels
    assert recalled == []
    second = Session()
    second.load(chat_model, draft=chat_model, mode=Mode.CPU)
    second.close()
    assert recalled == [learnt]


def watch_recalls(monkeypatch: pytest.MonkeyPatch, tell: Callable[[Learnt], None]) -> None:
    """Hear of what a controller is told."""
    from engine.speculative.serial_controller import SerialController

    recall = SerialController.recall

    def watched(self: SerialController, learnt: Learnt) -> None:
        tell(learnt)
        recall(self, learnt)

    monkeypatch.setattr(SerialController, "recall", watched)
