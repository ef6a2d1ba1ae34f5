"""Drafts on this disk, told whatever the load has chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_session import Session
from gguf_models import Kind, write_gguf
from tiny_models import write_chat_model

from engine.commands import DraftChoice, FindDrafts, Mode
from engine.events import DraftHere, DraftsFound, Finished
from engine.hub import own_drafts


@pytest.fixture
def family(tmp_path: Path) -> tuple[Path, tuple[DraftHere, ...]]:
    """A target, and what can draft for it."""
    shapes = {"target": (96, 6), "larger": (32, 3), "least": (32, 1)}
    files = {
        name: write_gguf(
            write_chat_model(tmp_path / name, hidden_size=hidden, num_hidden_layers=layers),
            tmp_path / f"{name}.gguf",
            Kind.Q8_0,
        )
        for name, (hidden, layers) in shapes.items()
    }
    return files["target"], tuple(DraftHere(files[name], name) for name in ("least", "larger"))


def drafts(session: Session, model: Path) -> tuple[DraftHere, ...]:
    own_drafts._known.clear()
    after = len(session.events)
    session.submit(FindDrafts(model))
    return session.wait(DraftsFound, lambda told: told.model == model, after=after).drafts


def test_all_are_told_whatever_was_chosen(
    session: Session, family: tuple[Path, tuple[DraftHere, ...]]
) -> None:
    target, here = family
    for choice in (DraftChoice.LOOKUP, here[1].path, DraftChoice.NONE, DraftChoice.AUTO):
        session.load(target, draft=choice)
        assert drafts(session, target) == here
    session.load(target, mode=Mode.PLAIN)
    assert drafts(session, target) == here
    hold = session.write_until("Hello", max_tokens=32)
    assert drafts(session, target) == here, "in the middle of an answer"
    hold.release()
    session.wait(Finished)


def test_a_load_that_needs_none_does_not_look_for_them(
    session: Session,
    family: tuple[Path, tuple[DraftHere, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, here = family
    with monkeypatch.context() as patch:
        patch.setattr(own_drafts, "_found", lambda *_: pytest.fail("a load has looked"))
        for choice in (DraftChoice.LOOKUP, DraftChoice.NONE, here[0].path):
            session.load(target, draft=choice)
    assert drafts(session, target) == here
