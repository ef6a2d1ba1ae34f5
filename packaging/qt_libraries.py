"""Which system libraries Qt still needs on this Linux machine, and the packages that hold them.

Plain standard library, old Python included: it runs before anything is installed.
"""

import os
import subprocess
from pathlib import Path

# Shared library -> Debian/Ubuntu package. What is not listed comes along as a dependency.
DEBIAN_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libglx0",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-glx.so.0": "libxcb-glx0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}

_MODULES = ("QtGui.abi3.so", "QtWidgets.abi3.so")
_PLUGINS = "Qt/plugins/platforms/libq{}.so"
_GL_FOR_X11 = "Qt/plugins/xcbglintegrations/libqxcb-glx-integration.so"


def missing(pyside: Path, platform: str) -> "list[str]":
    """Names of the shared libraries that Qt's `platform` plugin asks for and this machine lacks."""
    files = [*_MODULES, _PLUGINS.format(platform)]
    if platform == "xcb":
        files.append(_GL_FOR_X11)
    found = set()  # type: set[str]
    for file in files:
        found.update(not_found(_ldd(pyside / file)))
    return sorted(found)


def not_found(ldd_output: str) -> "list[str]":
    """Names that `ldd` reports as not found."""
    lines = (line.split("=>") for line in ldd_output.splitlines())
    return [parts[0].strip() for parts in lines if len(parts) == 2 and "not found" in parts[1]]


def platforms_for_screen(environ: "dict[str, str]") -> "list[str]":
    """Qt platform plugins that could open a window here, best first; none without a screen."""
    forced = environ.get("QT_QPA_PLATFORM", "")
    if forced:
        return [choice.split(":")[0] for choice in forced.split(";")]
    screens = (("WAYLAND_DISPLAY", "wayland"), ("DISPLAY", "xcb"))
    return [platform for variable, platform in screens if environ.get(variable)]


def debian_packages(libraries: "list[str]") -> "list[str]":
    """Packages that hold `libraries`, without those that no package is known for."""
    return sorted({DEBIAN_PACKAGES[name] for name in libraries if name in DEBIAN_PACKAGES})


def _ldd(file: Path) -> str:
    if not file.exists():
        return ""
    command = ["ldd", str(file)]
    environment = dict(os.environ, LC_ALL="C")
    try:
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # no ldd: the real import says what is wrong
    return result.stdout.decode(errors="replace")
