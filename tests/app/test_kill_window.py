"""kill -9 in mid-answer: the conversation is there, and "continue" goes on with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from window_child import slow_model

from app.application import Assembly
from app.history import AnswerState, HistoryStore
from app.paths import find_paths
from app.status import Phase
from app.theme.theme import Theme

CHILD = Path(__file__).parent / "window_child.py"
ROOT = Path(__file__).parents[2]


def killed_in_mid_answer(data: Path) -> str:
    """Run the real window until part of an answer is stored, kill it; what it had stored."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, str(CHILD), str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert process.stdout is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    line = process.stdout.readline()
    watchdog.cancel()
    process.send_signal(signal.SIGKILL)
    _, complaint = process.communicate(timeout=30)
    assert line, complaint
    text: str = json.loads(line)
    return text


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
def test_nothing_received_is_lost_and_the_answer_goes_on(
    tmp_path: Path, theme: Theme, qtbot: QtBot
) -> None:
    stored = killed_in_mid_answer(tmp_path)
    with HistoryStore.open(find_paths(str(tmp_path)).history) as history:
        (conversation,) = history.conversations()
        question, answer = history.messages(conversation.id)
        assert question.text == "Tell me a short story about a dog."
        assert answer.text == stored
        assert answer.token_ids
        assert answer.state is AnswerState.INTERRUPTED

    assembly = Assembly(find_paths(str(tmp_path)), theme)
    qtbot.addWidget(assembly.window)
    try:
        assembly.bridge.start(slow_model)
        session = assembly.session
        qtbot.waitUntil(lambda: assembly.bridge.status.phase is Phase.READY, timeout=60_000)
        assert session.messages[-1].text == stored, "the interrupted answer is shown"
        session.continue_answer()
        qtbot.waitUntil(lambda: session.live is None, timeout=60_000)
        whole = session.messages[-1]
        session.regenerate()
        qtbot.waitUntil(lambda: session.live is None, timeout=60_000)
        assert whole.text.startswith(stored)
        assert len(whole.text) > len(stored)
        assert whole.state is AnswerState.COMPLETE
        # Greedy: written anew it is the same answer, as if nothing had happened.
        assert session.messages[-1].text == whole.text
        assert session.messages[-1].token_ids == whole.token_ids
    finally:
        assembly.close()
