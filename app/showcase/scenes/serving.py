"""The server for other programs: off, on, in the network, a port in use, its requests."""

from __future__ import annotations

import time

from app.serving.model_server import Opened, ServingState
from app.settings.model import SettingsSection
from app.settings_page.dialog import SettingsDialog
from app.showcase.scenes.shoot import Shoot
from app.showcase.script import MODEL_NAME
from app.showcase.stage import Stage, catch_up, settle
from engine.errors import UserFixable
from engine.server.events import RequestState, RequestStatus

_CHAT = "/v1/chat/completions"
_AGENT = "OpenAI/Python 2.6.1"
_TOKEN = "x" * 43


def serving(stage: Stage, shoot: Shoot) -> None:
    """Show the section of the settings in every state, and the word at the window's bottom."""
    server, settings = stage.assembly.server, stage.assembly.settings
    stage.assembly.house.show_server()
    settle()
    opened = next(each for each in stage.window.findChildren(SettingsDialog) if each.isVisible())

    def show(name: str, state: ServingState, url: str = "", trouble: UserFixable | None = None) -> None:
        server.state, server.trouble = state, trouble
        server.opened = Opened(url, _TOKEN, kept=True) if url else None
        server.changed.emit()
        catch_up()
        shoot(name, opened)

    show("server-off", ServingState.OFF)
    settings.change(serve=True)
    show("server-on", ServingState.ON, "http://127.0.0.1:8484/v1")
    settings.change(serve_network=True)
    show("server-in-network", ServingState.ON, "http://192.168.1.20:8484/v1")
    settings.change(serve_network=False)
    server.requests.take(_requests())
    show("server-requests", ServingState.ON, "http://127.0.0.1:8484/v1")
    opened.page.show_section(SettingsSection.SERVER)
    settings.change(serve=False)
    busy = UserFixable(
        "Duotail cannot listen on 127.0.0.1, port 8484.",
        "Choose another port, or an address of this computer.",
    )
    show("server-port-in-use", ServingState.OFF, trouble=busy)
    opened.close()
    server.state, server.trouble = ServingState.ON, None
    server.opened = Opened("http://127.0.0.1:8484/v1", _TOKEN, kept=True)
    server.changed.emit()
    catch_up()
    shoot("server-indicator")
    server.state, server.opened = ServingState.OFF, None
    server.changed.emit()
    settle()


def _requests() -> tuple[RequestStatus, ...]:
    now = time.time()

    def one(number: int, agent: str, state: RequestState, *counts: float, code: int = 200) -> RequestStatus:
        read, written, speed = (*counts, 0, 0, 0)[:3]
        return RequestStatus(
            str(number),
            now - 60 * number,
            "127.0.0.1",
            agent,
            _CHAT,
            MODEL_NAME,
            state,
            code,
            int(read),
            int(written),
            speed or None,
        )

    return (
        one(5, "curl/8.5.0", RequestState.REFUSED, code=401),
        one(4, _AGENT, RequestState.DONE, 412, 230, 31.4),
        one(3, "Zed/0.210", RequestState.GONE, 2048, 17),
        one(2, _AGENT, RequestState.DONE, 96, 512, 33.0),
        one(1, _AGENT, RequestState.WRITING, 1531, 64),
        one(0, "Zed/0.210", RequestState.WAITING, code=0),
    )
