"""Files that have no reason to be large."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from engine.errors import UserFixable
from engine.model.json_object import JsonObject
from engine.model.small_file import TooLarge, read_at_most, text_at_most


def test_as_many_bytes_as_allowed_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_bytes(b"one\r\ntwo")
    assert read_at_most(file, 8) == b"one\r\ntwo"
    assert text_at_most(file, 8) == "one\ntwo"
    with pytest.raises(TooLarge):
        read_at_most(file, 7)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
def test_a_size_is_a_limit_and_not_a_promise(tmp_path: Path) -> None:
    """A pipe says that it is empty, and never ends."""
    file = tmp_path / "config.json"
    os.mkfifo(file)
    assert file.stat().st_size == 0

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), file.open("wb") as stream:
            while True:
                stream.write(b" " * 4096)

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(UserFixable, match="too large"):
        JsonObject.read(file, max_bytes=1 << 16)
    writer.join()
