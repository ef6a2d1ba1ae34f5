"""A small project that the real set-up sets up, and a package index of its own that can fail."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PACKAGING = Path(__file__).parents[2] / "packaging"
SCRIPTS = (
    *("bootstrap", "library_build", "native_library", "packages", "prebuilt", "qt_libraries"),
    *("system_packages", "told"),
)
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "duotail"
version = "0.1"
"""
BACKEND = """
import sys
sys.path.insert(0, "packaging")
from small_wheels import write_wheel
from pathlib import Path

def build_editable(folder, config_settings=None, metadata_directory=None):
    files = {"duotail.pth": str(Path.cwd()) + "\\n"}
    return write_wheel(Path(folder), "duotail", files, ["one", "two", "PySide6"], scripts=True).name
"""
STUBS = {
    "engine/__init__.py": "",
    "engine/backend/__init__.py": "",
    "engine/backend/native/__init__.py": "",
    "engine/backend/native/library.py": (
        "import ctypes, pathlib\n"
        "def library():\n"
        "    folder = pathlib.Path(__file__).parents[2]\n"
        "    return [ctypes.CDLL(str(file)) for file in folder.glob('_native*')]\n"
    ),
    "app/__init__.py": "",
    "app/application.py": "import one, two\n",
    "app/performance/__init__.py": "",
    "app/performance/panel.py": "",
    "engine/service/__init__.py": "",
    "engine/service/engine.py": "",
    "packaging/starter.py": "print('no starter model in a small project')\n",
    "packaging/constraints.txt": "one==1.0\ntwo==1.0\n",
    "backend.py": BACKEND,
    "pyproject.toml": PROJECT,
}
QT = {
    "PySide6/__init__.py": "",
    "PySide6/QtWidgets.py": "class QApplication:\n    def __init__(self, _): pass\n",
}
FILLING = "# " + "x" * 200_000 + "\n"
"""So much that half of a package is more than a header."""


def write_wheel(
    folder: Path,
    name: str,
    files: dict[str, str],
    needs: list[str] | tuple[str, ...] = (),
    *,
    scripts: bool = False,
) -> Path:
    """A wheel of these files, version 1.0."""
    about = f"{name}-1.0.dist-info"
    told = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    told += "".join(f"Requires-Dist: {need}\n" for need in needs)
    content = {
        **files,
        f"{about}/METADATA": told,
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if scripts:
        content[f"{about}/entry_points.txt"] = f"[console_scripts]\n{name} = app.application:main\n"
    lines = []
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{path},sha256={digest.decode()},{len(text.encode())}\n")
    content[f"{about}/RECORD"] = "".join(lines) + f"{about}/RECORD,,\n"
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return wheel


def write_project(folder: Path) -> Path:
    """The project, with the real set-up and a library of three small C files."""
    native = folder / "engine" / "native"
    native.mkdir(parents=True)
    for name, text in STUBS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in SCRIPTS:
        shutil.copy(PACKAGING / f"{name}.py", folder / "packaging")
    shutil.copy(__file__, folder / "packaging" / "small_wheels.py")
    for file in (PACKAGING.parent / "engine" / "native").iterdir():
        if file.suffix == ".h" or file.name in ("processor.c", "module.c"):
            shutil.copy(file, native)
    has = "int32_t dt_has_isa(int32_t isa) { return (dt_processor_isas() & DT_BUILD) >> isa & 1; }"
    (native / "isa.c").write_text(f'#include "internal.h"\n{has}\n')
    return folder


class Index:
    """A package index on this machine: what was fetched from it, and what goes wrong.

    Attributes:
        fetched: how often each wheel was sent whole.
        broken: a wheel of which only half is sent.
        held: a wheel that waits for `go_on`.
    """

    def __init__(self, folder: Path) -> None:
        self.fetched: Counter[str] = Counter()
        self.broken = self.held = ""
        self.asked, self.go_on = threading.Event(), threading.Event()
        contents = {"one": {"one.py": FILLING}, "two": {"two.py": FILLING}, "PySide6": QT}
        self.wheels = {
            name.lower(): write_wheel(folder, name, files) for name, files in contents.items()
        }


@contextmanager
def served(index: Index) -> Iterator[str]:
    """The address of an index."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/").split("/")[-1]
            wheel = index.wheels.get(name)
            if wheel is not None:
                link = f'<a href="/files/{wheel.name}">{wheel.name}</a>'.encode()
                self._send(link, "text/html", "no-store")
                return
            found = next((each for each in index.wheels.values() if each.name == name), None)
            if found is None:
                self.send_error(404)
                return
            self._send_wheel(found)

        def _send_wheel(self, wheel: Path) -> None:
            package = wheel.name.split("-")[0]
            if package == index.held:
                index.asked.set()
                index.go_on.wait(300)
            content = wheel.read_bytes()
            if package == index.broken:
                self._send(content, "application/zip", "max-age=1000", half=True)
                return
            self._send(content, "application/zip", "max-age=1000")
            index.fetched[package] += 1

        def _send(self, content: bytes, kind: str, keep: str, *, half: bool = False) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", keep)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if half else content)
            self.close_connection = half

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        index.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def start(project: Path, url: str, **variables: str) -> subprocess.Popen[str]:
    """The set-up of a project, with nothing but this index."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "CC"))}
    environment |= {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": url,
        "PIP_TRUSTED_HOST": url.split("/")[2],  # else pip keeps nothing that came without TLS
        "PIP_RETRIES": "1",
        "HOME": str(project.parent),
        "XDG_CACHE_HOME": str(project.parent / "cache"),
        **variables,
    }
    environment.pop("DUOTAIL_LIBRARY", None)
    return subprocess.Popen(
        [sys.executable, str(project / "packaging" / "bootstrap.py")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
