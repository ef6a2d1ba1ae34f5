"""Real processes, really killed; real locks; real limits on what may be written."""

from __future__ import annotations

import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.history import AnswerState, HistoryStore
from engine.errors import UserFixable
from engine.request import SamplingParams

ROOT = Path(__file__).parents[3]
CHILD = Path(__file__).with_name("crash_child.py")
STEP = "word{} "


def start_child(
    path: Path, *more: str, before: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(path), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        preexec_fn=before,  # noqa: PLW1509 - no threads here
    )


def kill_after(path: Path, lines: int, *more: str) -> list[str]:
    """What the child had reported when it was killed, `lines` lines or some more."""
    child = start_child(path, *more)
    assert child.stdout is not None
    heard = [child.stdout.readline().strip() for _ in range(lines)]
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL
    return heard + rest.splitlines()


@pytest.mark.release(keep=3, reason="every kill")
@pytest.mark.parametrize("attempt", range(20))
def test_kill_keeps_every_append_that_returned(tmp_path: Path, attempt: int) -> None:
    path = tmp_path / "history.sqlite"
    reports = kill_after(path, random.Random(attempt).randint(2, 1300))
    begun = [int(line.split()[1]) for line in reports if line.startswith("begun")]
    finished = {int(line.split()[1]) for line in reports if line.startswith("finished")}
    appended = dict.fromkeys(begun, -1)
    for line in reports:
        if line.startswith("appended"):
            _, answer, step = line.split()
            appended[int(answer)] = int(step)

    with HistoryStore.open(path) as store:
        (conversation,) = store.conversations.all()
        answers = {
            m.id: m for m in store.branches.messages(conversation.id) if m.role == "assistant"
        }
    for answer, step in appended.items():
        stored = answers[answer]
        assert stored.text.startswith("".join(STEP.format(n) for n in range(step + 1)))
        # One more append may have returned whose report was lost; nothing half may be there.
        count = stored.text.count(" ")
        assert stored.text == "".join(STEP.format(n) for n in range(count))
        assert stored.sampling == SamplingParams(temperature=0.5, seed=7)
        if answer in finished:
            assert stored.state is AnswerState.COMPLETE
            assert stored.token_ids == tuple(range(800))
        elif stored.state is AnswerState.INTERRUPTED:
            assert stored.token_ids == tuple(x for n in range(count) for x in (n, n + 1))
            assert stored.marks is not None
            assert len(stored.marks) == 2 * count
        else:  # finished, but killed before the report
            assert count == 400
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("SELECT count(*) FROM answer_piece").fetchone() == (0,)
    connection.close()


def test_second_process_is_refused_until_the_first_dies(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    child = start_child(path)
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(UserFixable, match="already using"):
        HistoryStore.open(path)
    child.kill()
    child.communicate(timeout=120)
    HistoryStore.open(path).close()


def test_second_store_in_the_same_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path), pytest.raises(UserFixable, match="already using"):
        HistoryStore.open(path)
    HistoryStore.open(path).close()


def test_interrupted_answer_is_found_by_search_and_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    kill_after(path, 60, "60")  # no more than that: the first answer is not over
    with HistoryStore.open(path) as store:
        (hit, *_) = store.search("word41")
        answer = store.branches.messages(hit.conversation.id)[-1]
        assert hit.message_id == answer.id
        assert answer.state is AnswerState.INTERRUPTED
        assert answer.token_ids is not None
        store.pieces.append(answer.id, "and more", [99], None)
        continued = store.branches.messages(hit.conversation.id)[-1]
        assert continued.text == answer.text + "and more"
        assert continued.token_ids == (*answer.token_ids, 99)


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limit")
def test_file_size_limit_says_so_and_keeps_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    limit = 400_000
    child = start_child(
        path, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )
    out, err = child.communicate(timeout=120)
    assert child.returncode == 1
    assert "NoPlace" in err
    appended = [line.split() for line in out.splitlines() if line.startswith("appended")]
    _, answer, step = appended[-1]
    with HistoryStore.open(path) as store:
        (conversation,) = store.conversations.all()
        stored = {m.id: m for m in store.branches.messages(conversation.id)}[int(answer)]
    assert stored.text.startswith("".join(STEP.format(n) for n in range(int(step) + 1)))
