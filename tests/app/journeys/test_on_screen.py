"""A real window on a screen of its own, worked with real keys and a real mouse.

Needs Xvfb, xdotool and the libraries of Qt's plugin for X11; skipped without them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import PySide6
import pytest
import qt_libraries

from app.data_folder.paths import find_paths
from app.history import AnswerState, HistoryStore

CHILD = Path(__file__).parent / "screen_child.py"
ROOT = Path(__file__).parents[3]
PATIENCE_S = 120.0


def lacking() -> list[str]:
    """What this machine lacks for a window on a screen of X11."""
    programs = [name for name in ("Xvfb", "xdotool") if shutil.which(name) is None]
    return programs or qt_libraries.missing(Path(PySide6.__file__).parent, "xcb")


LACKING = lacking()
pytestmark = [
    pytest.mark.skipif(bool(LACKING), reason="needs " + ", ".join(LACKING)),
    pytest.mark.usefixtures("alone"),
]


class Screen:
    """The application on its screen."""

    def __init__(self, display: str, data: Path) -> None:
        self._env = {
            **os.environ,
            "DISPLAY": display,
            "QT_QPA_PLATFORM": "xcb",
            "PYTHONPATH": str(ROOT),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._env,
            cwd=ROOT,
        )

    def ask(self, question: str) -> object:
        """What the application answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the application has ended"
        answer: object = json.loads(line)
        return answer

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds, for a while."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, "it does not happen"
            assert self.process.poll() is None, "the application has ended"
            time.sleep(0.05)

    def keys(self, *keys: str) -> None:
        """Press and release keys or combinations."""
        self._do("key", *keys)

    def type(self, text: str) -> None:
        """Type text."""
        self._do("type", "--delay", "5", text)

    def click(self, name: str, button: int = 1) -> None:
        """Click on the widget of that accessible name."""
        self.until(lambda: self.ask(f"where {name}"))
        place = self.ask(f"where {name}")
        assert isinstance(place, list)
        self._do("mousemove", str(place[0]), str(place[1]), "click", str(button))

    def _do(self, *arguments: str) -> None:
        subprocess.run(["xdotool", *arguments], env=self._env, check=True, timeout=PATIENCE_S)

    def close(self) -> None:
        """End the application, however far it has come."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


@contextmanager
def x_server() -> Iterator[str]:
    """A screen that nobody sees; its name."""
    out, end = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(end), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
        pass_fds=(end,),
        stderr=subprocess.DEVNULL,
    )
    os.close(end)
    try:
        with os.fdopen(out) as said:
            number = said.readline().strip()
        assert number, "Xvfb has ended"
        yield f":{number}"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    """The application, ready to answer."""
    with x_server() as display, closing(Screen(display, tmp_path)) as result:
        result.until(lambda: result.ask("phase") == "ready")
        yield result


@pytest.mark.release(reason="a window on a screen, beside nothing else")
def test_a_chat_with_keys_and_mouse(screen: Screen, tmp_path: Path) -> None:
    screen.click("Message")
    screen.type("Hello, who are you?")
    screen.until(lambda: screen.ask("text Message") == "Hello, who are you?")
    screen.keys("Return")
    screen.until(lambda: screen.ask("text Answer"))
    screen.until(lambda: screen.ask("phase") == "ready")
    first = screen.ask("text Answer")
    screen.type("Tell me a story.")
    screen.click("Send the message")
    screen.until(lambda: screen.ask("text Answer") not in ("", None, first))
    screen.until(lambda: screen.ask("phase") == "ready")
    screen.keys("ctrl+n")
    screen.until(lambda: screen.ask("where Answer") is None)
    screen.keys("ctrl+q")
    assert screen.process.wait(PATIENCE_S) == 0
    with HistoryStore.open(find_paths(str(tmp_path)).history) as history:
        (conversation,) = history.conversations.all()
        messages = history.branches.messages(conversation.id)
    assert [message.text for message in messages[::2]] == [
        "Hello, who are you?",
        "Tell me a story.",
    ]
    assert all(message.text for message in messages)
    assert messages[1].state is AnswerState.COMPLETE
