"""Kills the window again and again on one history, and looks at what is left each time.

    python tests/app/killing.py --kills 200 --data DIR --seed 1

prints what it found as JSON. A `--data` that exists goes on living.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from window_child import what_to_load

from app.data_folder.paths import find_paths
from app.history import AnswerState, ChatSetup, Conversation, HistoryStore, StoredMessage
from app.session.request import chat_request
from engine.commands import Mode
from engine.events import Event, Finished
from engine.loading.devices import DeviceManager
from engine.loading.load import LoadedPair, load
from engine.loading.planned_load import plan_load
from engine.request import Role
from engine.session.answer import Answer

CHILD = Path(__file__).parent / "window_child.py"
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds in which a window tells what it is waited for, by its own beats: what a busy machine
takes from it, or one that stops it for a while, does not count. So long it may also say nothing."""

UNSAVED = 0.1
"""Seconds of an answer that may be lost: it is saved every 100 ms."""
BEAT = 0.01
"""Seconds between two times the window tells that it computes."""
WHOLE = (AnswerState.COMPLETE, AnswerState.FULL)
"""An answer that nobody disturbed; some end with the context."""


@dataclass
class Told:
    """What the window has told when it was killed."""

    lines: list[dict[str, object]] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, object]]:
        if kind == HALF:
            texts = self.of("text")
            return [line for line in texts if line["id"] == texts[-1]["id"]]
        return [line for line in self.lines if line["kind"] == kind]

    def text_of(self, message_id: int) -> str:
        """What has come of an answer."""
        return "".join(str(line["text"]) for line in self.of("text") if line["id"] == message_id)

    @property
    def summary(self) -> str:
        """How much was told of what, and the longest time in which nothing was."""
        at = [float(str(line["at"])) for line in self.lines]
        silence = max((later - one for one, later in pairwise(at)), default=0.0)
        kinds = Counter(str(line["kind"]) for line in self.lines)
        return (
            f"{dict(kinds)} within {at[-1] - at[0] if at else 0:.1f} s, once {silence:.1f} s silent"
        )

    @property
    def moment(self) -> str:
        """What was going on at the end."""
        if not self.of("doing"):
            return "starting"
        begun = max(i for i, line in enumerate(self.lines) if line["kind"] == "doing")
        since = {str(line["kind"]) for line in self.lines[begun:]}
        what = str(self.lines[begun]["what"])
        if "stored" in since:
            return "idle"
        return f"{what}, writing" if "text" in since else f"{what}, before the first text"


MOMENTS = ("open", "doing", "added", "text", "text", "text", "text", "stored")
"""What the window has told when it is killed, some of it more often."""
HALF = "half"
"""The moment in the middle of an answer of which several pieces were shown."""


def killed(data: Path, dice: random.Random, mode: Mode, moments: Sequence[str]) -> Told:
    """Run the window up to a random moment."""
    kind = dice.choice(moments)
    count = {"open": 1, "stored": dice.randint(1, 3)}.get(kind, dice.randint(1, 5))
    count = dice.randint(1, 120) if kind == "text" else count
    count = dice.randint(2, 3) if kind == HALF else count
    pause = dice.uniform(0, 1.0 if kind == "open" else 0.12)
    pace = ["0.03"] if kind == HALF else []  # so that the answer is not over before the kill
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(data), str(dice.getrandbits(32)), mode.value, *pace],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    ) as process:
        told, came = listen_and_kill(process, kind, count, pause)
        complaint = process.stderr.read() if process.stderr else ""
    assert came, f"{told.summary}, no {count} x {kind}: {told.lines[-5:]} {complaint[-2000:]}"
    assert process.returncode == -signal.SIGKILL, complaint
    return told


def listen_and_kill(
    process: subprocess.Popen[str], kind: str, count: int, pause: float
) -> tuple[Told, bool]:
    """What was told up to `pause` seconds after so many lines of a kind; whether they came."""
    told = Told()
    reached = threading.Event()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # the last one may have been cut
                told.lines.append(json.loads(line))
                if len(told.of(kind)) >= count:
                    reached.set()

    listener = threading.Thread(target=listen)
    listener.start()
    came = wait_patiently(reached, told)
    time.sleep(pause)  # not to wait for anything: it is the random moment itself
    process.send_signal(signal.SIGKILL)
    listener.join(PATIENCE)
    return told, came


def wait_patiently(reached: threading.Event, told: Told) -> bool:
    """Whether it is reached before the window has fallen silent or had time enough."""
    heard = -1
    while not reached.wait(PATIENCE):
        before, heard = heard, len(told.lines)
        if heard == before or BEAT * len(told.of("alive")) > PATIENCE:
            return False
    return True


Row = tuple[int | None, str, str, str, bytes | None]
"""Parent, role, text, state and token ids of a message."""


def everything(history: Path) -> dict[int, Row]:
    """Every message of every branch."""
    with closing(sqlite3.connect(history)) as connection:
        rows = connection.execute("SELECT id, parent_id, role, text, state, token_ids FROM message")
        return {row[0]: tuple(row[1:]) for row in rows}


@dataclass
class Findings:
    """What was seen over all kills."""

    kills: int = 0
    moments: Counter[str] = field(default_factory=Counter)
    half_answers: int = 0
    continued: int = 0
    messages: int = 0
    lost_seconds: list[float] = field(default_factory=list)
    """For each half answer, how old the oldest text was that it had lost, by the beats of
    the window: while a busy machine lets it wait, nothing grows older."""


