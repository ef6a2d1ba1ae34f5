"""`duotail` called in this process, or started as a process of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on standard output; fails when there is anything else."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


class Duotail:
    """Runs `duotail` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capsys, self._patch = capsys, patch

    def __call__(self, *arguments: str | Path, stdin: bytes | None = b"") -> Outcome:
        source = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        self._patch.setattr(sys, "stdin", source)
        self._capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ended:  # argparse: bad usage
            code = -1 if not isinstance(ended.code, int) else ended.code
        captured = self._capsys.readouterr()
        assert "Traceback" not in captured.err
        return Outcome(code, captured.out, captured.err)


def start(*arguments: str | Path, **streams: Any) -> subprocess.Popen[bytes]:
    """`duotail` as a process, as users start it."""
    return subprocess.Popen(
        [sys.executable, "-m", "app", *map(str, arguments)],
        cwd=ROOT,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )
