from __future__ import annotations

from collections.abc import Callable

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QAction, QTextCursor
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QMenu,
    QMessageBox,
    QPushButton,
    QWidget,
)

from app.chat.messages.message_actions import Act
from app.chat.messages.user_message import UserMessage
from app.engine_link.status import Phase
from app.history import AnswerState, ChatSetup
from app.notices import report
from app.settings.presets import BALANCED
from engine.commands import Stop
from engine.errors import UserFixable
from engine.events import Failed, FinishReason, TextDelta
from engine.request import Role

# What a window without a screen cannot do, Qt says for every dialog.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

OpenDesk = Callable[[Script | None], Desk]


def test_a_message_is_answered_stored_and_titled(desk: Desk) -> None:
    desk.type_and_send("Hello **there**, my friend")
    answer = desk.answered()
    assert answer.text.raw_text == desk.script.answer
    assert "how can I help?" in answer.text.toPlainText()
    assert "**" not in answer.text.toPlainText()
    (conversation,) = desk.assembly.store.conversations.all()
    assert conversation.title == "Hello there, my friend"
    stored = desk.assembly.store.branches.messages(conversation.id)
    assert [message.role for message in stored] == [Role.USER, Role.ASSISTANT]
    assert stored[1].state is AnswerState.COMPLETE
    assert stored[1].text == desk.script.answer
    assert stored[1].token_ids
    assert desk.chat.composer.field.toPlainText() == ""


def test_rows_come_in_turns_of_their_own_with_what_was_written_meanwhile(desk: Desk) -> None:
    desk.ready()
    desk.script.hold_after = 0
    desk.session.send("Count")
    live, transcript = desk.session.live, desk.chat.transcript
    assert live is not None
    desk.tell(TextDelta(0.0, live.request_id, "zero ", ()))
    assert transcript.row_count == 0
    desk.streaming("zero ")
    assert transcript.row_count == 2


def test_a_conversation_that_is_opened_before_its_rows_came_shows_them_once(desk: Desk) -> None:
    desk.ready()
    desk.session.send("Hello")
    desk.session.open(desk.session.current)
    assert desk.chat.transcript.row_count == 2
    assert desk.answered().text.raw_text == desk.script.answer
    assert desk.chat.transcript.row_count == 2


def test_stop_keeps_what_was_written_and_continue_goes_on_from_it(desk: Desk) -> None:
    desk.script.answer = "one two three four five six seven eight nine"
    desk.script.hold_after = 2
    desk.type_and_send("Count")
    desk.streaming("six ")
    assert desk.chat.composer.stop_button.isVisible()
    assert not desk.chat.composer.send_button.isVisible()
    desk.bot.keyClick(desk.chat.composer.field, Qt.Key.Key_Escape)
    stopped = desk.answered()
    assert any(isinstance(command, Stop) for command in desk.script.commands)
    assert stopped.message.state is AnswerState.STOPPED
    assert stopped.text.raw_text == "one two three four five six "
    desk.script.hold_after = None
    desk.bot.keyClick(
        desk.chat.composer.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier
    )
    whole = desk.answered()
    first, second = desk.script.requests
    assert second.messages[-1].role is Role.ASSISTANT
    assert second.messages[-1].token_ids == tuple(range(1000, 1006))
    assert second.sampling.seed == first.sampling.seed
    assert whole.text.raw_text == desk.script.answer
    assert desk.session.messages[-1].state is AnswerState.COMPLETE
    assert len(desk.session.messages[-1].token_ids or ()) == 9


