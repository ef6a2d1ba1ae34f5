"""Naming the system libraries that Qt lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import PySide6
import pytest
import qt_libraries

LDD = """\
\tlinux-vdso.so.1 (0x00007ffd6a5f2000)
\tlibQt6XcbQpa.so.6 => /x/PySide6/Qt/lib/libQt6XcbQpa.so.6 (0x00007f5c61000000)
\tlibxcb-cursor.so.0 => not found
\tlibEGL.so.1 => not found
\tlibnew.so.9 => not found
\t/lib64/ld-linux-x86-64.so.2 (0x00007f5c61400000)
"""


def test_reads_what_ldd_does_not_find() -> None:
    assert qt_libraries.not_found(LDD) == ["libxcb-cursor.so.0", "libEGL.so.1", "libnew.so.9"]


def test_names_debian_packages_and_leaves_out_what_it_does_not_know() -> None:
    names = ["libxcb-cursor.so.0", "libnew.so.9", "libglib-2.0.so.0", "libgthread-2.0.so.0"]
    assert qt_libraries.debian_packages(names) == ["libglib2.0-0", "libxcb-cursor0"]
    assert qt_libraries.debian_packages(["libnew.so.9"]) == []


@pytest.mark.parametrize(
    ("environ", "platforms"),
    [
        ({}, []),
        ({"DISPLAY": ""}, []),
        ({"DISPLAY": ":0"}, ["xcb"]),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, ["wayland", "xcb"]),
        ({"QT_QPA_PLATFORM": "offscreen", "DISPLAY": ":0"}, ["offscreen"]),
        ({"QT_QPA_PLATFORM": "wayland;xcb:x=1"}, ["wayland", "xcb"]),
    ],
)
def test_finds_the_platforms_that_could_show_a_window(
    environ: dict[str, str], platforms: list[str]
) -> None:
    assert qt_libraries.platforms_for_screen(environ) == platforms


@pytest.mark.skipif(sys.platform != "linux", reason="ldd is Linux's")
def test_the_platform_that_these_tests_run_on_misses_nothing() -> None:
    assert qt_libraries.missing(Path(PySide6.__file__).parent, "offscreen") == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="builds a small library with cc")
@pytest.mark.skipif(sys.platform != "linux", reason="ldd is Linux's")
def test_a_library_that_is_gone_is_named(tmp_path: Path) -> None:
    plugins = tmp_path / "Qt" / "plugins" / "platforms"
    plugins.mkdir(parents=True)
    gone = tmp_path / "libgone.so"
    source = tmp_path / "empty.c"
    source.write_text("int answer(void) { return 42; }\n")
    build = ["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(source)]
    subprocess.run([*build, "-Wl,-soname,libgone.so.1", "-o", str(gone)], check=True)
    subprocess.run([*build, str(gone), "-o", str(plugins / "libqoffscreen.so")], check=True)

    assert qt_libraries.missing(tmp_path, "offscreen") == ["libgone.so.1"]
