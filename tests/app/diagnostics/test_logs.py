"""The log has no say in whether Duotail runs."""

from __future__ import annotations

import errno
import io
import logging
from pathlib import Path

import pytest

from app.diagnostics.logs import QuietFile


class Full(io.StringIO):
    """A file on a drive without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", text)


def test_a_full_drive_is_no_reason_to_complain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = QuietFile(tmp_path / "duotail.log", delay=True)
    handler.stream = Full()  # type: ignore[assignment]
    handler.handle(logging.makeLogRecord({"msg": "no room for this"}))
    handler.close()
    assert capsys.readouterr() == ("", "")
