"""Build and check everything that a release consists of, into `dist/`.

    .venv/bin/python packaging/release.py

Wheels and the source, checked as the index does; a lock file with hashes; on Linux the portable
folder as a tar, and the Debian package; a list of what is in it (CycloneDX); the notes, which are
the changelog's top, and SHA-256 sums of all. The tools go into `.venv-release`, once. The version
is pyproject.toml's. Nothing is published.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import deb
import desktop_files
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
    lock = DIST / f"duotail-{version}.lock"
    compiling = ["-c", "packaging/constraints.txt", "pyproject.toml", "-q", "-o", str(lock)]
    _run([str(VENV / "bin/uv"), "pip", "compile", "--universal", "--generate-hashes", *compiling])
    files = [*packed, lock, *_for_linux(python, version)]
    (DIST / "NOTES.md").write_text(notes((ROOT / "CHANGELOG.md").read_text("utf-8")), "utf-8")
    (DIST / "SHA256SUMS").write_text(sums([*files, DIST / "NOTES.md"]))
    for file in files:
        sys.stdout.write(f"{file.stat().st_size / 1e6:8.1f} MB  {file.name}\n")


def _for_linux(python: str, version: str) -> list[Path]:
    """The portable folder's tar, the Debian package, and what is in both."""
    if sys.platform != "linux":
        return []
    folder = DIST / f"duotail-{version}-linux-x86_64"
    _run([python, "packaging/portable.py", "--to", str(folder), "--no-tar"])
    package = DIST / f"duotail_{version}_amd64.deb"
    deb.build(folder, package)
    told = DIST / f"duotail-{version}.cdx.json"
    listing = ["environment", "--pyproject", "pyproject.toml", "--output-reproducible"]
    _run([str(VENV / "bin/cyclonedx-py"), *listing, "-o", str(told), str(folder / "bin/python3")])
    return [portable.pack(folder), package, told]


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
