"""Models on servers, in a real window: added, chosen, answering, and what becomes of answers."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from desk import PATIENCE_MS, Desk
from fake_engine import Script
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMessageBox, QPushButton
from tool_desk import ToolDesk

from app.chat.messages.answer_texts import answer_numbers, answer_table
from app.engine_link.status import Phase
from app.history import AnswerState
from app.models.server_dialog import DialogState, ServerDialog
from app.models.server_texts import server_name
from app.notices import Notice
from app.performance import PerformancePanel
from app.shell.page_names import PageName
from app.tools.call_phase import CallPhase, Decision
from engine.commands import Connect, Generate, Load, ServerKind
from engine.remote.catalogue import RemoteModel
from engine.remote.servers import RemoteServer, read
from engine.request import Role

sys.path.insert(0, str(Path(__file__).parents[2] / "engine" / "remote"))
sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
from memory_keyring import Ring
from played_server import DONE, HangUp, Heard, PlayedServer, event, head, page, said

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

OpenDesk = Callable[[Script | None], Desk]
MODEL = RemoteModel("Qwen/Qwen3-4B", 4096)
LIST = {"object": "list", "data": [{"id": MODEL.name, "owned_by": "vllm", "max_model_len": 4096}]}
USAGE = {"prompt_tokens": 20, "completion_tokens": 40}


class Answers:
    """What a server sends to the questions that it is asked, one after the other."""

    def __init__(self) -> None:
        self.next: list[Callable[[], Iterator[bytes]]] = []
        self.gate = threading.Event()

    def __call__(self, heard: Heard) -> Iterator[bytes]:
        if heard.path.endswith("/models"):
            if heard.headers.get("authorization") != "Bearer right":
                yield from page(401, {"error": {"message": "no"}})
            else:
                yield from page(200, LIST)
        else:
            yield from self.next.pop(0)()

    def whole(self, text: str) -> None:
        def script() -> Iterator[bytes]:
            yield head()
            for word in text.split(" "):
                yield said(f"{word} ")
            yield said("", "stop") + event(choices=[], usage=USAGE) + DONE

        self.next.append(script)

    def calls(self, name: str, **arguments: object) -> None:
        """Calls a tool, as servers stream it."""

        def script() -> Iterator[bytes]:
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": "x1", "type": "function", "function": function}
            yield head() + said("Let me see. ")
            yield event(choices=[{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}])
            yield event(choices=[], usage=USAGE) + DONE

        self.next.append(script)

    def broken(self, text: str) -> None:
        def script() -> Iterator[bytes]:
            yield head() + said(text)
            self.gate.wait(PATIENCE_MS / 1000)
            raise HangUp

        self.next.append(script)


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def server(answers: Answers) -> Iterator[PlayedServer]:
    played = PlayedServer(answers)
    yield played
    answers.gate.set()
    played.close()


@pytest.fixture(autouse=True)
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    """A keyring that can be looked into."""
    ring = Ring()
    monkeypatch.setattr("engine.machine.keyring.system_keyring", lambda: ring)
    return ring


def added(desk: Desk, server: PlayedServer, *, agreed: bool = True) -> RemoteServer:
    """Put a server into the book."""
    known = RemoteServer(server.url, ServerKind.VLLM, (MODEL,), agreed)
    desk.assembly.servers.keep(known, None)
    return known


def connected(desk: Desk, server: PlayedServer) -> None:
    """Have the model on a server answer from now on."""
    desk.assembly.window.model_button.servers.choose(added(desk, server), MODEL)
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.model_name == MODEL.name)


def menu(desk: Desk) -> dict[str, QAction]:
    made = desk.assembly.window.model_button.make_menu()
    return {action.text(): action for action in made.actions()}


def wait_for_answer(desk: Desk) -> None:
    desk.bot.waitUntil(lambda: desk.session.live is None)


def dialog(desk: Desk) -> ServerDialog:
    menu(desk)["Add a server…"].trigger()
    (found,) = desk.assembly.window.findChildren(ServerDialog)
    return found


def press_test(desk: Desk, found: ServerDialog) -> None:
    desk.bot.mouseClick(found.test_button, Qt.MouseButton.LeftButton)
    desk.bot.waitUntil(lambda: found.state not in (DialogState.ENTERED, DialogState.TESTING))


def test_a_server_is_added_once_it_was_tested(desk: Desk, server: PlayedServer, ring: Ring) -> None:
    found = dialog(desk)
    assert found.state is DialogState.EMPTY
    assert not found.test_button.isEnabled()
    found.address.setText(f"127.0.0.1:{server.port}")
    assert "nothing leaves it" in found.route.text()
    assert server.heard == []
    press_test(desk, found)
    assert found.state is DialogState.FAILED
    assert "does not accept the key" in found.outcome.text()
    assert not found.keep_button.isEnabled()
    desk.bot.keyClicks(found.key, "right")
    assert found.outcome.isHidden()
    press_test(desk, found)
    assert found.outcome.text() == "vLLM, 1 model: Qwen/Qwen3-4B"
    desk.bot.mouseClick(found.keep_button, Qt.MouseButton.LeftButton)
    (kept,) = read(desk.assembly.paths.servers).servers
    assert kept == RemoteServer(server.url, ServerKind.VLLM, (MODEL,))
    assert "right" not in desk.assembly.paths.servers.read_text()
    desk.bot.waitUntil(lambda: ring.get_password("Duotail", f"server {server.url}") == "right")
    assert MODEL.name in menu(desk)


def test_what_was_tested_and_changed_then_is_not_kept(desk: Desk, server: PlayedServer) -> None:
    found = dialog(desk)
    found.address.setText(server.url)
    desk.bot.keyClicks(found.key, "right")
    press_test(desk, found)
    assert found.keep_button.isEnabled()
    found.address.setText(server.url + "x")
    assert not found.keep_button.isEnabled()


def test_an_address_that_is_none_is_told_when_it_is_tested(desk: Desk) -> None:
    found = dialog(desk)
    found.address.setText("ftp://x")
    found.test()
    assert found.state is DialogState.FAILED
    assert found.outcome.text()


def test_many_models_of_a_server_are_a_menu_of_their_own(desk: Desk, server: PlayedServer) -> None:
    models = tuple(replace(MODEL, name=f"model-{number}") for number in range(40))
    known = replace(added(desk, server), models=models)
    desk.assembly.servers.keep(known, None)
    entry = menu(desk)[server_name(known)]
    inside = entry.menu()
    assert [action.text() for action in inside.actions()] == [model.name for model in models]


def test_words_tell_where_it_goes_while_the_address_is_typed(desk: Desk) -> None:
    found = dialog(desk)
    for address, words, look in (
        ("192.168.1.5:8000", "not encrypted", "caution"),
        ("https://example.org/v1", "example.org is not this computer.", "small"),
        ("localhost:1", "nothing leaves it", "small"),
    ):
        found.address.setText(address)
        assert words in found.route.text()
        assert found.route.property("look") == look
    found.address.setText("ftp://x")
    assert found.route.isHidden()


def test_a_server_is_tested_again_with_its_saved_key_and_removed(
    desk: Desk, server: PlayedServer, ring: Ring
) -> None:
    ring.set_password("Duotail", f"server {server.url}", "right")
    known = added(desk, server)
    desk.assembly.window.model_button.servers.change(known)
    (found,) = desk.assembly.window.findChildren(ServerDialog)
    press_test(desk, found)
    assert found.state is DialogState.TESTED
    (remove,) = [b for b in found.findChildren(QPushButton) if b.text() == "Remove"]
    desk.bot.mouseClick(remove, Qt.MouseButton.LeftButton)
    assert read(desk.assembly.paths.servers).servers == ()
    desk.bot.waitUntil(lambda: ring.get_password("Duotail", f"server {server.url}") is None)


def test_without_a_keyring_it_is_said_how_long_a_key_is_kept(
    desk: Desk, server: PlayedServer, ring: Ring
) -> None:
    ring.locked = True
    desk.assembly.servers.keep(RemoteServer(server.url, ServerKind.VLLM, (MODEL,)), "right")
    desk.bot.waitUntil(lambda: any("no keyring" in text for text in desk.banners.texts))


def test_nothing_is_sent_elsewhere_before_the_user_agrees(desk: Desk) -> None:
    far = RemoteServer("http://192.0.2.7:8000/v1", ServerKind.VLLM, (MODEL,))
    desk.assembly.servers.keep(far, None)
    menu(desk)[MODEL.name].trigger()
    (box,) = desk.assembly.window.findChildren(QMessageBox)
    assert "192.0.2.7:8000" in box.text()
    assert "not encrypted" in box.informativeText()
    box.reject()
    assert desk.assembly.bridge.status.plan is not None
    assert desk.assembly.bridge.status.plan.host == ""
    menu(desk)[MODEL.name].trigger()
    box = desk.assembly.window.findChildren(QMessageBox)[-1]
    (use,) = [b for b in box.buttons() if b.text() == "Use this server"]
    use.click()
    desk.bot.waitUntil(lambda: desk.assembly.window.host_badge.host == "192.0.2.7:8000")
    (kept,) = read(desk.assembly.paths.servers).servers
    assert kept.agreed


def test_a_server_on_this_computer_needs_no_consent(desk: Desk, server: PlayedServer) -> None:
    added(desk, server, agreed=False)
    menu(desk)[MODEL.name].trigger()
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.model_name == MODEL.name)
    assert server.heard == []


def test_an_answer_from_a_server(desk: Desk, server: PlayedServer, answers: Answers) -> None:
    connected(desk, server)
    window = desk.assembly.window
    panel = window.performance
    panel.show()
    assert window.host_badge.isVisible()
    assert not window.run_button.isVisible()
    assert f"127.0.0.1:{server.port}" in window.chat.status_line.text
    answers.whole("Rain is water.")
    desk.session.send("What is rain?")
    wait_for_answer(desk)
    question, answer = desk.session.messages
    assert answer.text == "Rain is water. "
    assert answer.state is AnswerState.COMPLETE
    assert (answer.model, answer.token_ids) == (MODEL.name, None)
    assert answer.stats is not None
    assert f"on 127.0.0.1:{server.port}" in answer_numbers(answer.stats)
    table = dict(answer_table(answer))
    assert table["Server"] == f"127.0.0.1:{server.port}"
    assert "measured here" in table["Times"]
    assert isinstance(panel, PerformancePanel)
    desk.bot.waitUntil(lambda: f"Written on 127.0.0.1:{server.port}" in panel.board.gain.gain.why)
    sent = server.heard[-1].json
    assert sent["messages"][-1] == {"role": "user", "content": question.text}
    assert not any(isinstance(each, Generate) for each in desk.script.commands)
    conversation = desk.session.current
    desk.session.open(None)
    desk.session.open(conversation)
    stored = desk.session.messages[-1]
    assert (stored.text, stored.stats) == (answer.text, answer.stats)


def test_a_model_that_is_named_by_its_path_is_shown_by_its_file(
    desk: Desk, server: PlayedServer, answers: Answers
) -> None:
    model = RemoteModel("/models/starter.gguf")
    desk.assembly.servers.keep(RemoteServer(server.url, ServerKind.OTHER, (model,)), None)
    menu(desk)["starter.gguf"].trigger()
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.model_name == "starter.gguf")
    assert menu(desk)["starter.gguf"].isChecked()
    answers.whole("Rain is water.")
    desk.session.send("What is rain?")
    wait_for_answer(desk)
    assert server.heard[-1].json["model"] == model.name
    assert desk.session.messages[-1].model == "starter.gguf"


def test_regenerate_and_edit_ask_the_server_again(
    desk: Desk, server: PlayedServer, answers: Answers
) -> None:
    connected(desk, server)
    for text in ("One.", "Two.", "Three."):
        answers.whole(text)
    desk.session.send("What is rain?")
    wait_for_answer(desk)
    desk.session.regenerate()
    wait_for_answer(desk)
    assert desk.session.messages[-1].text == "Two. "
    assert desk.session.messages[-1].versions == 2
    assert desk.session.edit(desk.session.messages[0].id, "What is snow?")
    wait_for_answer(desk)
    assert server.heard[-1].json["messages"][-1]["content"] == "What is snow?"
    assert desk.session.messages[-1].text == "Three. "


def test_stop_keeps_what_came(desk: Desk, server: PlayedServer, answers: Answers) -> None:
    connected(desk, server)
    answers.broken("Rain is ")
    desk.session.send("What is rain?")
    desk.bot.waitUntil(lambda: desk.session.live is not None and desk.session.live.text != "")
    desk.session.stop()
    wait_for_answer(desk)
    answer = desk.session.messages[-1]
    assert (answer.text, answer.state) == ("Rain is ", AnswerState.STOPPED)


def test_a_broken_connection_is_told_and_goes_on(
    desk: Desk, server: PlayedServer, answers: Answers, notices: list[Notice]
) -> None:
    connected(desk, server)
    answers.broken("Rain is ")
    answers.whole("water.")
    answers.gate.set()
    desk.session.send("What is rain?")
    wait_for_answer(desk)
    answer = desk.session.messages[-1]
    assert (answer.text, answer.state) == ("Rain is ", AnswerState.FAILED)
    assert "broke before the answer was complete" in notices[-1].text
    assert desk.session.can_continue
    desk.session.continue_answer()
    wait_for_answer(desk)
    answer = desk.session.messages[-1]
    assert (answer.text, answer.state) == ("Rain is water. ", AnswerState.COMPLETE)
    sent = server.heard[-1].json
    assert sent["messages"][-1] == {"role": "assistant", "content": "Rain is "}
    assert sent["continue_final_message"] is True


def test_thoughts_fold_away_as_ever(desk: Desk, server: PlayedServer, answers: Answers) -> None:
    def script() -> Iterator[bytes]:
        thought = {"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": None}
        yield head() + event(choices=[thought]) + said("Water.") + said("", "stop") + DONE

    connected(desk, server)
    answers.next.append(script)
    desk.session.send("What is rain?")
    wait_for_answer(desk)
    assert desk.session.messages[-1].text == "<think>\nHm.\n</think>\n\nWater."


@pytest.mark.parametrize("page", [*PageName])
def test_every_page_opens_while_a_model_elsewhere_answers(
    desk: Desk, server: PlayedServer, page: PageName
) -> None:
    connected(desk, server)
    desk.assembly.window.pages.open(page)
    desk.bot.waitUntil(lambda: desk.assembly.window.pages.shown is page)
    desk.assembly.window.pages.body.grab()


def test_a_model_here_takes_over_and_reads_the_text(
    desk: Desk, server: PlayedServer, answers: Answers
) -> None:
    connected(desk, server)
    answers.whole("Rain is water.")
    desk.session.send("What is rain?")
    wait_for_answer(desk)
    desk.assembly.models.load(Path("model"))
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.wanted is not None)
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase is Phase.READY)
    assert not desk.assembly.window.host_badge.isVisible()
    desk.session.send("And snow?")
    wait_for_answer(desk)
    (asked,) = desk.script.requests
    (answer,) = [each for each in asked.messages if each.role is Role.ASSISTANT]
    assert (answer.text, answer.token_ids) == ("Rain is water. ", None)
    assert read(desk.assembly.paths.servers).url == ""


def test_the_next_start_connects_again_and_sends_nothing(
    open_desk: OpenDesk, server: PlayedServer
) -> None:
    first = open_desk(None)
    first.ready()
    connected(first, server)
    first.assembly.close()
    second = open_desk(None)
    second.bot.waitUntil(lambda: second.assembly.bridge.status.model_name == MODEL.name)
    assert server.heard == []
    assert not any(isinstance(each, Load | Connect) for each in second.script.commands[1:])


def test_closing_the_window_in_the_middle_of_an_answer_keeps_what_came(
    open_desk: OpenDesk, server: PlayedServer, answers: Answers
) -> None:
    first = open_desk(None)
    first.ready()
    connected(first, server)
    answers.broken("Rain is ")
    first.session.send("What is rain?")
    first.bot.waitUntil(lambda: first.session.live is not None and first.session.live.text != "")
    first.assembly.close()
    second = open_desk(None)
    second.ready()
    answer = second.session.messages[-1]
    assert (answer.text, answer.state) == ("Rain is ", AnswerState.STOPPED)
    assert answer.token_ids is None


def test_a_model_elsewhere_uses_tools_as_one_here_does(
    desk: Desk, server: PlayedServer, answers: Answers
) -> None:
    connected(desk, server)
    tools = ToolDesk(desk)
    tools.use("calculator")
    answers.calls("calculator", expression="6*7")
    desk.type_and_send("How much?")
    tools.settle()
    assert tools.phases == [CallPhase.ASKED], "it is asked for first, and nothing runs before"
    sent = server.heard[-1].json
    assert [each["function"]["name"] for each in sent["tools"]] == ["calculator"]
    assert desk.chat.transcript.bubble_at(1).text.raw_text == "Let me see."
    answers.whole("It is 42.")
    tools.card(CallPhase.ASKED).card.buttons[Decision.ONCE].click()
    desk.bot.waitUntil(lambda: desk.session.messages[-1].text.startswith("It is 42."))
    tools.settle()
    (done,) = tools.calls
    assert (done.text, done.state) == ("6*7 = 42", AnswerState.COMPLETE)
    asked, called, result = server.heard[-1].json["messages"]
    assert (asked["content"], called["content"]) == ("How much?", "Let me see.")
    assert result == {
        "role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "6*7 = 42",
    }  # fmt: skip
