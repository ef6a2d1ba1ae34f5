"""The peer's own process: an object that knows llama.cpp, behind JSON lines on stdin and stdout.

    python serve.py FILE.py        # its PEER, made with stdin

Runs by path under whichever Python has the peer's packages, so neither file imports Duotail. It
says {} when it is ready. Each request is {"do": name, ...} and gets one line back: a result, or
{"error": text}.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import sys


def _end_with_parent() -> None:
    """A stopped child would never see its stdin end; Linux ends it for us."""
    if sys.platform == "linux":
        end_when_parent_dies, kill = 1, 9
        ctypes.CDLL(None).prctl(end_when_parent_dies, kill)


def main() -> None:
    """Answer requests until stdin ends."""
    _end_with_parent()
    requests = sys.stdin.buffer
    # What libraries print goes to stderr; the protocol has stdout for itself.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer = runpy.run_path(sys.argv[1])["PEER"](requests)
    answers.write("{}\n")
    answers.flush()
    while line := requests.readline():
        request = json.loads(line)
        action = getattr(peer, request.pop("do"))
        try:
            answer = action(**request)
        except (RuntimeError, ValueError, OSError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
