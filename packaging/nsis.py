"""Build the set-up program for Windows: uv, the lock file and our wheel (Debian: nsis).

    .venv/bin/python packaging/nsis.py [--wheel FILE] [--uv FILE] [--to FILE.exe]

uv.exe comes out of its wheel in the package index, with the sum below, unless --uv names one. The
set-up program carries no packages: uv fetches them where it runs, each with the hash that
packaging/duotail.lock names.
"""

from __future__ import annotations

import argparse
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import desktop_files
from told import SetupProblem

ROOT = Path(__file__).parents[1]
_UV = "uv==0.13.9 --hash=sha256:6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b\n"
_NUMBERS = re.compile(r"\d+")
_ICON_SIZES = (16, 32, 48, 256)


def uv(folder: Path) -> Path:
    """Fetch uv.exe into a folder.

    Raises:
        SetupProblem: pip cannot.
    """
    wanted = folder / "uv.txt"
    wanted.write_text(_UV)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", "--platform", "win_amd64", "-d", str(folder)]
    if subprocess.run([*command, "-r", str(wanted)]).returncode:
        raise SetupProblem("uv for Windows cannot be fetched.")
    (wheel,) = folder.glob("uv-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (member,) = (name for name in packed.namelist() if name.endswith("/uv.exe"))
        (folder / "uv.exe").write_bytes(packed.read(member))
    return folder / "uv.exe"


def build(wheel: Path, uv_program: Path, file: Path) -> None:
    """Build the set-up program.

    Raises:
        SetupProblem: `makensis` is missing or fails.
    """
    if not shutil.which("makensis"):
        raise SetupProblem("makensis is missing: sudo apt install nsis")
    with tempfile.TemporaryDirectory() as made:
        files = Path(made)
        for source in (wheel, ROOT / "packaging/duotail.lock"):
            shutil.copy(source, files)
        shutil.copy(uv_program, files / "uv.exe")
        (files / "duotail.ico").write_bytes(icon())
        numbers = [*_NUMBERS.findall(desktop_files.version()), "0", "0", "0", "0"][:4]
        told = {
            "VERSION": desktop_files.version(),
            "NUMBERS": ".".join(numbers),
            "FILES": str(files),
            "WHEEL": wheel.name,
            "LICENCE": str(ROOT / "LICENSE"),
            "OUT": str(file.absolute()),
        }
        command = ["makensis", "-V2", "-WX", *(f"-D{name}={value}" for name, value in told.items())]
        script = ROOT / "packaging/windows/duotail.nsi"
        result = subprocess.run([*command, str(script)], capture_output=True, text=True)
        if result.returncode:
            raise SetupProblem(f"makensis failed:\n{result.stdout}{result.stderr}")


def icon() -> bytes:
    """The icon as Windows wants it: PNG pictures of some sizes behind a table."""
    from PySide6.QtCore import QBuffer, QByteArray, QIODevice
    from PySide6.QtGui import QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    drawing = QSvgRenderer(QByteArray(desktop_files.drawing().encode()))
    pictures = []
    for size in _ICON_SIZES:
        image = QImage(size, size, QImage.Format.Format_ARGB32)
        image.fill(0)
        painter = QPainter(image)
        drawing.render(painter)
        painter.end()
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        image.save(buffer, "PNG")  # type: ignore[call-overload]  # the stub has it as bytes
        pictures.append(buffer.data().data())
    table, at = struct.pack("<HHH", 0, 1, len(pictures)), 6 + 16 * len(pictures)
    for size, picture in zip(_ICON_SIZES, pictures, strict=True):
        table += struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(picture), at)
        at += len(picture)
    return table + b"".join(pictures)


def main() -> int:
    """Build the set-up program; 0 when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--uv", type=Path)
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    version, dist = desktop_files.version(), ROOT / "dist"
    wheel = options.wheel or dist / f"duotail-{version}-cp311-abi3-win_amd64.whl"
    file = options.to or dist / f"duotail-{version}-setup.exe"
    try:
        with tempfile.TemporaryDirectory() as made:
            build(wheel, options.uv or uv(Path(made)), file)
    except SetupProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"{file}, {file.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
