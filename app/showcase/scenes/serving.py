"""The server for other programs: off, on, in the network, a port in use, its requests."""

from __future__ import annotations

import time

from app.serving.model_server import Opened, ServingState
from app.settings_page.dialog import SettingsDialog
from app.showcase.scenes.shoot import Shoot, dialog
from app.showcase.script import MODEL_NAME
from app.showcase.stage import Stage, catch_up, settle
from engine.errors import UserFixable
from engine.server.events import RequestState, RequestStatus

_HERE, _NETWORK = "http://127.0.0.1:8484/v1", "http://192.168.1.20:8484/v1"
_AGENT = "OpenAI/Python 2.6.1"
_TOKEN = "x" * 43


def serving(stage: Stage, shoot: Shoot) -> None:
    """Show the section of the settings in every state, and the word at the window's bottom."""
    server, settings = stage.assembly.model_server, stage.assembly.settings
    house = stage.assembly.house
    house.show_server()
    settle()
    page = next(each for each in stage.window.findChildren(SettingsDialog) if each.isVisible())

    def put(url: str = "", trouble: UserFixable | None = None) -> None:
        server.state = ServingState.ON if url else ServingState.OFF
        server.opened = Opened(url, _TOKEN, kept=True) if url else None
        server.trouble = trouble
        server.changed.emit()
        catch_up()

    shoot("server-off", page)
    settings.change(serve=True)
    put(_HERE)
    shoot("server-on", page)
    settings.change(serve_network=True)
    put(_NETWORK)
    shoot("server-in-network", page)
    settings.change(serve=False, serve_network=False)
    words = "Another program on this computer already uses port 8484.", "Choose another port."
    put(trouble=UserFixable(*words))
    shoot("server-port-in-use", page)
    page.close()
    put(_HERE)
    dialog(stage, shoot, "server-no-requests", house.show_requests)
    server.requests.take(_requests())
    shoot("server-indicator")
    dialog(stage, shoot, "server-requests", house.show_requests)
    put()


def _requests() -> tuple[RequestStatus, ...]:
    return (
        _request(5, "curl/8.5.0", RequestState.REFUSED, code=401),
        _request(4, _AGENT, RequestState.DONE, read=412, written=230, speed=31.4),
        _request(3, "Zed/0.210", RequestState.GONE, read=2048, written=17),
        _request(2, _AGENT, RequestState.DONE, read=96, written=512, speed=33.0),
        _request(1, _AGENT, RequestState.WRITING, read=1531, written=64),
        _request(0, "Zed/0.210", RequestState.WAITING, code=0),
    )


def _request(
    minutes: int,
    agent: str,
    state: RequestState,
    *,
    read: int = 0,
    written: int = 0,
    speed: float | None = None,
    code: int = 200,
) -> RequestStatus:
    at, path = time.time() - 60 * minutes, "/v1/chat/completions"
    return RequestStatus(
        *(str(minutes), at, "127.0.0.1", agent, path, MODEL_NAME, state, code, read, written),
        tokens_per_s=speed,
    )
