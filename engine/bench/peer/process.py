"""The peer's process seen from ours: where its Python is, requests, silence while we measure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from engine.bench.peer.export import Export
from engine.errors import Absent, UserFixable
from engine.language import later, tr

ENVIRONMENT = ".venv-peer"
_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # large pages for its weights, as ours have
}
_SERVE = Path(__file__).with_name("serve.py")
_ANEW = later("Remove {folder} and run `make bench-peer`, which builds it.")


@dataclass(frozen=True, slots=True)
class Binding:
    """A way to llama.cpp: the packages that a Python needs for it, and the file that uses them."""

    packages: tuple[str, ...]
    child: str


PLAIN = Binding(("llama_cpp", "gguf"), "child.py")
DRAFTING = Binding(("xllamacpp",), "drafting_child.py")


def find_interpreter(binding: Binding = PLAIN) -> Path:
    """A Python that has the peer: DUOTAIL_PEER_PYTHON, our own, or the one in `.venv-peer`.

    Raises:
        Absent: there is none.
    """
    if chosen := os.environ.get("DUOTAIL_PEER_PYTHON"):
        return Path(chosen)
    if all(find_spec(name) for name in binding.packages):
        return Path(sys.executable)
    beside = Path(sys.prefix).with_name(ENVIRONMENT)
    for python in (beside / "bin" / "python", beside / "Scripts" / "python.exe"):
        if python.exists():
            return python
    raise Absent(
        tr("llama.cpp is not installed here, so there is nothing to compare with."),
        tr("Run `make bench-peer`, which builds it once, or leave out --peer."),
    )


class PeerProcess:
    """A child that talks to llama.cpp.

    It is stopped except while it is `awake`, so that its threads, which spin for a while after each
    forward, take nothing from ours.

    Args:
        interpreter: the Python that it runs in.
        binding: by which it knows llama.cpp.

    Raises:
        Absent: this Python has no llama.cpp that starts.
    """

    def __init__(self, interpreter: Path, binding: Binding = PLAIN) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        try:
            self._child = subprocess.Popen(  # noqa: S603  # our own file, a Python of the user's
                [str(interpreter), "-P", str(_SERVE), str(_SERVE.with_name(binding.child))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                # numpy's threads would spin as well, and are not needed.
                env={**os.environ, **_SETTINGS},
            )
        except OSError as error:
            self._said.close()
            raise _no_peer(interpreter, str(error)) from error
        self._process = psutil.Process(self._child.pid)
        try:
            self._answer()
        except UserFixable as error:
            self.close()
            raise _no_peer(interpreter, error.details) from error

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let the child run; afterwards it is stopped."""
        self._process.resume()
        try:
            yield
        finally:
            if self._child.poll() is None:
                self._process.suspend()

    def ask(self, action: str, **arguments: object) -> dict[str, Any]:
        """One request and its answer; the child must be awake.

        Raises:
            UserFixable: llama.cpp refuses or has crashed.
        """
        self._send(action, arguments)
        return self._answer()

    def write(self, path: Path, export: Export) -> None:
        """Have the child write a GGUF file; tensors are handed over one at a time.

        Raises:
            UserFixable: as `ask`.
        """
        tensors = [(t.name, t.shape, t.kind, t.nbytes) for t in export.tensors]
        self._send(
            "write",
            {
                "path": str(path),
                "architecture": export.architecture,
                "metadata": export.metadata,
                "tensors": tensors,
            },
        )
        for tensor in export.tensors:
            for piece in tensor.read():
                self._feed(piece.data)
        self._answer()

    def _send(self, action: str, arguments: dict[str, object]) -> None:
        self._feed(json.dumps({"do": action, **arguments}).encode() + b"\n")

    def _feed(self, data: bytes | memoryview) -> None:
        assert self._child.stdin is not None  # noqa: S101  # it was asked for
        try:
            self._child.stdin.write(data)
            self._child.stdin.flush()
        except OSError as error:
            raise self._failed(tr("llama.cpp stopped while it was measured.")) from error

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None  # noqa: S101
        line = self._child.stdout.readline()
        if not line:
            raise self._failed(tr("llama.cpp stopped while it was measured."))
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise self._failed(tr("llama.cpp cannot be measured."), answer["error"])
        return answer

    def _failed(self, cause: str, details: str = "") -> UserFixable:
        if not details:
            code = self._child.wait()
            self._said.seek(0)
            last = self._said.read().decode("utf-8", "replace")[-2000:]
            details = f"exit code {code}\n{last}"
        return UserFixable(cause, tr(_ANEW).format(folder=ENVIRONMENT), details)

    def close(self) -> None:
        """End the child."""
        self._child.kill()
        self._child.communicate()
        self._said.close()


def _no_peer(interpreter: Path, details: str) -> Absent:
    return Absent(
        tr("{interpreter} has no llama.cpp that starts.").format(interpreter=interpreter),
        tr(_ANEW).format(folder=ENVIRONMENT),
        details,
    )
