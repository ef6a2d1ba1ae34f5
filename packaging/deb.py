"""Build a Debian package around the folder that packaging/portable.py made.

    .venv/bin/python packaging/deb.py FOLDER [--to FILE.deb]

It installs into /usr/lib/duotail, with `duotail` on the path, an entry among the applications, and
GGUF files opened by it. Nothing runs at installation or removal: the system's own triggers learn of
entry and types. What users have written lies in their homes and stays, even after a purge. Who
publishes it is named by DEBFULLNAME and DEBEMAIL, as for Debian's own tools.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from email.utils import formatdate
from pathlib import Path

import desktop_files
import qt_libraries
from desktop_files import version
from trimmed import nbytes

ROOT = Path(__file__).parents[1]
_HERE = "usr/lib/duotail"
_CONTROL = """\
Package: duotail
Version: {version}
Architecture: amd64
Maintainer: {maintainer}
Installed-Size: {kilobytes}
Depends: libc6 (>= {glibc}), libstdc++6, {qt}
Recommends: mesa-vulkan-drivers
Section: utils
Priority: optional
Homepage: https://pypi.org/project/duotail/
Description: {summary}
 Answers come from models on this computer. A small draft drafts the next few
 tokens, and the model verifies them all at once: the text is the model's own,
 and it comes sooner. CPU and GPU share the work.
"""
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Duotail
Source: https://pypi.org/project/duotail/

Files: *
Copyright: 2026 The Duotail authors
License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in the file
 /usr/share/common-licenses/Apache-2.0.

Files: usr/lib/duotail/lib/*
Copyright: 2001-2026 The authors of Python, Qt and the other packages
License: as-said-there
 Each package in lib/python3.*/site-packages has its licence in the folder of its name that
 ends in .dist-info. Those that Duotail has to name are in /usr/lib/duotail/NOTICE.
"""


def build(folder: Path, file: Path) -> None:
    """Build the package."""
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made) / "tree"
        _files(folder, tree)
        _texts(tree)
        control = tree / "DEBIAN"
        control.mkdir()
        (control / "control").write_text(_control(tree))
        for path in (tree, *tree.rglob("*")):
            if not path.is_symlink():
                executable = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if executable else 0o644)
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(tree), str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _files(folder: Path, tree: Path) -> None:
    shutil.copytree(folder, tree / _HERE, symlinks=True)
    shutil.rmtree(tree / _HERE / "share", ignore_errors=True)
    started = (tree / _HERE / "duotail", tree / _HERE / "bin/python3")
    for path in (tree / _HERE).rglob("*"):
        if path.is_file() and not path.is_symlink() and path not in started:
            path.chmod(0o644)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/duotail").symlink_to("../lib/duotail/duotail")
    desktop_files.write(tree / "usr/share")


def _texts(tree: Path) -> None:
    told = tree / "usr/share/doc/duotail"
    told.mkdir(parents=True)
    (told / "copyright").write_text(_COPYRIGHT)
    changes = (
        f"duotail ({version()}) stable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n"
        f" -- {_maintainer()}  {formatdate(desktop_files.built_at())}\n"
    )
    (told / "changelog.gz").write_bytes(gzip.compress(changes.encode(), 9, mtime=0))
    overrides = tree / "usr/share/lintian/overrides/duotail"
    overrides.parent.mkdir(parents=True)
    shutil.copy(ROOT / "packaging/linux/lintian-overrides", overrides)


def _maintainer() -> str:
    name = os.environ.get("DEBFULLNAME", "The Duotail authors")
    return f"{name} <{os.environ.get('DEBEMAIL', 'duotail@localhost.localdomain')}>"


def _control(tree: Path) -> str:
    qt = ", ".join(sorted(set(qt_libraries.DEBIAN_PACKAGES.values())))
    glibc = subprocess.run(["ldd", "--version"], capture_output=True, text=True).stdout
    return _CONTROL.format(
        version=version(),
        maintainer=_maintainer(),
        kilobytes=nbytes(tree) // 1024,
        glibc=glibc.split("\n")[0].split()[-1],
        qt=qt,
        summary="chat with language models on your own PC",
    )


def main() -> int:
    """Build the package; 0 when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    file = options.to or ROOT / "dist" / f"duotail_{version()}_amd64.deb"
    build(options.folder, file)
    sys.stdout.write(f"{file}, {file.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
