"""Tool calls in the window: asked for, run, declined, kept, and gone on with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from desk import Desk
from tool_desk import ToolDesk, call_text

from app.history import AnswerState
from app.history.exchange import export_json, import_text
from app.history.markdown_file import markdown, read_markdown
from app.session.calls import DECLINED
from app.tools import access
from app.tools.call_phase import CallPhase, Decision
from app.tools.loop import MOST_CALLS
from engine.request import Role

SUM = call_text("calculator", expression="1234*5678")


def test_a_call_is_asked_for_run_and_the_answer_goes_on(tools: ToolDesk) -> None:
    tools.ask("Let me see.\n" + SUM)
    assert tools.phases == [CallPhase.ASKED]
    (request,) = tools.desk.script.requests
    assert [tool.name for tool in request.tools.tools] == ["calculator"]
    row = tools.card(CallPhase.ASKED)
    assert "1234*5678" in row.card.arguments.toPlainText()
    answer = tools.desk.chat.transcript.bubble_at(1)
    assert answer.text.raw_text == "Let me see."
    assert answer.message.text.endswith(SUM)
    tools.decide(Decision.ONCE, "It is 7006652.")
    (done,) = tools.calls
    assert (done.text, done.state) == ("1234*5678 = 7006652", AnswerState.COMPLETE)
    told = tools.desk.script.requests[-1].messages
    assert [each.role for each in told] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert told[1].token_ids is not None  # as the model wrote it, so its cached state is valid
    assert told[2].text == "1234*5678 = 7006652"
    assert tools.session.messages[-1].text == "It is 7006652."


def test_nothing_runs_without_tools(tools: ToolDesk) -> None:
    tools.use()
    tools.ask(SUM)
    assert tools.calls == []
    assert not tools.desk.script.requests[-1].tools.tools


def test_a_thought_calls_nothing(tools: ToolDesk) -> None:
    tools.ask(f"<think>\n{SUM}\n</think>\n\nNo need.")
    assert tools.calls == []


def test_a_declined_call_is_told(tools: ToolDesk) -> None:
    tools.ask(SUM)
    tools.decide(Decision.DECLINE, "As you like.")
    assert tools.phases == [CallPhase.DECLINED]
    assert tools.desk.script.requests[-1].messages[-1].text == DECLINED


def test_once_is_once_and_a_chat_is_a_chat(tools: ToolDesk) -> None:
    tools.ask(SUM)
    tools.decide(Decision.ONCE, SUM)
    assert tools.phases == [CallPhase.DONE, CallPhase.ASKED]
    tools.decide(Decision.CHAT, "Enough.")
    tools.desk.script.answer = SUM
    tools.desk.type_and_send("Once more")
    tools.desk.bot.waitUntil(lambda: len(tools.calls) >= 4)  # runs by itself
    tools.settle()
    tools.session.open(None)
    tools.use("calculator")
    tools.ask(SUM)
    assert tools.phases == [CallPhase.ASKED]


def test_always_is_kept_until_it_is_taken_back(
    tools: ToolDesk, open_desk: Callable[..., Desk]
) -> None:
    tools.ask(SUM)
    tools.decide(Decision.ALWAYS, "Fine.")
    kept = tools.desk.assembly.paths.tools
    assert kept.stat().st_mode & 0o777 == 0o600
    tools.desk.assembly.close()
    desk = open_desk(None)
    desk.ready()
    again = ToolDesk(desk)
    (entry,) = again.loop.toolbox.chosen(["calculator"])
    assert again.loop.toolbox.allowed(entry)
    again.loop.toolbox.allow(entry, always=False)
    again.session.open(None)
    again.use("calculator")
    again.ask(SUM)
    assert again.phases == [CallPhase.ASKED]


def test_a_loop_without_end_is_asked_for_at_its_bound(
    tools: ToolDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_repeated", lambda _: False)
    tools.ask(SUM)
    tools.decide(Decision.CHAT, SUM)
    tools.desk.bot.waitUntil(lambda: CallPhase.ASKED in tools.phases)
    assert tools.phases == [CallPhase.DONE] * MOST_CALLS + [CallPhase.ASKED]


def test_a_call_that_is_repeated_is_answered_without_tools(tools: ToolDesk) -> None:
    tools.ask(SUM)
    tools.decide(Decision.CHAT, SUM)
    tools.desk.bot.waitUntil(lambda: len(tools.desk.script.requests) == 3)
    tools.settle()
    offered = [bool(each.tools.tools) for each in tools.desk.script.requests]
    assert offered == [True, True, False]
    told = tools.desk.script.requests[2].messages
    assert [each.role for each in told] == [Role.USER] * 3  # in words, as any model reads them
    assert "1234*5678 = 7006652" in told[1].text
    assert tools.phases == [CallPhase.DONE] * 2
    tools.ask("Fine.", "And now?")
    assert tools.desk.script.requests[-1].tools.tools


def test_a_bare_call_is_told_in_the_template_s_own_form(tools: ToolDesk) -> None:
    tools.ask('{"name": "calculator", "arguments": {"expression": "1+1"}}')
    tools.decide(Decision.ONCE, "Two.")
    answer = tools.desk.script.requests[-1].messages[1]
    assert (answer.text, answer.token_ids) == ("", None)
    assert [call.name for call in answer.calls] == ["calculator"]


def test_several_calls_run_one_after_the_other(tools: ToolDesk) -> None:
    tools.ask(f"{SUM}\n{call_text('calculator', expression='1/0')}")
    assert tools.phases == [CallPhase.ASKED, CallPhase.WAITING]
    tools.decide(Decision.ONCE, "Both are there.")
    assert tools.phases == [CallPhase.DONE, CallPhase.ASKED]
    tools.decide(Decision.ONCE, "Both are there.")
    assert tools.phases == [CallPhase.DONE, CallPhase.FAILED]
    assert tools.session.messages[-1].text == "Both are there."


def test_what_waits_is_there_after_a_restart_and_does_not_run_by_itself(
    tools: ToolDesk, open_desk: Callable[..., Desk]
) -> None:
    tools.ask(SUM)
    tools.loop.toolbox.allow(tools.loop.toolbox.chosen(["calculator"])[0], always=True)
    tools.desk.assembly.close()
    desk = open_desk(None)
    desk.ready()
    again = ToolDesk(desk)
    again.settle()
    assert again.phases == [CallPhase.ASKED]
    again.decide(Decision.ONCE, "It is 7006652.")
    assert [each.text for each in again.session.messages[-2:]] == [
        "1234*5678 = 7006652",
        "It is 7006652.",
    ]


def test_a_new_message_leaves_a_call_behind(tools: ToolDesk) -> None:
    tools.ask(SUM)
    tools.ask("Never mind.", "Forget it")
    assert tools.phases == [CallPhase.DECLINED]
    told = tools.desk.script.requests[-1].messages
    assert [each.role for each in told][-2:] == [Role.TOOL, Role.USER]


def test_json_keeps_calls_and_brings_no_permission(tools: ToolDesk) -> None:
    tools.ask(SUM)
    tools.decide(Decision.ONCE, SUM)
    store, chat = tools.desk.assembly.store, tools.session.current
    assert chat is not None
    (taken,) = import_text(store.trees, export_json(store.trees, [chat.id]))
    assert taken.setup.tools == ()
    old, new = tools.session.messages, store.branches.messages(taken.id)
    assert [each.calls for each in new] == [each.calls for each in old]
    assert [each.text for each in new] == [each.text for each in old]
    assert (old[-1].state, new[-1].state) == (AnswerState.INTERRUPTED, AnswerState.STOPPED)
    tools.session.open(taken)
    tools.settle()
    tools.use("calculator")
    assert CallPhase.ASKED not in tools.phases


def test_markdown_keeps_calls(tools: ToolDesk) -> None:
    tools.ask(call_text("calculator", expression="``` 2"))
    tools.decide(Decision.ONCE, "That was none.")
    chat = tools.session.current
    assert chat is not None
    tree = read_markdown(markdown(chat, tools.session.messages))
    assert tree is not None
    (told,) = (each for each in tree.messages if each.role is Role.TOOL)
    (done,) = tools.calls
    assert told.text == done.text
    assert [(c.name, c.arguments) for c in told.calls] == [
        (c.name, c.arguments) for c in done.calls
    ]


def test_the_keyboard_gets_to_the_question(tools: ToolDesk) -> None:
    tools.ask(SUM)
    tools.desk.chat.tools.show_waiting()
    row = tools.card(CallPhase.ASKED)
    button = row.card.buttons[Decision.ONCE]
    tools.desk.bot.waitUntil(button.hasFocus)
    assert button in row.focus_chain


def test_a_result_is_folded_until_it_is_wanted(tools: ToolDesk) -> None:
    tools.ask(SUM)
    tools.decide(Decision.ONCE, "There.")
    row = tools.card(CallPhase.DONE)
    assert row.text.isHidden()
    assert row.card.height_in(600) > 60
    row.card.fold.click()
    assert (row.text.isHidden(), row.text.raw_text) == (False, "1234*5678 = 7006652")
    row.card.fold.click()
    assert row.text.isHidden()


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_the_panel_chooses(tools: ToolDesk) -> None:
    tools.use()
    control = tools.desk.chat.tools
    control.open()
    control.panel.boxes["files"].click()
    assert tools.session.setup.tools == ("files",)
    control.panel.boxes["calculator"].click()
    control.panel.boxes["files"].click()
    assert tools.session.setup.tools == ("calculator",)
    assert tools.desk.chat.composer.tools_button.text() == "1"
    control.panel.hide()
