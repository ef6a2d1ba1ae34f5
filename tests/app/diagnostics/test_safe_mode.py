"""A crash while loading makes the next start careful, and only that one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Assembly
from app.data_folder.paths import find_paths
from app.engine_link.status import Phase
from app.theme.theme import Theme
from engine.hub.local import default_target

ROOT = Path(__file__).parents[3]
CHILD = Path(__file__).parent / "crash_loading_child.py"


def started(data: Path, theme: Theme, qtbot: QtBot) -> tuple[Assembly, str]:
    """A window with its model loaded, and what its banner says."""
    assembly = Assembly(find_paths(str(data)), theme)
    qtbot.addWidget(assembly.window)
    assembly.start(default_target)
    qtbot.waitUntil(lambda: assembly.bridge.status.phase is Phase.READY, timeout=60_000)
    return assembly, " ".join(assembly.window.banners.texts)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_the_start_after_a_crash_is_careful(
    tmp_path: Path, theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_ISA", "")
    monkeypatch.setenv("DUOTAIL_SAFE_MODE", "")
    subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert find_paths(str(tmp_path)).load_mark.exists()
    careful, said = started(tmp_path, theme, qtbot)
    try:
        assert "safe mode" in said
        assert os.environ["DUOTAIL_ISA"] == "portable"
        assert not find_paths(str(tmp_path)).load_mark.exists()
    finally:
        careful.close()
    monkeypatch.setenv("DUOTAIL_ISA", "")
    normal, said = started(tmp_path, theme, qtbot)
    normal.close()
    assert said == ""
    assert os.environ["DUOTAIL_ISA"] == ""
