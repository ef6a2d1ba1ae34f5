"""The portable folder, built of what is installed here: no index is asked."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import native_library
import portable
import PySide6
import pytest
import qt_libraries
import wheels
from packaging.requirements import Requirement

LACKS_LINUX = sys.platform != "linux" or not shutil.which("cc")
QUESTION = "What is the capital of France?"


def build(folder: Path) -> tuple[Path, dict[str, int]]:
    """Build it in this folder; return it, and its sizes by part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wheels, "DIST", folder / "dist")
        patch.setattr(portable, "_installed", _installed)
        library = native_library.ROOT / "engine" / wheels.TARGETS["linux-x86_64"].file
        wheel = wheels.build_wheel(wheels.TARGETS["linux-x86_64"], library, folder / "work")
        sizes = portable.build(wheel, folder / "duotail")
    return folder / "duotail", sizes


def environment(home: Path) -> dict[str, str]:
    """The environment of a user who has nothing yet, with this home."""
    folders = {f"DUOTAIL_{kind}_DIR": str(home / kind) for kind in ("DATA", "CONFIG", "CACHE")}
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **folders}


def answer(folder: Path, model: Path, home: Path) -> dict[str, Any]:
    """Open its window on a screen of its own and ask something; the answer, and what it took."""
    if not shutil.which("xvfb-run") or qt_libraries.missing(Path(PySide6.__file__).parent, "xcb"):
        pytest.skip("needs Xvfb")
    child = Path(__file__).with_name("answering_window.py")
    command = [folder / "bin/python3", "-I", "-B", child, home / "DATA", QUESTION, model]
    told = subprocess.run(
        ["xvfb-run", "-a", *map(str, command)],
        env={**environment(home), "QT_QPA_PLATFORM": "xcb"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout, f"the window did not answer: {told.stderr}"
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    assert found["platform"] == "xcb"
    return found


def _installed(wheel: Path, packages: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*command, "--no-compile", "--target", packages, wheel], check=True)
    (duotail,) = importlib.metadata.distributions(name="duotail", path=[str(packages)])
    done: set[str] = set()
    waiting = [(name, "") for name in duotail.requires or ()]
    while waiting:
        text, extra = waiting.pop()
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            found = importlib.metadata.distribution(wanted.name)
            if found.name not in done:
                done.add(found.name)
                _copy(found, packages)
            waiting += [(each, "") for each in found.requires or () if "extra ==" not in each]
            waiting += [(each, name) for each in found.requires or () for name in wanted.extras]


def _copy(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    for file in distribution.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(file.locate()), target)
