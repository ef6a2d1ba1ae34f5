"""The server in the window's process: the switch, the port, the access token, and the end."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from desk import Desk
from encoder_models import bert
from fake_engine import Script
from memory_keyring import Ring
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from serving_desk import CHAT, HELLO, client, free_port, opened, serve

from app.notices import Notice
from app.serving.model_server import ModelServer, ServingState
from app.settings.hub_access import usable_origins
from app.settings_page.dialog import SettingsDialog
from app.settings_page.requests_dialog import RequestsDialog
from app.settings_page.serving import ServingPanel
from app.showcase.script import MODEL_NAME
from engine.commands import Load, Stop
from engine.server import settings as server_settings
from engine.server.events import RequestState
from engine.server.running import running


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def shown_settings(desk: Desk) -> SettingsDialog:
    return next(
        each for each in desk.assembly.window.findChildren(SettingsDialog) if each.isVisible()
    )


def test_nothing_is_served_before_the_user_says_so(desk: Desk) -> None:
    assert desk.assembly.model_server.state is ServingState.OFF
    assert not desk.assembly.window.server_indicator.isVisible()
    assert "server" not in threads()


def test_one_key_serves_the_windows_model(desk: Desk) -> None:
    port = free_port()
    desk.assembly.settings.change(serve_port=port)
    desk.assembly.house.show_server()
    dialog = shown_settings(desk)
    switch = dialog.page.rows["serve"].editor.control
    assert switch.isVisible()
    desk.bot.keyClick(switch, Qt.Key.Key_Space)
    server = desk.assembly.model_server
    desk.bot.waitUntil(lambda: server.state is ServingState.ON)
    assert opened(server).url == f"http://127.0.0.1:{port}/v1"
    answer = client(server).answer(HELLO | {"model": "default"})
    assert answer["model"] == MODEL_NAME
    assert answer["choices"][0]["message"]["content"] == desk.script.answer
    assert desk.session.messages == []  # the window heard nothing of it
    desk.bot.keyClick(switch, Qt.Key.Key_Space)
    desk.bot.waitUntil(lambda: not listens(port))
    assert server.state is ServingState.OFF


def test_address_and_access_token_are_shown_masked_and_copied(
    desk: Desk, server: ModelServer, qapp: object
) -> None:
    desk.assembly.house.show_server()
    panel = shown_settings(desk).findChild(ServingPanel)
    assert isinstance(panel, ServingPanel)
    token = opened(server).token
    assert token not in panel.token.displayText()
    panel.token.copy_all()
    assert qapp.clipboard().text() == token  # type: ignore[attr-defined]
    panel.address.copy_all()
    assert qapp.clipboard().text() == opened(server).url  # type: ignore[attr-defined]


@pytest.mark.qt_log_ignore("propagateSizeHints", extend=True)
def test_a_new_token_takes_the_place_of_the_old_one(
    desk: Desk, ring: Ring, server: ModelServer
) -> None:
    old = client(server)
    assert list(ring.kept.values()) == [old.token]
    desk.assembly.house.show_server()
    dialog = shown_settings(desk)
    for words in ("New token…", "Make new token"):
        (button,) = [b for b in dialog.findChildren(QPushButton) if b.text() == words]
        button.click()
    desk.bot.waitUntil(
        lambda: server.state is ServingState.ON and opened(server).token != old.token
    )
    assert old.status(path="/v1/models") == 401
    assert client(server).status(path="/v1/models") == 200
    assert list(ring.kept.values()) == [opened(server).token]


@pytest.mark.usefixtures("ring")
def test_with_the_switch_on_the_next_window_serves_with_the_same_token(
    open_desk: Callable[[Script | None], Desk],
) -> None:
    first = open_desk(None)
    before = opened(serve(first))
    assert before.kept
    first.assembly.close()
    assert not listens(int(before.url.removesuffix("/v1").rpartition(":")[2]))
    server = open_desk(None).assembly.model_server
    first.bot.waitUntil(lambda: server.state is ServingState.ON)
    assert server.opened == before


def test_without_a_keyring_the_token_stays_as_long_as_the_window(desk: Desk) -> None:
    server = serve(desk)
    before = opened(server)
    assert not before.kept
    desk.assembly.settings.change(serve_port=free_port())
    desk.bot.waitUntil(lambda: server.opened not in (None, before))
    assert opened(server).token == before.token


def test_a_port_in_use_is_told_and_the_switch_goes_off(desk: Desk, notices: list[Notice]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        desk.assembly.settings.change(serve=True, serve_port=port)
        desk.bot.waitUntil(lambda: not desk.assembly.settings.value.serve)
    server = desk.assembly.model_server
    assert server.state is ServingState.OFF
    assert server.trouble is not None
    assert f"already uses port {port}" in server.trouble.cause
    (notice,) = notices
    assert notice.text == server.trouble.cause
    ((_, lead),) = notice.actions
    lead()
    panel = shown_settings(desk).findChild(ServingPanel)
    assert isinstance(panel, ServingPanel)
    assert server.trouble.cause in panel.status.text()
    desk.assembly.settings.change(serve=True)  # the other program has ended
    desk.bot.waitUntil(lambda: server.state is ServingState.ON)
    assert panel.status.text() != server.trouble


def test_the_network_is_let_in_by_a_second_switch_and_never_without_the_token(
    desk: Desk, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.server.server.network_address", lambda: "192.168.7.7")
    desk.assembly.house.show_server()
    panel = shown_settings(desk).findChild(ServingPanel)
    assert isinstance(panel, ServingPanel)
    assert not panel.warning.isVisible()
    here = opened(server)
    desk.assembly.settings.change(serve_network=True)
    desk.bot.waitUntil(lambda: server.opened not in (None, here))
    assert opened(server).url.startswith("http://192.168.7.7:")
    assert panel.warning.isVisible()  # it is not encrypted
    assert client(server).status(path="/v1/models") == 200
    assert client(server).status(path="/v1/models", authorization="") == 401


def test_a_web_page_may_ask_once_its_origin_is_in_the_settings(
    desk: Desk, server: ModelServer
) -> None:
    page, here = "https://chat.example:8443", opened(server)
    assert client(server).status(path="/v1/models", origin=page) == 403
    desk.assembly.settings.change(serve_origins=f"{page}/ app://obsidian.md")
    desk.bot.waitUntil(lambda: server.opened is not None and server.opened is not here)
    assert client(server).status(path="/v1/models", origin=page) == 200
    assert client(server).status(path="/v1/models", origin=page, authorization="") == 401
    assert client(server).status(path="/v1/models", origin="https://attacker.example") == 403


@pytest.mark.parametrize(
    ("text", "usable"),
    [
        ("", True),
        ("*", True),
        ("https://chat.example http://localhost:3000/", True),
        ("chrome-extension://abcdefghijklmnop app://obsidian.md http://[::1]:3000", True),
        ("null", False),
        ("chat.example", False),
        ("https://chat.example/page", False),
        ("https://*.example", False),
        ("https://user@chat.example", False),
        ("https://", False),
    ],
)
def test_only_origins_are_taken_for_origins(text: str, *, usable: bool) -> None:
    assert usable_origins(text) is usable


def test_a_chosen_model_embeds_in_place_of_the_loaded_one(
    desk: Desk, server: ModelServer, tmp_path: Path, notices: list[Notice]
) -> None:
    here, settings = opened(server), desk.assembly.settings
    settings.change(serve_embedding=str(bert(tmp_path / "tiny-bert")))
    desk.bot.waitUntil(lambda: server.opened is not None and server.opened is not here)
    told = client(server).answer({"input": ["rain"]}, "/v1/embeddings")
    assert (told["model"], len(told["data"][0]["embedding"])) == ("tiny-bert", 32)
    assert desk.script.requests == []
    settings.change(serve_embedding=str(tmp_path / "nothing.gguf"))
    desk.bot.waitUntil(lambda: not settings.value.serve)
    assert [notice.text for notice in notices] == ["There is no file “nothing.gguf”."]


def test_others_find_what_the_window_holds_and_where_it_is_served(desk: Desk) -> None:
    data = desk.assembly.paths.data
    desk.bot.waitUntil(lambda: bool(running(data)))
    (found,) = running(data)
    assert (found.pid, found.url, found.model) == (os.getpid(), "", MODEL_NAME)
    server = serve(desk)
    desk.bot.waitUntil(lambda: [each.url for each in running(data)] == [opened(server).url])
    (file,) = (data / "servers").iterdir()
    assert opened(server).token not in file.read_text()
    desk.assembly.settings.change(serve=False)
    desk.bot.waitUntil(lambda: [each.url for each in running(data)] == [""])
    desk.assembly.close()
    assert running(data) == []


def test_an_error_of_ours_turns_the_switch_off_and_is_reported(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> tuple[str, bool]:
        raise ValueError("a bug")

    monkeypatch.setattr(server_settings, "kept_token", broken)
    with desk.bot.captureExceptions() as raised:
        desk.assembly.settings.change(serve=True)
        desk.bot.waitUntil(lambda: not desk.assembly.settings.value.serve)
        desk.bot.waitUntil(lambda: bool(raised))
    assert [str(each[1]) for each in raised] == ["a bug"]
    assert desk.assembly.model_server.state is ServingState.OFF


def test_a_certificate_that_is_none_is_told(desk: Desk, notices: list[Notice]) -> None:
    desk.assembly.settings.change(serve=True, serve_certificate="/nowhere/certificate.pem")
    desk.bot.waitUntil(lambda: not desk.assembly.settings.value.serve)
    assert [notice.text for notice in notices] == ["There is no file “certificate.pem”."]


def test_the_switch_ends_what_is_being_written(holding: Desk) -> None:
    server = serve(holding)
    program = client(server)
    with closing(program.connect()) as connection:
        program.start(connection, HELLO | {"stream": True})
        response = connection.getresponse()
        assert response.readline().startswith(b"data: ")
        holding.assembly.settings.change(serve=False)
        holding.bot.waitUntil(lambda: not listens(program.port))
    holding.bot.waitUntil(
        lambda: any(isinstance(each, Stop) and each.request_id for each in holding.script.commands)
    )
    requests = server.requests
    holding.bot.waitUntil(lambda: [r.state for r in requests.requests] == [RequestState.GONE])
    holding.session.send("Hello")  # the engine is free again
    holding.script.gate.set()
    holding.answered()


def test_closing_the_window_ends_what_is_being_written(holding: Desk) -> None:
    program = client(serve(holding))
    with closing(program.connect()) as connection:
        program.start(connection, HELLO | {"stream": True})
        connection.getresponse().readline()
        holding.assembly.close()
        assert not listens(program.port)
    assert "server" not in threads()


def test_a_server_that_starts_while_the_window_closes_does_not_stay(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = threading.Event(), threading.Event()

    def slow() -> tuple[str, bool]:
        asked.set()
        told.wait(60)  # for the user to unlock the keyring
        return "t" * 20, True

    monkeypatch.setattr(server_settings, "kept_token", slow)
    port = free_port()
    desk.assembly.settings.change(serve=True, serve_port=port)
    desk.bot.waitUntil(asked.is_set)
    desk.assembly.close()
    told.set()
    desk.bot.waitUntil(lambda: "server" not in threads() and not listens(port))


@pytest.mark.qt_log_ignore("propagateSizeHints", extend=True)
def test_a_word_at_the_bottom_leads_to_the_requests(holding: Desk) -> None:
    server, indicator = serve(holding), holding.assembly.window.server_indicator
    assert indicator.isVisible()
    assert indicator.text() == "Serving"
    program = client(server)
    with closing(program.connect()) as connection:
        program.start(connection, HELLO | {"stream": True})
        connection.getresponse()
        holding.bot.waitUntil(lambda: indicator.text() == "Serving 1 request")
        indicator.setFocus()
        holding.bot.keyClick(indicator, Qt.Key.Key_Space)
        dialog = next(
            each
            for each in holding.assembly.window.findChildren(RequestsDialog)
            if each.isVisible()
        )
        assert dialog.view.isVisible()
        assert not dialog.isModal()  # the chat goes on beside it
        rows = dialog.view.verticalHeader()
        before = rows.defaultSectionSize()
        holding.assembly.settings.change(font_scale=1.5)
        holding.bot.waitUntil(lambda: rows.defaultSectionSize() > before)
        dialog.settings_asked.emit()
        assert shown_settings(holding).page.rows["serve"].isVisible()
    holding.assembly.settings.change(serve=False)
    holding.bot.waitUntil(lambda: not indicator.isVisible())


def test_a_request_loads_a_model_by_its_own_profile(desk: Desk) -> None:
    """The catalogue of the window: models that are here, each as it is kept."""
    loads = desk.assembly._served()()
    assert loads
    for load in loads.values():
        assert load.model.exists()
        assert load.after_answer
        kept = desk.assembly.settings.value.profiled(load.model).profile
        assert load == kept.put_into(Load(load.model, after_answer=True))


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        pytest.param(403, {"host": "rebound.attacker.example"}, id="dns rebinding"),
        pytest.param(403, {"host": "127.0.0.1.attacker.example:80"}, id="foreign host"),
        pytest.param(403, {"origin": "https://attacker.example"}, id="foreign origin"),
        pytest.param(415, {"content_type": "text/plain"}, id="csrf by text/plain"),
        pytest.param(401, {"authorization": "Bearer guess"}, id="token guessing"),
    ],
)
def test_attacks_on_the_windows_server_are_refused(
    desk: Desk, server: ModelServer, status: int, headers: dict[str, str]
) -> None:
    assert client(server).status(HELLO, CHAT, **headers) == status
    assert desk.script.requests == []
