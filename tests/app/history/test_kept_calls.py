"""Tool calls on disk: after a kill, in older files, in odd ones."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.history import AnswerState, ChatSetup, HistoryStore
from app.history.columns import pack_calls, pack_setup, unpack_calls, unpack_setup
from app.history.database import connect
from app.history.schema import MIGRATIONS
from engine.request import Role, SamplingParams, ToolCall

CALL = ToolCall("call_1", "calculator", '{"expression": "1+1"}')

_CHILD = """
import os, signal, sys
from pathlib import Path
from app.history import AnswerState, HistoryStore
from engine.request import SamplingParams, ToolCall
store = HistoryStore.open(Path(sys.argv[1]))
chat = store.conversations.create("Sums")
store.answers.add_user_message(chat.id, "How much?")
begun = store.answers.begin(chat.id, model="m", sampling=SamplingParams())
call = ToolCall("call_1", "calculator", '{"expression": "1+1"}')
store.answers.finish(begun.id, text="<tool_call>", token_ids=(1,), marks=None,
    state=AnswerState.COMPLETE, stats=None, signature="s", calls=(call, call))
first, second = store.answers.add_call(chat.id, call), store.answers.add_call(chat.id, call)
if sys.argv[2] == "running":
    store.answers.set_result(first.id, "", AnswerState.STOPPED)
elif sys.argv[2] == "done":
    store.answers.set_result(first.id, "2", AnswerState.COMPLETE)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    ("when", "state", "text"),
    [
        ("asked", AnswerState.INTERRUPTED, ""),
        ("running", AnswerState.STOPPED, ""),
        ("done", AnswerState.COMPLETE, "2"),
    ],
)
def test_a_kill_loses_nothing(tmp_path: Path, when: str, state: AnswerState, text: str) -> None:
    path = tmp_path / "history.sqlite3"
    killed = subprocess.run([sys.executable, "-c", _CHILD, str(path), when], timeout=120)
    assert killed.returncode == -signal.SIGKILL
    with HistoryStore.open(path) as store:
        (chat,) = store.conversations.all()
        _, answer, first, second = store.branches.messages(chat.id)
        assert answer.calls == (CALL, CALL)
        assert (first.role, first.calls, first.state, first.text) == (
            *(Role.TOOL, (CALL,), state, text),
        )
        assert second.state is AnswerState.INTERRUPTED
        assert second.parent_id == first.id


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_files_of_every_older_version_take_calls(tmp_path: Path, version: int) -> None:
    path = tmp_path / "history.sqlite3"
    connect(path, MIGRATIONS[:version], ()).close()
    with HistoryStore.open(path) as store:
        chat = store.conversations.create("Sums")
        added = store.answers.add_call(chat.id, CALL)
        store.conversations.set_setup(chat.id, ChatSetup(tools=("calculator",)))
        store.answers.begin(chat.id, model="m", sampling=SamplingParams())
        assert store.branches.messages(chat.id)[0] == added
        assert store.conversations.all()[0].setup.tools == ("calculator",)


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "7", "{}", "[7]", '[{"id": 1}]', '[{"id": "a", "name": "b"}]', "[" * 9999],
)
def test_odd_calls_are_none(text: str | None) -> None:
    assert unpack_calls(text) == ()


def test_calls_and_tools_go_through_columns() -> None:
    assert unpack_calls(pack_calls((CALL, CALL))) == (CALL, CALL)
    assert pack_calls(()) is None
    setup = ChatSetup(tools=("calculator", "server/tool"))
    assert unpack_setup(pack_setup(setup)) == setup
    assert unpack_setup('{"tools": ["a", 7, null]}').tools == ("a",)
    assert unpack_setup('{"tools": "abc"}').tools == ()
