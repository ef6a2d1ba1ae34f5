"""Loads a model through the cache in a process of its own, and may die while writing to it."""

from __future__ import annotations

import os
import signal
import sys
from hashlib import sha256
from pathlib import Path

from engine.backend.decoder import Decoder
from engine.backend.native.cached_weights import CachedWeights
from engine.backend.native.library import Format
from engine.backend.native.packed_cache import PackedCache, PackedWriter, settle
from engine.backend.native.segment import NativeBackend
from engine.model.families import open_config
from engine.model.weights.safetensors_folder import SafetensorsFolder


def load(folder: Path, cache: PackedCache, fmt: Format = Format.Q4) -> Decoder:
    """The model of a folder, its packed weights from the cache or on the way into it."""
    source = SafetensorsFolder.open(folder)
    with CachedWeights(source, source.files, fmt, 100_000, cache=cache) as weights:
        decoder = Decoder.build(open_config(folder), weights, NativeBackend(fmt))
    settle()
    return decoder


def fingerprint(decoder: Decoder) -> str:
    """A hash of what the model computes."""
    forward = decoder.forward(decoder.new_state(64), [5, 3, 200, 7, 7])
    return sha256(forward.logits.tobytes()).hexdigest()


def _die_at(matrix: int) -> None:
    written: list[object] = []
    add = PackedWriter.add

    def dying(self: PackedWriter, *arguments: object) -> None:
        add(self, *arguments)  # type: ignore[arg-type]
        written.append(arguments)
        if len(written) == matrix:
            os.kill(os.getpid(), signal.SIGKILL)

    PackedWriter.add = dying  # type: ignore[method-assign]


if __name__ == "__main__":
    model, folder, die_at = sys.argv[1:]
    if int(die_at):
        _die_at(int(die_at))
    sys.stdin.readline()  # all start at once
    sys.stdout.write(fingerprint(load(Path(model), PackedCache(Path(folder)))))
