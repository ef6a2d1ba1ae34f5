"""A process that has imported what takes long, and branches off one run of pytest after another.

Each line on its input is a run in JSON: [environment, output, arguments]. It answers with the exit
code. Nothing of our own is imported before it branches: bugs are planted as in a fresh process.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import pytest

HEAVY = (
    "numpy",
    "hypothesis.strategies",
    "PySide6.QtTest",
    "PySide6.QtWidgets",
    "safetensors.torch",
    "scipy.optimize",
    "tokenizers",
    "torch",
    "transformers",
)
LONGEST_S = 800
"""Seconds until a run counts as hanging."""


def run(environment: Mapping[str, str], output: str, arguments: Sequence[str]) -> int:
    """Run pytest in a child; its exit code."""
    child = os.fork()
    if child == 0:
        with open(output, "wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.environ.update(environment)
        signal.alarm(LONGEST_S)
        sys.exit(pytest.main(list(arguments)))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    for name in HEAVY:
        importlib.import_module(name)
    for line in sys.stdin:
        print(run(*json.loads(line)), flush=True)  # noqa: T201


main()
