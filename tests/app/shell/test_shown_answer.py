"""The panel shows the last answer of the open chat, whenever that was written."""

from __future__ import annotations

from desk import Desk

from app.performance.panel import PerformancePanel
from app.showcase.script import MODEL_NAME

ANSWER = "one two three four five six seven eight nine ten eleven twelve"


def panel_of(desk: Desk) -> PerformancePanel:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    panel.show()
    return panel


def ask(desk: Desk, question: str, answer: str) -> int:
    desk.script.answer = answer
    assert desk.session.send(question)
    desk.answered()
    desk.bot.waitUntil(lambda: not desk.session.writer.keeper._waiting)
    return desk.session.messages[-1].id


def text_of(panel: PerformancePanel) -> str:
    return "".join(each.text for each in panel.sight.written.tokens.rounds)


def test_an_edited_answer_is_not_measured_and_says_so(desk: Desk) -> None:
    panel = panel_of(desk)
    answer = ask(desk, "First?", ANSWER)
    desk.session.edit_answer(answer, "Another one.")
    desk.bot.waitUntil(lambda: "Not measured" in panel.board.gain.describe())
    assert "No answer yet" not in panel.board.gain.describe()
    assert [each.split()[0] for each in panel.sight.whose.lines] == [
        "Answer",
        MODEL_NAME.split()[0],
    ]


def test_another_chat_shows_its_own_last_answer(desk: Desk) -> None:
    panel = panel_of(desk)
    first = ask(desk, "First?", ANSWER)
    earlier = desk.session.current
    desk.session.open(None)
    desk.bot.waitUntil(lambda: not panel.sight.timeline.rounds)
    assert not panel.sight.whose.words
    ask(desk, "Second?", ANSWER.upper())
    desk.bot.waitUntil(lambda: text_of(panel) == ANSWER.upper())
    assert panel.sight.whose.question == "Second?"
    later = desk.session.current
    desk.session.open(earlier)
    desk.bot.waitUntil(lambda: text_of(panel) == ANSWER)
    assert panel.board.gain.describe().startswith("Answer to “First?” · " + MODEL_NAME)
    done = panel.sight.timeline.rounds[1]
    desk.chat.transcript.text_hovered.emit(first, done.text_start)
    assert panel.sight.rounds == (done,)
    desk.session.open(later)
    desk.bot.waitUntil(lambda: text_of(panel) == ANSWER.upper())
    assert panel.sight.kept is None


def test_nothing_is_read_while_nobody_looks(desk: Desk) -> None:
    panel = panel_of(desk)
    ask(desk, "First?", ANSWER)
    earlier = desk.session.current
    desk.session.open(None)
    ask(desk, "Second?", ANSWER.upper())
    panel.hide()
    desk.session.open(earlier)
    assert panel.sight.kept is None
    panel.show()
    desk.bot.waitUntil(lambda: text_of(panel) == ANSWER)