def test_the_menu_of_a_message_begins_with_what_is_under_the_mouse(desk: Desk) -> None:
    desk.script.answer = "See [the page](https://example.org/page) for more."
    desk.type_and_send("Where?")
    answer = desk.answered()

    def menu_at(position: int) -> tuple[list[QAction], QMenu]:
        cursor = QTextCursor(answer.text.document())
        cursor.setPosition(position)
        place = answer.text.cursorRect(cursor).center()
        answer.text.customContextMenuRequested.emit(place)
        (menu,) = [each for each in answer.findChildren(QMenu) if each.isVisible()]
        return [each for each in menu.actions() if not each.isSeparator()], menu

    plain, menu = menu_at(1)
    words = [each.text() for each in plain]
    assert words[0] == "Copy message"
    assert "Delete" in words[-1]
    menu.close()
    (link, *_), menu = menu_at(6)
    assert link.text() == "Copy link address"
    link.trigger()
    assert QApplication.clipboard().text() == "https://example.org/page"
    menu.close()
    cursor = answer.text.textCursor()
    cursor.setPosition(0)
    cursor.setPosition(3, QTextCursor.MoveMode.KeepAnchor)
    answer.text.setTextCursor(cursor)
    (selection, *_), menu = menu_at(1)
    assert selection.text() == "Copy selection"
    selection.trigger()
    assert QApplication.clipboard().text() == "See"
    menu.close()

    answer.footer.reveal(shown=True)
    (more,) = [each for each in answer.footer.stops if each.property("act") == Act.MORE]
    desk.assembly.window.move(-500, 0)  # so that the screen has room for the menu there
    answer.act(Act.MORE)
    (menu,) = [each for each in answer.findChildren(QMenu) if each.isVisible()]
    assert menu.x() == more.mapToGlobal(QPoint(0, 0)).x(), "it begins at its button"
    shown = [each for each in menu.actions() if not each.isSeparator()]
    assert [each.text() for each in shown] == words
    shown[0].trigger()
    assert QApplication.clipboard().text() == desk.script.answer
    menu.close()


def test_an_empty_message_is_not_sent(desk: Desk) -> None:
    assert not desk.chat.composer.send_button.isEnabled()
    desk.type_and_send("  \n ")
    assert desk.session.messages == []
    assert desk.script.requests == []


def test_shift_enter_makes_a_line(desk: Desk) -> None:
    field = desk.chat.composer.field
    before = field.height()
    desk.bot.keyClicks(field, "one")
    desk.bot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    desk.bot.keyClicks(field, "two")
    assert field.toPlainText() == "one\ntwo"
    assert field.height() > before
    assert desk.script.requests == []


def test_the_view_stays_where_the_reader_is(desk: Desk) -> None:
    desk.script.answer = "\n\n".join(f"Paragraph {number} " + "word " * 40 for number in range(40))
    desk.script.hold_after = 300
    desk.type_and_send("Long, please")
    desk.streaming("Paragraph 20")
    bar = desk.chat.transcript.verticalScrollBar()
    desk.bot.waitUntil(lambda: bar.maximum() > 800 and bar.value() == bar.maximum())
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    desk.bot.waitUntil(lambda: not desk.chat.transcript.following)
    place, end = bar.value(), bar.maximum()
    desk.script.gate.set()
    desk.answered()
    desk.bot.waitUntil(lambda: bar.maximum() > end)
    assert bar.value() == place
    desk.chat.transcript.jump_to_end()
    assert bar.value() == bar.maximum()


def test_another_conversation_can_be_read_while_one_is_written(desk: Desk) -> None:
    desk.type_and_send("First chat")
    desk.answered()
    first = desk.session.current
    assert first is not None
    desk.session.open(None)
    desk.script.answer = "slow answer that goes on and on for ever"
    desk.script.hold_after = 1
    desk.type_and_send("Second chat")
    desk.streaming("slow answer that ")
    second = desk.session.current
    desk.session.open(first)
    assert not desk.chat.composer.send_button.isVisible()
    assert desk.chat.composer.stop_button.isVisible()
    assert len(desk.session.messages) == 2
    desk.session.open(second)
    answer = desk.streaming("slow answer that ")
    desk.script.gate.set()
    desk.answered()
    assert answer.text.raw_text == desk.script.answer


def test_an_answer_that_ends_out_of_sight_is_stored(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.type_and_send("Second chat")
    desk.streaming("I am")
    conversation = desk.session.current
    desk.session.open(None)
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: desk.session.live is None)
    assert desk.session.messages == []
    assert conversation is not None
    stored = desk.assembly.store.branches.messages(conversation.id)
    assert stored[-1].text == desk.script.answer
    assert stored[-1].state is AnswerState.COMPLETE


def test_what_was_interrupted_is_there_after_a_restart_and_goes_on(open_desk: OpenDesk) -> None:
    script = Script(answer="one two three four five six seven", hold_after=1)
    desk = open_desk(script)
    desk.ready()
    desk.type_and_send("Count")
    desk.streaming("three ")
    saved = desk.assembly.store
    conversation = desk.session.current
    assert conversation is not None
    desk.bot.waitUntil(
        lambda: saved.branches.messages(conversation.id)[-1].text == "one two three "
    )
    # As after a kill: the history is let go of with the answer still open.
    saved.close()
    desk.session.writer.live = None
    again = open_desk(Script(answer=script.answer))
    again.ready()
    assert again.session.messages[-1].state is AnswerState.INTERRUPTED
    shown = again.chat.transcript.last_answer()
    assert shown is not None
    assert shown.text.raw_text == "one two three "
    assert "Interrupted" in shown.note
    again.session.continue_answer()
    assert again.answered().text.raw_text == script.answer


