"""Build an AppImage of the folder that packaging/portable.py made.

    .venv/bin/python packaging/appimage.py FOLDER --runtime FILE [--to FILE.AppImage]

The runtime is the small program that mounts the rest of the file and starts it; the AppImage
project publishes it for each kind of machine as `runtime-x86_64`, and its sources build it, too.
`mksquashfs` (Debian: squashfs-tools) packs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import desktop_files

_MAGIC = b"AI\x02"
"""At byte 8 of an AppImage of type 2, where ELF has nothing to say."""


def build(folder: Path, runtime: Path, file: Path) -> None:
    """Build the file."""
    with tempfile.TemporaryDirectory(dir=file.parent) as made:
        tree, packed = Path(made, "tree"), Path(made, "packed")
        shutil.copytree(folder, tree / "usr/lib/duotail", symlinks=True)
        desktop_files.write(tree / "usr/share")
        (tree / "AppRun").symlink_to("usr/lib/duotail/duotail")
        (tree / "duotail.desktop").symlink_to("usr/share/applications/duotail.desktop")
        for name in ("duotail.svg", ".DirIcon"):
            (tree / name).symlink_to("usr/share/icons/hicolor/scalable/apps/duotail.svg")
        options = ["-root-owned", "-noappend", "-no-progress", "-quiet", "-comp", "zstd"]
        subprocess.run(["mksquashfs", str(tree), str(packed), *options], check=True)
        head = bytearray(runtime.read_bytes())
        head[8:11] = _MAGIC
        file.write_bytes(bytes(head) + packed.read_bytes())
    file.chmod(0o755)


def main() -> int:
    """Build the file; 0 when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    name = f"duotail-{desktop_files.version()}-x86_64.AppImage"
    file = options.to or desktop_files.ROOT / "dist" / name
    build(options.folder, options.runtime, file)
    sys.stdout.write(f"{file}, {file.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
