"""Models on servers: the dialog in every state, the menu, the consent, the badge, a broken line."""

from __future__ import annotations

from time import perf_counter

from PySide6.QtWidgets import QMessageBox

from app.models.server_dialog import DialogState, ServerDialog
from app.models.server_texts import found_words
from app.showcase.scenes.shoot import Shoot, menu, new_chat
from app.showcase.stage import Stage, catch_up, settle
from engine.commands import Connect, Mode, ServerKind
from engine.errors import failed
from engine.events import (
    AnswerStats,
    Connected,
    Finished,
    FinishReason,
    PlanSummary,
    Received,
    TextDelta,
)
from engine.remote import trouble
from engine.remote.catalogue import Catalogue, RemoteModel
from engine.remote.servers import RemoteServer

_HOST = "192.168.1.5:8000"
_QWEN = RemoteModel("Qwen/Qwen3-32B", 40_960)
_FOUND = Catalogue(
    ServerKind.VLLM, (_QWEN, RemoteModel("Qwen/Qwen3-Coder-30B-A3B-Instruct", 262_144))
)
_BIG = RemoteServer(f"http://{_HOST}/v1", _FOUND.kind, _FOUND.models)
_OLLAMA = RemoteServer(
    "http://localhost:11434/v1",
    ServerKind.OLLAMA,
    (RemoteModel("qwen3:8b"), RemoteModel("gemma3:4b")),
)
_PLAN = PlanSummary(
    Mode.PLAIN, _HOST, None, None, 40_960, "", (f"This model runs on {_HOST}.",), host=_HOST
)
_SPEED = 71.4
_BEGUN = (
    "<think>\nThey ask about the water cycle. Keep it short.\n</think>\n\n"
    "Rain is water that has risen from seas, lakes and plants as vapour, has become droplets in "
    "a cloud, and falls once the droplets are heavy enough."
)


def servers(stage: Stage, shoot: Shoot) -> None:
    """Show all of it, then put the window back on its own model."""
    new_chat(stage)
    _dialog(stage, shoot)
    book, button = stage.assembly.servers, stage.window.model_button
    for server in (_BIG, _OLLAMA):
        book.keep(server, None)
    menu(shoot, "server-menu", button.make_menu())
    button.servers.choose(_BIG, _QWEN)
    settle()
    for box in stage.window.findChildren(QMessageBox):
        shoot("server-consent", box)
        box.reject()
    settle()
    place = Connect(_BIG.url, _QWEN.name, _BIG.kind, _QWEN.context)
    stage.tell(Connected(perf_counter(), place, _PLAN))
    catch_up()
    shoot("server-ready")
    stage.window.commands.toggle_performance()
    _answers(stage, shoot)
    stage.window.commands.toggle_performance()
    for server in (_BIG, _OLLAMA):
        book.remove(server.url)
    stage.window.banners.clear()
    stage.ready()


def _dialog(stage: Stage, shoot: Shoot) -> None:
    """Show the dialog, empty, testing, refused and successful."""
    dialog = ServerDialog(stage.assembly.servers, None, stage.window)
    dialog.open()
    settle()
    shoot("server-empty", dialog)
    dialog.address.setText(_HOST)
    dialog.key.setText("sk-1234567890")
    dialog.show_state(DialogState.TESTING, f"Asking {_HOST}…", "muted")
    settle()
    shoot("server-testing", dialog)
    refusal = trouble.of_status(401, _HOST)
    dialog.show_state(DialogState.FAILED, str(refusal), "danger")
    settle()
    shoot("server-failed", dialog)
    dialog.show_state(DialogState.TESTED, found_words(_FOUND), "")
    settle()
    shoot("server-tested", dialog)
    dialog.close()
    dialog.deleteLater()
    settle()


def _answers(stage: Stage, shoot: Shoot) -> None:
    """Show an answer that comes from elsewhere, its end, and one whose line broke."""
    session = stage.assembly.session
    session.send("Where does rain come from?")
    stage.assembly.session.asked.emit(perf_counter() - 3.0)
    words = _BEGUN.split(" ")
    for index, word in enumerate(words):
        at = perf_counter() - (len(words) - index) / _SPEED
        stage.tell(
            TextDelta(at, _live(stage), word if index == len(words) - 1 else f"{word} ", ()),
            Received(at, _live(stage), index + 1),
        )
    catch_up()
    shoot("server-streaming")
    live = _live(stage)
    stats = AnswerStats(
        prompt_tokens=23, reused_tokens=16, committed=len(words), rounds=0, plain_rounds=0,
        drafted=0, accepted=0, drafted_by_depth=(), accepted_by_depth=(), acceptance_length=None,
        ttft_s=0.31, tokens_per_s=_SPEED, seconds=1.1, host=_HOST,
    )  # fmt: skip
    stage.tell(Finished(perf_counter(), live, FinishReason.STOP, _BEGUN, None, stats))
    catch_up()
    shoot("server-answer")
    session.send("And snow?")
    live = _live(stage)
    begun = "Snow is made of ice crystals that have grown"
    stage.tell(
        TextDelta(perf_counter(), live, begun, ()),
        failed(trouble.broken(_HOST), live),
        Finished(perf_counter(), live, FinishReason.ERROR, begun, None, stats),
    )
    catch_up()
    shoot("server-broken")


def _live(stage: Stage) -> str:
    live = stage.assembly.session.live
    assert live is not None  # noqa: S101 - a scene has just asked
    return live.request_id
