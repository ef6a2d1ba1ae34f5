"""A thought that is longer than it may be is ended for the model, which goes on to answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from engine_session import Session, answer_of, user
from folder_models import FOLDER_DRAFT, FOLDER_TARGET

from engine.backend.cpu import native_is_built
from engine.commands import DraftChoice, Mode
from engine.events import Finished, FinishReason, TextDelta
from engine.request import SamplingParams

QUESTION = "Tell me a story about a fox."
SAMPLED = SamplingParams(temperature=0.6, seed=4)
ENDED = "\n</think>\n\n"
MEMORY = 2 << 30
MODES = [
    {"mode": Mode.PLAIN},
    {"mode": Mode.CPU, "draft": DraftChoice.AUTO},
    {"mode": Mode.DOVETAIL, "simulate_gpu": MEMORY},
    {"mode": Mode.DUO, "simulate_gpu": MEMORY},
]


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 7M model with a template that opens a thought."""
    folder = tmp_path_factory.mktemp("thinking")
    copytree(FOLDER_DRAFT, folder / FOLDER_DRAFT.name)
    copied = Path(copytree(FOLDER_TARGET, folder / FOLDER_TARGET.name))
    template = copied / "chat_template.jinja"
    if template.exists():
        text = template.read_text()
    else:
        text = json.loads((copied / "tokenizer_config.json").read_text())["chat_template"]
    template.write_text(text + "{%- if add_generation_prompt %}{{- '<think>\\n' }}{%- endif %}")
    return copied


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Texts of the first mode, by what was asked."""
    return {}


@pytest.fixture
def session() -> Iterator[Session]:
    own = Session()
    yield own
    own.close()


def ask(session: Session, name: str, budget: int | None, **wishes: Any) -> Finished:
    wishes = {"sampling": SAMPLED, "max_tokens": 40, "thought_tokens": budget, **wishes}
    return session.ask(QUESTION, id=name, **wishes)


@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
@pytest.mark.parametrize("wishes", MODES, ids=lambda wishes: str(wishes["mode"]))
def test_a_long_thought_is_ended_at_the_same_token_in_every_mode(
    session: Session, thinker: Path, texts: dict[str, str], wishes: dict[str, Any]
) -> None:
    session.load(thinker, **wishes)
    free = ask(session, "free", None)
    assert "</think>" not in free.text
    for budget in (1, 7, 20):
        name = f"at most {budget}"
        found = ask(session, name, budget)
        thought, answer = found.text.split(ENDED)
        assert free.text.startswith(thought)
        assert answer, "the model goes on behind the thought"
        shown = [span for delta in session.of(TextDelta, name) for span in delta.spans]
        assert [span.start for span in shown[1:]] == [span.end for span in shown[:-1]]
        assert "".join(delta.text for delta in session.of(TextDelta, name)) == found.text
        assert tuple(span.token_id for span in shown) == found.token_ids
        assert texts.setdefault(name, found.text) == found.text
    wide = ask(session, "wide", 100)
    assert wide.text == free.text


def test_an_answer_that_is_continued_has_the_budget_that_is_left(
    session: Session, thinker: Path
) -> None:
    session.load(thinker, mode=Mode.PLAIN)
    whole = ask(session, "whole", 12)
    for written in (5, 12, 20):
        part = ask(session, f"part {written}", 12, max_tokens=written)
        rest = session.ask(
            user(QUESTION),
            answer_of(part),
            id=f"rest {written}",
            sampling=SAMPLED,
            max_tokens=40 - part.stats.committed,
            thought_tokens=12,
        )
        assert part.text + rest.text == whole.text


def test_a_thought_that_ends_by_itself_is_let_alone(session: Session, thinker: Path) -> None:
    """A begun answer whose thought is over is not held, nor is one that never thinks."""
    session.load(thinker, mode=Mode.PLAIN)
    over = session.ask(
        user(QUESTION),
        answer_of(ask(session, "thought", 3, max_tokens=12)),
        id="over",
        sampling=SAMPLED,
        max_tokens=20,
        thought_tokens=3,
    )
    assert "</think>" not in over.text
    session.load(FOLDER_TARGET, mode=Mode.PLAIN)
    free, held = ask(session, "free", None), ask(session, "held", 4)
    assert free.text == held.text


def test_no_room_is_left_for_the_end_of_a_thought(session: Session, thinker: Path) -> None:
    session.load(thinker, mode=Mode.PLAIN)
    found = ask(session, "short", 8, max_tokens=9)
    assert found.reason is FinishReason.LENGTH
    assert "</think>" not in found.text
    assert found.stats.committed == 8, "a longer thought is none that it may have"