class Killings:
    """One history that lives on through all kills, and the checks after each."""

    def __init__(
        self,
        data: Path,
        seed: int,
        mode: Mode = Mode.AUTO,
        moments: Sequence[str] = MOMENTS,
    ) -> None:
        self._data, self._mode, self.moments = data, mode, moments
        self._history = find_paths(str(data)).history
        self._dice = random.Random(seed)
        self._known = everything(self._history) if self._history.exists() else {}
        self._checked: set[tuple[int, str]] = set()
        self._pair = bundled_pair()
        self.findings = Findings()

    def kill(self) -> None:
        """Once more; fails where anything is not as it should be."""
        told = killed(self._data, self._dice, self._mode, self.moments)
        assert not told.of("problem"), told.of("problem")
        with HistoryStore.open(self._history) as store:
            branches = [
                (conversation, store.branches.messages(conversation.id))
                for conversation in store.conversations.all()
            ]
        now = everything(self._history)
        self._nothing_is_lost(told, now)
        self._half_answer(told, now)
        self._known = now
        for conversation, messages in branches:
            self._answers_are_right(conversation, messages)
        self.findings.kills += 1
        self.findings.moments[told.moment] += 1
        self.findings.messages = len(now)

    def _nothing_is_lost(self, told: Told, now: dict[int, Row]) -> None:
        for message_id, before in self._known.items():
            after = now[message_id]
            finished = before[3] == AnswerState.COMPLETE
            if finished or after == before:
                assert after == before, "a message has changed"
            else:  # a half answer went on
                assert (after[0], after[1]) == (before[0], before[1])
                assert after[2].startswith(before[2])
                assert (after[4] or b"").startswith(before[4] or b"")
        for line in told.of("added"):
            message = now[int(str(line["id"]))]
            assert message[1] == line["role"]
            if line["role"] == Role.USER.value:
                assert (message[2], message[3]) == (line["text"], AnswerState.COMPLETE)
        for line in told.of("stored"):
            _, _, text, state, _ = now[int(str(line["id"]))]
            assert state != AnswerState.INTERRUPTED or self._went_on(told, line)
            assert text.startswith(str(line["text"]))

    @staticmethod
    def _went_on(told: Told, stored: dict[str, object]) -> bool:
        """Whether a finished answer was continued afterwards."""
        after = told.lines[told.lines.index(stored) :]
        return any(line.get("what") == "continue" for line in after)

    def _half_answer(self, told: Told, now: dict[int, Row]) -> None:
        """What was being written: marked, and all of it but the last moment."""
        pieces = told.of("text")
        if not pieces or told.moment == "idle":
            return
        message_id = int(str(pieces[-1]["id"]))
        _, _, text, state, _ = now[message_id]
        if state != AnswerState.INTERRUPTED:
            return  # the last piece was its end, and that was stored
        begun = self._known[message_id][2] if message_id in self._known else ""
        kept = text.removeprefix(begun)
        assert begun + kept == text
        assert told.text_of(message_id).startswith(kept), "more is stored than has come"
        self.findings.half_answers += 1
        self.findings.lost_seconds.append(self._age_of_loss(told, message_id, kept))

    @staticmethod
    def _age_of_loss(told: Told, message_id: int, kept: str) -> float:
        length = 0
        for number, line in enumerate(told.lines):
            if line["kind"] == "text" and line["id"] == message_id:
                length += len(str(line["text"]))
                if length > len(kept):
                    return BEAT * sum(each["kind"] == "alive" for each in told.lines[number:])
        return 0.0

    def _answers_are_right(self, conversation: Conversation, messages: list[StoredMessage]) -> None:
        """Each answer is, as far as it goes, what the model writes when nobody disturbs it."""
        for index, message in enumerate(messages):
            mark = (message.id, message.text)
            if message.role is not Role.ASSISTANT or mark in self._checked:
                continue
            self._checked.add(mark)
            before = messages[:index]
            whole = self._written(conversation.setup, before, message)
            if message.state in WHOLE:
                assert message.text == whole.text
            else:
                assert message.state is AnswerState.INTERRUPTED
                assert whole.text.startswith(message.text)
            if message.text and message.state is AnswerState.INTERRUPTED:
                rest = self._written(conversation.setup, [*before, message], message)
                assert message.text + rest.text == whole.text
                self.findings.continued += 1

    def _written(
        self, setup: ChatSetup, messages: list[StoredMessage], answer: StoredMessage
    ) -> Finished:
        request = chat_request("reference", messages, setup, answer.sampling)
        events: list[Event] = []
        Answer(self._pair, replace(request, clicked_at=None), events.append, lambda: False).write()
        finished = events[-1]
        assert isinstance(finished, Finished)
        return finished


def bundled_pair() -> LoadedPair:
    manager = DeviceManager()
    return load(plan_load(what_to_load(), manager.look()), manager.open)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", type=Mode, choices=[Mode.AUTO, Mode.DUO], default=Mode.AUTO)
    arguments = parser.parse_args()
    killings = Killings(arguments.data, arguments.seed, arguments.mode)
    for _ in range(arguments.kills):
        killings.kill()
    found = killings.findings
    lost = sorted(found.lost_seconds) or [0.0]
    report = {
        "kills": found.kills,
        "moments": dict(found.moments.most_common()),
        "messages": found.messages,
        "half_answers": found.half_answers,
        "continued_exactly": found.continued,
        "lost_s": {"median": lost[len(lost) // 2], "most": lost[-1]},
    }
    sys.stdout.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