def test_closing_the_window_keeps_what_was_written(open_desk: OpenDesk) -> None:
    desk = open_desk(Script(answer="one two three four five six", hold_after=1))
    desk.ready()
    desk.type_and_send("Count")
    desk.streaming("three ")
    desk.assembly.close()
    again = open_desk(None)
    assert again.session.messages[-1].text == "one two three "
    assert again.session.messages[-1].state is AnswerState.STOPPED


def test_a_failed_answer_says_why_and_can_be_tried_again(desk: Desk) -> None:
    desk.script.fail_answer = Failed(0, None, "The context is full.", "Start a new chat.", "n=1024")
    desk.type_and_send("Too long")
    answer = desk.answered()
    assert desk.banners.texts == ["The context is full."]
    assert answer.message.state is AnswerState.FAILED
    assert "failed" in answer.note
    desk.script.fail_answer = None
    desk.session.continue_answer()
    assert desk.answered().text.raw_text == desk.script.answer


def test_an_answer_that_filled_the_context_says_so(desk: Desk) -> None:
    desk.script.reason = FinishReason.CONTEXT
    desk.type_and_send("A very long story")
    answer = desk.answered()
    assert answer.message.state is AnswerState.FULL
    assert "context is full" in answer.note
    assert not desk.session.can_continue


def test_a_model_that_does_not_load_leaves_a_way_on(open_desk: OpenDesk) -> None:
    script = Script(fail_load=Failed(0, None, "The file is cut off.", "Download it again."))
    desk = open_desk(script)
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.NO_MODEL)
    assert desk.banners.texts == ["The file is cut off."]
    desk.chat.composer.field.setPlainText("Hello")
    assert not desk.chat.composer.send_button.isEnabled()
    assert desk.chat.composer.send_button.accessibleDescription()
    assert desk.assembly.window.starter_offer.load_button.isVisible()
    script.fail_load = None
    desk.bot.mouseClick(desk.assembly.window.starter_offer.load_button, Qt.MouseButton.LeftButton)
    desk.ready()
    assert desk.chat.composer.send_button.isEnabled()


def test_regenerate_replaces_the_last_answer(desk: Desk) -> None:
    desk.type_and_send("Hello")
    desk.answered()
    desk.script.answer = "Another answer"
    desk.session.regenerate()
    assert desk.answered().text.raw_text == "Another answer"
    assert len(desk.chat.transcript.bubbles) == 2
    assert [message.role for message in desk.script.requests[-1].messages] == [Role.USER]


def test_delete_can_be_undone_and_rename_is_kept(desk: Desk) -> None:
    desk.type_and_send("Keep me")
    desk.answered()
    conversation = desk.session.current
    assert conversation is not None
    listed = desk.session.conversations
    listed.rename(conversation.id, "  A better\n title ")
    assert desk.session.current is not None
    assert desk.session.current.title == "A better title"
    listed.delete([conversation.id])
    assert listed.newest_first() == []
    assert desk.banners.texts == ["\u201cA better title\u201d was deleted."]
    (undo,) = [
        button for button in desk.banners.findChildren(QPushButton) if button.text() == "Undo"
    ]
    desk.bot.mouseClick(undo, Qt.MouseButton.LeftButton)
    assert [item.title for item in listed.newest_first()] == ["A better title"]
    assert len(desk.session.messages) == 2


def test_deletions_are_taken_back_with_keys_however_late(desk: Desk) -> None:
    desk.type_and_send("Keep me")
    desk.answered()
    conversation = desk.session.current
    assert conversation is not None
    desk.session.delete_message(desk.session.messages[1].id)
    desk.session.conversations.delete([conversation.id])
    desk.banners.clear()  # as after a while
    field, conversations = desk.chat.composer.field, desk.assembly.window.sidebar.list
    control = Qt.KeyboardModifier.ControlModifier
    desk.bot.keyClicks(field, "typed")
    desk.bot.keyClick(field, Qt.Key.Key_Z, control)
    assert desk.session.conversations.newest_first() == []  # the field's own undo
    assert field.toPlainText() == ""
    conversations.setFocus()
    desk.bot.keyClick(conversations, Qt.Key.Key_Z, control)
    assert len(desk.session.messages) == 1
    desk.session.open(None)
    desk.session.open(conversation)
    desk.chat.transcript.bubble_at(0).text.setFocus()
    desk.bot.keyClick(desk.chat.transcript.bubble_at(0).text, Qt.Key.Key_Z, control)
    assert len(desk.session.messages) == 2
    desk.bot.keyClick(conversations, Qt.Key.Key_Z, control)  # there is no more
    assert len(desk.session.messages) == 2


