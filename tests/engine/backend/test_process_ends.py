"""A process may end while its threads compute: what they use stays until the system takes it."""

from __future__ import annotations

import subprocess
import sys

from folder_models import FOLDER_TARGET

CHILD = """
import atexit
import sys
import threading

forwards = threading.Semaphore(0)


def two_more():
    for _ in range(2):
        assert forwards.acquire(timeout=240)


atexit.register(two_more)  # before the first finalizer, so it runs after the last one

from pathlib import Path

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

folder = Path(sys.argv[1])
config = open_config(folder)
weights = ModelWeights.of_folder(config, folder)
decoder = Decoder.build(config, weights, NativeBackend(Format.F16))
state = decoder.new_state(64)


def compute():
    while True:
        decoder.forward(state, [3] * 8)
        forwards.release()


threading.Thread(target=compute, daemon=True).start()
assert forwards.acquire(timeout=240)
"""


def test_a_thread_that_computes_at_the_end_of_the_process() -> None:
    command = [sys.executable, "-c", CHILD, str(FOLDER_TARGET)]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")
