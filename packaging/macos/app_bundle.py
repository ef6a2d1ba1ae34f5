"""Build Duotail.app on a Mac: untested, a recipe for whoever has one (a CI's macOS runner).

    python3 packaging/macos/app_bundle.py WHEEL [--to Duotail.app]

WHEEL comes of `cibuildwheel --platform macos`, whose options pyproject.toml has. uv (in the path)
brings Python and the packages of packaging/duotail.lock into the bundle. It is signed for this Mac
alone; a publisher signs with `codesign -s IDENTITY --deep --options runtime` and notarizes.
"""

from __future__ import annotations

import argparse
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

import desktop_files  # noqa: E402

_LAUNCHER = """#!/bin/sh
here=$(cd "$(dirname "$0")/../Resources" && pwd)
exec "$here/env/bin/python3" -I -B -m app "$@"
"""


def properties(version: str) -> bytes:
    """Info.plist: name, version, icon, and GGUF as a type that it opens."""
    model = {
        "CFBundleTypeName": "GGUF language model",
        "CFBundleTypeExtensions": ["gguf"],
        "CFBundleTypeRole": "Viewer",
        "LSHandlerRank": "Alternate",
    }
    return plistlib.dumps(
        {
            "CFBundleName": "Duotail",
            "CFBundleIdentifier": desktop_files.ID,
            "CFBundleExecutable": "duotail",
            "CFBundleIconFile": "duotail",
            "CFBundlePackageType": "APPL",
            "CFBundleShortVersionString": version,
            "CFBundleVersion": version,
            "CFBundleDocumentTypes": [model],
            "LSMinimumSystemVersion": "13.0",
            "NSHighResolutionCapable": True,
        }
    )


def skeleton(bundle: Path, version: str) -> Path:
    """Write everything but Python and packages; return the folder of resources."""
    shutil.rmtree(bundle, ignore_errors=True)
    programs, resources = bundle / "Contents/MacOS", bundle / "Contents/Resources"
    for folder in (programs, resources):
        folder.mkdir(parents=True)
    (bundle / "Contents/Info.plist").write_bytes(properties(version))
    (programs / "duotail").write_text(_LAUNCHER)
    (programs / "duotail").chmod(0o755)
    (resources / "duotail.svg").write_text(desktop_files.drawing(), "utf-8")
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, resources)
    return resources


def main() -> int:
    """Build the bundle; 0 when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--to", type=Path, default=ROOT / "dist/Duotail.app")
    options = parser.parse_args()
    resources = skeleton(options.to, desktop_files.version())
    drawn, icons = resources / "duotail.svg", resources / "duotail.icns"
    python, lock = resources / "env/bin/python3", ROOT / "packaging/duotail.lock"
    into = ["uv", "pip", "install", "--python", str(python), "--link-mode", "copy"]
    managed = ["--managed-python", "--python", "3.13", "--relocatable"]
    for command in (
        ["uv", "python", "install", "--install-dir", str(resources / "python"), "3.13"],
        ["uv", "venv", *managed, str(resources / "env")],
        [*into, "--require-hashes", "-r", str(lock)],
        [*into, "--no-deps", str(options.wheel)],
        ["sips", "-s", "format", "icns", str(drawn), "--out", str(icons)],
        ["codesign", "--force", "--deep", "--sign", "-", str(options.to)],
    ):
        sys.stdout.write(" ".join(command) + "\n")
        subprocess.run(command, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