def test_the_keyboard_is_in_the_message_field_when_a_changed_question_was_sent(desk: Desk) -> None:
    desk.type_and_send("First")
    desk.answered()
    question = desk.chat.transcript.bubble_at(0)
    assert isinstance(question, UserMessage)
    question.edit()
    assert question.editor is not None
    question.editor.field.setPlainText("Second")
    desk.bot.keyClick(question.editor.field, Qt.Key.Key_Return)
    assert desk.chat.composer.field.hasFocus()
    desk.answered()
    assert desk.session.messages[0].text == "Second"
    assert desk.chat.composer.field.hasFocus()


def test_renaming_in_the_list(desk: Desk) -> None:
    desk.type_and_send("Old name")
    desk.answered()
    conversations = desk.assembly.window.sidebar.list
    conversations.setFocus()
    desk.bot.keyClick(conversations, Qt.Key.Key_F2)
    editor = conversations.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    editor.setText("New name")
    desk.bot.keyClick(editor, Qt.Key.Key_Return)
    desk.bot.waitUntil(
        lambda: [c.title for c in desk.session.conversations.newest_first()] == ["New name"]
    )


def test_sending_while_the_model_loads_waits_for_it(open_desk: OpenDesk) -> None:
    desk = open_desk(None)
    desk.type_and_send("Hello")  # the engine may still be starting: no wait here
    assert desk.answered().text.raw_text == desk.script.answer


def test_keyboard_only(desk: Desk) -> None:
    window, bot = desk.assembly.window, desk.bot
    control = Qt.KeyboardModifier.ControlModifier
    desk.script.answer = "Here:\n\n```python\nprint(1)\n```\n"
    window.activateWindow()
    bot.waitUntil(desk.chat.composer.field.hasFocus)
    bot.keyClicks(desk.chat.composer.field, "Alpha question")
    bot.keyClick(desk.chat.composer.field, Qt.Key.Key_Return)
    desk.answered()
    bot.keyClick(window, Qt.Key.Key_N, control)
    bot.keyClicks(desk.chat.composer.field, "Beta question")
    bot.keyClick(desk.chat.composer.field, Qt.Key.Key_Return)
    desk.answered()
    bot.keyClick(desk.chat.composer.field, Qt.Key.Key_K, control)
    assert window.sidebar.search.hasFocus()
    bot.keyClicks(window.sidebar.search, "alpha")
    bot.waitUntil(window.sidebar.hits.isVisible)
    bot.keyClick(window, Qt.Key.Key_1, control)
    assert window.sidebar.hits.hasFocus()
    bot.keyClick(window.sidebar.hits, Qt.Key.Key_Return)
    assert desk.session.current is not None
    assert desk.session.current.title == "Alpha question"
    bot.waitUntil(desk.streaming("print(1)").text.isVisible)
    focused: list[str] = []
    for _ in range(40):
        bot.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        widget = QApplication.focusWidget()
        if widget is not None:
            focused.append(widget.accessibleName())
            if widget.accessibleName() == "Copy code":
                bot.keyClick(widget, Qt.Key.Key_Space)
                break
    assert QApplication.clipboard().text() == "print(1)", "\n".join(focused)
    shown = window.performance.isVisible()
    bot.keyClick(window, Qt.Key.Key_P, control)
    assert window.performance.isVisible() != shown
    bot.keyClick(window, Qt.Key.Key_T, control)
    assert desk.chat.setup_panel.isVisible()
    for _ in range(4):
        bot.keyClick(QApplication.focusWidget() or desk.chat.setup_panel, Qt.Key.Key_Right)
    assert desk.session.setup.temperature > BALANCED.setup.temperature
    desk.chat.setup_panel.hide()


def test_tab_goes_through_the_line_above_the_messages_first(desk: Desk) -> None:
    desk.type_and_send("Hello")
    desk.answered()
    window, chat = desk.assembly.window, desk.chat
    chat.sidebar_button.setFocus()
    met = []
    for _ in range(4):
        desk.bot.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        met.append(QApplication.focusWidget())
    header = [window.model_button, window.run_button, chat.performance_button]
    assert met == [*header, chat.transcript]


