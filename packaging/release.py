"""Build and check everything that a release consists of, into `dist/`.

    .venv/bin/python packaging/release.py

Wheels and the source, checked as the index does; the lock file with hashes; on Linux the portable
folder as a tar, the Debian package, the AppImage, the set-up program for Windows and the manifest
for Flatpak; a list of what is in it (CycloneDX); the notes, which are the changelog's top; SHA-256
sums of all, and the list of versions that the window asks for, both for a site that has all files
in one folder. The tools go into `.venv-release`, once. The version is pyproject.toml's. Nothing is
published.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import appimage
import deb
import desktop_files
import nsis
import portable
from told import SetupProblem, say

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VENV = ROOT / ".venv-release"
_TOP = re.compile(r"^## \[.*?\n(.*?)(?=^## \[|\Z)", re.DOTALL | re.MULTILINE)


def notes(changelog: str) -> str:
    """What the newest section of a changelog says."""
    found = _TOP.search(changelog)
    if found is None:
        raise SetupProblem("CHANGELOG.md has no section")
    return found[1].strip() + "\n"


def sums(files: list[Path]) -> str:
    """SHA-256 sums of files, as `sha256sum --check` reads them."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    return "\n".join(sorted(lines, key=lambda line: line[66:])) + "\n"


def listed(files: list[Path], version: str, changelog: str) -> str:
    """The list of versions, as the Package Index tells of a project; `engine.updates` reads it."""
    today = time.strftime("%Y-%m-%d", time.gmtime(desktop_files.built_at()))
    described = changelog.replace("## [Unreleased]", f"## [{version}] - {today}", 1)
    urls = [
        {
            "filename": file.name,
            "url": file.name,
            "size": file.stat().st_size,
            "digests": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()},
        }
        for file in files
    ]
    info = {"name": "duotail", "version": version, "description": described}
    return json.dumps({"info": info, "urls": urls}, indent=1) + "\n"


def _tools() -> None:
    """Make `.venv-release` with what pyproject.toml's extra `release` names."""
    if not (VENV / "bin/twine").exists():
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        _run([sys.executable, "-m", "venv", "--clear", str(VENV)])
        wanted = project["optional-dependencies"]["release"]
        _run([str(VENV / "bin/python"), "-m", "pip", "install", "-q", *wanted])


def _run(command: list[str]) -> None:
    say(" ".join(command).replace(str(ROOT) + "/", ""))
    path = os.pathsep.join([str(VENV / "bin"), os.environ["PATH"]])
    if subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}).returncode:
        raise SetupProblem(f"This command failed: {' '.join(command)}")


def release() -> None:
    """Build and check.

    Raises:
        SetupProblem: a step failed; the lines above say why.
    """
    _tools()
    python, version = str(VENV / "bin/python"), desktop_files.version()
    _run([sys.executable, "packaging/wheels.py"])
    _run([python, "-m", "build", "--sdist", "-o", str(DIST), "."])
    packed = [*DIST.glob(f"duotail-{version}-*.whl"), DIST / f"duotail-{version}.tar.gz"]
    _run([python, "-m", "twine", "check", "--strict", *map(str, packed)])
    files = [*packed, _lock(version), *_for_linux(python, version)]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    (DIST / "NOTES.md").write_text(notes(changelog), "utf-8")
    (DIST / "releases.json").write_text(listed(files, version, changelog), "utf-8")
    files += [DIST / "NOTES.md", DIST / "releases.json"]
    (DIST / "SHA256SUMS").write_text(sums(files))
    for file in files:
        sys.stdout.write(f"{file.stat().st_size / 1e6:8.1f} MB  {file.name}\n")
    say((DIST / "SHA256SUMS").read_text().rstrip())


def _lock(version: str) -> Path:
    """Bring the lock file up to date; whoever releases commits what changed. Its copy in `dist`."""
    lock = ROOT / "packaging" / "duotail.lock"
    compiling = ["-c", "packaging/constraints.txt", "pyproject.toml", "-q", "--no-header"]
    compiling += ["--universal", "--generate-hashes", "-o", str(lock.relative_to(ROOT))]
    _run([str(VENV / "bin/uv"), "pip", "compile", *compiling])
    return Path(shutil.copy(lock, DIST / f"duotail-{version}.lock"))


def _for_linux(python: str, version: str) -> list[Path]:
    """Everything that holds the portable folder, what is in it, and the set-up for Windows."""
    if sys.platform != "linux":
        return []
    folder = DIST / f"duotail-{version}-linux-x86_64"
    _run([python, "packaging/portable.py", "--to", str(folder), "--no-tar"])
    package = DIST / f"duotail_{version}_amd64.deb"
    deb.build(folder, package)
    told = DIST / f"duotail-{version}.cdx.json"
    listing = ["environment", "--pyproject", "pyproject.toml", "--output-reproducible"]
    _run([str(VENV / "bin/cyclonedx-py"), *listing, "-o", str(told), str(folder / "bin/python3")])
    image = DIST / f"duotail-{version}-x86_64.AppImage"
    windows = DIST / f"duotail-{version}-setup.exe"
    with tempfile.TemporaryDirectory() as made:
        say("AppImage")
        appimage.build(folder, appimage.runtime(Path(made)), image)
        say("set-up program for Windows")
        wheel = DIST / f"duotail-{version}-cp311-abi3-win_amd64.whl"
        nsis.build(wheel, nsis.uv(Path(made)), windows)
    say("archive")
    archive = portable.pack(folder)
    return [archive, package, told, image, windows, flatpak(archive, DIST, version)]


def flatpak(archive: Path, folder: Path, version: str) -> Path:
    """Write the manifest for flatpak-builder, beside the archive that it names."""
    text = (ROOT / "packaging/linux/flatpak.yaml").read_text("utf-8")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    manifest = folder / f"{desktop_files.ID}.yaml"
    manifest.write_text(text.replace("@VERSION@", version).replace("@SHA256@", digest), "utf-8")
    return manifest


def main() -> int:
    """Run all steps; 0 when all is built and checked."""
    try:
        release()
    except SetupProblem as problem:
        sys.stderr.write(f"\n{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
