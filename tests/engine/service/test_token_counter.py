"""Counting: the number that an answer reads, beside the engine's thread, cheap when repeated."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest
from engine_session import PATIENCE, Session, answer_of, generate, user
from stopwatch import least
from tiny_models import write_chat_model

from engine.commands import Count, Load, QuestionId, Unload
from engine.events import Counted, Failed, LoadProgress, PlanReady, TextDelta, Unloaded
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role
from engine.service.side_questions import SideQuestions

NUMBERS = itertools.count(1)
SYSTEM = Message(Role.SYSTEM, "Be brief. <|end|>")
TEMPLATES = {
    "bundled": None,
    "chatml": (
        "{%- for m in messages %}{{- '<|user|>' + m.role + '\n' + m.content + '<|end|>\n' }}"
        "{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
    ),
    "thinking": (
        "{%- for m in messages %}{{- '<|user|>' + m.content.split('</think>')[-1] + '<|end|>' }}"
        "{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}"
        "{%- if enable_thinking is not defined or enable_thinking %}{{- '<think>\n' }}{%- endif %}"
        "{%- endif %}"
    ),
}


@pytest.fixture(scope="module", params=TEMPLATES)
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    folder = write_chat_model(tmp_path_factory.mktemp("count") / request.param)
    template = TEMPLATES[request.param]
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    session = Session()
    session.load(folder)
    yield session
    session.close()


def count(session: Session, *messages: Message | str, **wishes: object) -> Counted:
    question = ask(session, *messages, **wishes)
    return session.wait(Counted, lambda event: event.id == question)


def ask(session: Session, *messages: Message | str, asker: int = 0, **wishes: object) -> QuestionId:
    question = QuestionId(asker, next(NUMBERS))
    session.submit(Count(generate(*messages, **wishes).request, question))
    return question


@pytest.mark.release(keep=2, reason="every template")
def test_it_is_the_number_that_an_answer_reads(loaded: Session) -> None:
    conversation: list[Message] = [SYSTEM, user("Hello 🦙, <|end|> there")]
    for thinking in (None, True, False):
        counted = count(loaded, *conversation, thinking=thinking)
        finished = loaded.ask(*conversation, max_tokens=9, thinking=thinking)
        assert counted.prompt_tokens == finished.stats.prompt_tokens
        going_on = [*conversation, answer_of(finished)]
        counted = count(loaded, *going_on, thinking=thinking)
        more = loaded.ask(*going_on, max_tokens=3, thinking=thinking)
        assert counted.prompt_tokens == more.stats.prompt_tokens
        conversation += [answer_of(finished), user(f"And {thinking}?")]
    assert not loaded.of(Failed)


def test_an_empty_composer_is_counted_too(loaded: Session) -> None:
    counted = count(loaded)
    assert counted.prompt_tokens == 0
    assert counted.context == loaded.of(PlanReady)[-1].plan.context
    assert 0 < count(loaded, "").prompt_tokens < count(loaded, "Hello").prompt_tokens


def test_it_waits_for_no_answer_and_no_load(
    session: Session, chat_model: Path, other_chat_model: Path
) -> None:
    session.load(chat_model)
    with session.holding(TextDelta) as writing:
        session.submit(generate("Hello", id="long", max_tokens=4))
        writing.reached()
        assert count(session, "Hi", id="c").prompt_tokens > 0
    with session.holding(LoadProgress, lambda event: event.fraction > 0) as loading:
        session.submit(Load(other_chat_model))
        loading.reached()
        assert count(session, "Hi", id="d").prompt_tokens > 0  # by the model still in force


def test_without_a_model_questions_wait_for_one(session: Session, chat_model: Path) -> None:
    early = [ask(session, "Hi", asker=asker) for asker in (1, 2)]
    with session.holding(LoadProgress, lambda event: event.fraction > 0) as loading:
        session.submit(Load(chat_model))
        loading.reached()
        assert not session.of(Counted)
        replaced, newest = ask(session, "a", asker=3), ask(session, "a b", asker=3)
    session.wait(Counted, count=3)
    session.submit(Unload())
    session.wait(Unloaded)
    late = ask(session, "Hi")
    session.load(chat_model)
    session.wait(Counted, lambda event: event.id == late)
    assert [counted.id for counted in session.of(Counted)] == [*early, newest, late]
    assert replaced != newest
    assert not session.of(Failed)


def test_what_cannot_be_counted_stops_nothing(session: Session, tmp_path: Path) -> None:
    folder = write_chat_model(tmp_path / "picky")
    refusing = "{% if 'x' in messages[0].content %}{{ raise_exception('no') }}{% endif %}a"
    (folder / "chat_template.jinja").write_text(refusing)
    session.load(folder)
    assert "no" in count(session, "x").refused
    counted = count(session, "y")
    assert (counted.prompt_tokens, counted.refused) == (1, "")


def test_of_each_asker_the_newest_question_wins() -> None:
    asked, go_on, done = threading.Event(), threading.Event(), threading.Event()
    heard: list[QuestionId] = []

    class Slow(SideQuestions[Count, QuestionId]):
        def answer(self, question: Count) -> QuestionId:
            asked.set()
            assert go_on.wait(PATIENCE)
            return question.id

    def hear(question: QuestionId) -> None:
        heard.append(question)
        if len(heard) == 2:
            done.set()

    def ask(asker: int, number: int) -> None:
        questions.ask(Count(generate("a").request, QuestionId(asker, number)))

    questions = Slow(hear, "slow")
    ask(1, 1)
    assert asked.wait(PATIENCE)
    ask(1, 2)
    ask(2, 3)
    ask(1, 4)
    go_on.set()
    assert done.wait(PATIENCE)
    questions.close(PATIENCE)
    assert heard == [QuestionId(1, 4), QuestionId(2, 3)]
    ask(1, 5)  # closed: nobody answers
    assert len(heard) == 2


def test_what_cannot_be_answered_now_is_asked_again() -> None:
    told, heard = iter([False, True]), queue.SimpleQueue[QuestionId]()
    asked = threading.Semaphore(0)

    class Later(SideQuestions[Count, QuestionId]):
        def answer(self, question: Count) -> QuestionId | None:
            asked.release()
            return question.id if next(told) else None

    questions = Later(heard.put, "later")
    questions.ask(Count(generate("a").request, QuestionId(1, 1)))
    assert heard.get(timeout=PATIENCE) == QuestionId(1, 1)
    questions.close(PATIENCE)
    assert asked.acquire(blocking=False)
    assert asked.acquire(blocking=False)


def test_only_what_is_new_is_encoded(
    session: Session, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.load(chat_model)
    encoded: list[str] = []
    honest = Tokenizer._encode_new

    def recorded(self: Tokenizer, text: str, library: object) -> list[int]:
        encoded.append(text)
        return honest(self, text, library)  # type: ignore[arg-type]

    monkeypatch.setattr(Tokenizer, "_encode_new", recorded)
    story = [user("One dog."), Message(Role.ASSISTANT, "Two cats."), user("Three")]
    count(session, *story)
    assert set(encoded) == {"One dog.", "Two cats.", "Three"}
    encoded.clear()
    counted = count(session, *story[:2], user("Three bi"), id="b")
    assert encoded == ["Three bi"]
    finished = session.ask(*story[:2], user("Three bi"), max_tokens=1)
    assert encoded == ["Three bi"]  # what was counted needs no encoding to be answered
    assert finished.stats.prompt_tokens == counted.prompt_tokens


@pytest.mark.release(reason="a stopwatch")
def test_other_threads_run_while_a_long_text_is_encoded(session: Session, chat_model: Path) -> None:
    """Else a long paste would freeze the window."""
    session.load(chat_model)
    numbers = iter(range(8))

    def longest_share() -> float:
        """The longest pause of this thread, as a share of the time that encoding takes."""
        text = f"{next(numbers)} " + "The quick brown fox jumps over the lazy dog. " * 12_000
        done = threading.Event()

        def ask() -> None:
            count(session, text)
            done.set()

        asking = threading.Thread(target=ask)
        began = last = perf_counter()
        longest = 0.0
        asking.start()
        while not done.is_set():
            now = perf_counter()
            longest, last = max(longest, now - last), now
        asking.join()
        return longest / (last - began)

    assert least(longest_share, 0.5) < 0.5
