"""Chatting on the CPU imports no torch: it would cost a second and a few hundred megabytes."""

from __future__ import annotations

import os
import subprocess
import sys

CHAT = """
import sys
from engine.cli import main
code = main(["chat", "--prompt", "Hello", "--max-tokens", "8", "--mode", "cpu", "--json"])
heavy = {"torch", "transformers"} & set(sys.modules)
sys.exit(code or (f"imported {heavy}" if heavy else 0))
"""


def test_a_speculative_answer_needs_no_torch() -> None:
    hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"), "-1")
    done = subprocess.run(
        [sys.executable, "-c", CHAT],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **hidden},  # as on a machine without an accelerator
    )
    assert done.returncode == 0, done.stderr
    assert '"signature": "cpu:q8' in done.stdout
