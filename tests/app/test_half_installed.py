"""Installations that lack something, or that share their data with another version."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

START = """
import sys
sys.modules[sys.argv[2]] = None  # as if the file were not there
from app.launch import main
sys.exit(main(["--data-dir", sys.argv[1]]))
"""
OPEN_AND_CLOSE = """
import sys
from pathlib import Path
from app.application import run
from app.data_folder.paths import find_paths
from app.notices import board
board().posted.connect(lambda notice: print(notice.text, notice.remedy, flush=True))
def painted(house):
    house.settings.change(font_scale=1.2)
    house.window.close()
sys.exit(run(find_paths(sys.argv[1]), painted=painted))
"""


def start(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("missing", ["PySide6.QtSvg", "tomli_w"])
def test_a_missing_file_is_told_and_nothing_is_touched(tmp_path: Path, missing: str) -> None:
    """Qt's modules and the packages: no traceback, and no new file among the user's."""
    told = start(START, str(tmp_path / "data"), missing)
    assert told.returncode == 1
    assert told.stderr.startswith("Duotail is not installed completely: ")
    assert missing in told.stderr
    assert "conversations and settings stay" in told.stderr
    assert "Traceback" not in told.stderr
    assert not (tmp_path / "data").exists()


def test_data_of_a_newer_version_is_kept_as_it_is(tmp_path: Path) -> None:
    """After a downgrade, or beside a newer version: words, and both files keep what is in them."""
    history, settings = tmp_path / "history.sqlite3", tmp_path / "settings.toml"
    with sqlite3.connect(history) as made:
        made.execute("CREATE TABLE thought (words TEXT)")
        made.execute("INSERT INTO thought VALUES ('mine')")
        made.execute("PRAGMA user_version = 999")
    made.close()
    before = history.read_bytes()
    settings.write_text('version = 99\ntelepathy = true\ntheme = "dark"\n')
    told = start(OPEN_AND_CLOSE, str(tmp_path))
    assert told.returncode == 0, told.stderr
    assert "saved by a newer version of Duotail" in told.stdout
    assert history.read_bytes() == before
    kept = tomllib.loads(settings.read_text("utf-8"))
    assert (kept["version"], kept["telepathy"], kept["theme"]) == (99, True, "dark")
    assert kept["font_scale"] == 1.2