def test_every_control_has_a_name(desk: Desk) -> None:
    desk.script.answer = "```c\nint x;\n```"
    desk.type_and_send("Hello")
    desk.answered()
    report(UserFixable("Cause.", "Remedy.", "details"))
    nameless = [
        widget
        for area in (desk.assembly.window.sidebar, desk.chat, desk.banners)
        for widget in area.findChildren(QWidget)
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.isVisible()
        and not QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name)
    ]
    assert nameless == []


@pytest.mark.parametrize("width", [420, 640, 1280])
def test_words_on_the_sampling_button_push_nothing_aside(desk: Desk, width: int) -> None:
    """A thinking budget among them had the side areas give way."""
    window, composer = desk.assembly.window, desk.chat.composer
    desk.session.set_setup(ChatSetup(temperature=0.8))
    window.resize(width, 700)
    desk.bot.waitUntil(lambda: composer.width() > width // 3)
    before = (composer.width(), composer.minimumSizeHint().width(), window.sidebar.width())
    desk.session.set_setup(ChatSetup(temperature=0.8, seed=123456789, thought_tokens=4096))
    QApplication.processEvents()
    assert (composer.width(), composer.minimumSizeHint().width(), window.sidebar.width()) == before
    button = composer.setup_button
    words = button.fontMetrics().horizontalAdvance(button.text())
    assert words < button.width() <= composer.width() // 2
    assert button.geometry().right() < composer.send_button.geometry().left()


def test_temperature_and_seed_reach_the_engine(desk: Desk) -> None:
    desk.session.set_setup(ChatSetup(temperature=0.8, seed=7))
    assert desk.chat.composer.setup_button.text() == "Temperature 0.8 · seed 7"
    desk.type_and_send("Hello")
    desk.answered()
    sampling = desk.script.requests[0].sampling
    assert (sampling.temperature, sampling.seed) == (0.8, 7)


def test_a_long_conversation_opens_with_its_end(desk: Desk) -> None:
    store = desk.assembly.store
    conversation = store.conversations.create("Long")
    for number in range(60):
        store.answers.add_user_message(conversation.id, f"Message {number} " + "text " * 30)
    desk.session.open(conversation)
    transcript = desk.chat.transcript
    desk.bot.waitUntil(lambda: transcript.bubbles[-1].message.text.startswith("Message 59"))
    assert len(transcript.bubbles) < 60
    bar = transcript.verticalScrollBar()
    desk.bot.waitUntil(lambda: bar.maximum() > 0)
    for _ in range(200):
        bar.triggerAction(bar.SliderAction.SliderPageStepSub)
        QApplication.processEvents()
        if bar.value() == 0:
            break
    desk.bot.waitUntil(lambda: transcript.bubbles[0].message.text.startswith("Message 0 "))
    assert len(transcript.bubbles) < 60


def test_a_link_is_opened_only_after_its_address_was_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "app.chat.page.QDesktopServices.openUrl", lambda url: opened.append(url.toString())
    )
    desk.script.answer = "See [this](https://example.org/a?b=c) and [that](file:///etc/passwd)."
    desk.type_and_send("Links?")
    answer = desk.answered()
    answer.text.link_clicked.emit("https://example.org/a?b=c")
    box = desk.assembly.window.findChild(QMessageBox)
    assert isinstance(box, QMessageBox)
    assert "https://example.org/a?b=c" in box.informativeText()
    assert opened == []
    box.button(QMessageBox.StandardButton.Open).click()
    assert opened == ["https://example.org/a?b=c"]
    answer.text.link_clicked.emit("file:///etc/passwd")
    (refused,) = [
        each
        for each in desk.assembly.window.findChildren(QMessageBox)
        if "file:///etc/passwd" in each.informativeText()
    ]
    assert refused.button(QMessageBox.StandardButton.Open) is None
    refused.close()


def test_history_in_use_elsewhere_is_told_and_chatting_works(open_desk: OpenDesk) -> None:
    open_desk(None)
    second = open_desk(None)
    second.ready()
    (told,) = second.banners.texts
    assert "already using your conversations" in told
    second.type_and_send("Hello")
    assert second.answered().text.raw_text == second.script.answer


def test_a_question_left_without_an_answer_can_be_answered(desk: Desk) -> None:
    conversation = desk.assembly.store.conversations.create("Lost")
    desk.assembly.store.answers.add_user_message(conversation.id, "Anybody there?")
    desk.session.open(conversation)
    desk.session.regenerate()
    assert desk.answered().text.raw_text == desk.script.answer
    assert [message.text for message in desk.script.requests[-1].messages] == ["Anybody there?"]
