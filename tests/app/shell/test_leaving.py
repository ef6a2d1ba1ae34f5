"""The process ends in good order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

COPIES_AND_LEAVES = """
import sys
from PySide6.QtGui import QGuiApplication
from app.application import Assembly, make_application
from app.chat.text.text_view import TextView
from app.data_folder.paths import find_paths
from app.theme.theme import Theme

application = make_application()
assembly = Assembly(find_paths(sys.argv[1]), Theme(application))
view = TextView("Answer")
view.show_markdown("some *text*")
view.selectAll()
view.copy()
assembly.close()
sys.stdout.write(QGuiApplication.clipboard().text())
"""


def test_leaving_after_text_was_copied_is_no_crash(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", COPIES_AND_LEAVES, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout == "some text"
