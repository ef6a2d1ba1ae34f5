"""GGUF files that llama.cpp's own side writes, quantises and computes with."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from engine.bench.peer.export import export
from engine.bench.peer.process import PeerProcess, find_interpreter
from engine.errors import Absent
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats, Readable

ROWS = 96
"""Most tokens of a text."""

QUANTISE = Path(__file__).with_name("llama_quantize.py")


def _peer_is_here() -> bool:
    try:
        find_interpreter()
    except Absent:
        return False
    return True


needs_peer = pytest.mark.skipif(not _peer_is_here(), reason="llama.cpp is not installed")


class Llama:
    """One process of the peer."""

    def __init__(self, process: PeerProcess) -> None:
        self._process = process

    def write(self, path: Path, config: ModelConfig, weights: Readable) -> None:
        """A file of these weights."""
        self._process.write(path, export(config, weights))

    def logits(self, path: Path, tokens: Sequence[int], kv: str = "f32") -> Floats:
        """What the file's model says after each token, computed on one thread."""
        ask = self._process.ask
        ask("load", path=str(path))
        context = {"threads": 1, "size": 256, "rows": ROWS, "flash_attention": False}
        ask("context", **context, kv=kv)
        raw = base64.b64decode(ask("logits", tokens=list(tokens))["logits"])
        return np.frombuffer(raw, dtype="<f4").reshape(len(tokens), -1)


@contextmanager
def llama() -> Iterator[Llama]:
    """The peer, awake."""
    process = PeerProcess(find_interpreter())
    try:
        with process.awake():
            yield Llama(process)
    finally:
        process.close()


def quantised(source: Path, *wanted: str) -> dict[str, Path]:
    """The file as llama.cpp's own quantiser makes it, in some of its mixtures."""
    targets = {name: source.with_name(f"{source.stem}-{name}.gguf") for name in wanted}
    pairs = [str(word) for pair in targets.items() for word in pair]
    command = [str(find_interpreter()), str(QUANTISE), str(source), *pairs]
    subprocess.run(command, check=True, capture_output=True)
    return targets
