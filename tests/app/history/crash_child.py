"""Run as a process: writes answers as fast as it can and reports each append that returned.

A number after the path: it waits to be killed when it has reported so many lines.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from app.history import AnswerState, HistoryStore, TokenMarks
from engine.events import Origin, TokenSpan
from engine.request import SamplingParams

STEP = "word{} "
MARKS = TokenMarks.of([TokenSpan(0, 0, 4, Origin.DRAFTED), TokenSpan(1, 4, 4, Origin.TARGET)])


def main() -> None:
    with HistoryStore.open(Path(sys.argv[1])) as store:
        conversation = store.conversations.create("crash")
        report(f"conversation {conversation.id}")
        while True:
            store.answers.add_user_message(conversation.id, "go on")
            answer = store.answers.begin(
                conversation.id, model="m", sampling=SamplingParams(temperature=0.5, seed=7)
            )
            report(f"begun {answer.id}")
            for step in range(400):
                store.pieces.append(answer.id, STEP.format(step), [step, step + 1], MARKS)
                report(f"appended {answer.id} {step}")
            text = "".join(STEP.format(step) for step in range(400))
            store.answers.finish(
                answer.id,
                text=text,
                token_ids=tuple(range(800)),
                marks=None,
                state=AnswerState.COMPLETE,
                stats=None,
                signature="s",
            )
            report(f"finished {answer.id}")


_left = int(sys.argv[2]) if len(sys.argv) > 2 else -1


def report(line: str) -> None:
    global _left  # noqa: PLW0603 - a script of its own
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    _left -= 1
    if _left == 0:
        signal.pause()


if __name__ == "__main__":
    main()
