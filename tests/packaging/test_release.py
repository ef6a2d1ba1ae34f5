"""What a release consists of: notes, sums, and the Debian package in a root of its own."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import bundle
import deb
import desktop_files
import portable
import pytest
import release

import app.launch
from engine.updates import fetch, newer
from tests.folder_models import FOLDER_TARGET as SMALL
from tests.releases import serving

ROOT = Path(__file__).parents[2]
LIBRARY = "usr/lib/duotail"


def test_the_changelogs_top_becomes_the_notes() -> None:
    told = release.notes(
        "# Changelog\n\n## [2.0] - day\n\n### Added\n\n- new\n\n## [1.0]\n\n- old\n"
    )
    assert told == "### Added\n\n- new\n"
    assert release.notes((ROOT / "CHANGELOG.md").read_text("utf-8")).count("\n## [") == 0


def test_the_window_understands_the_list_of_versions(tmp_path: Path) -> None:
    """It is the newest one of its own list, and sees another as newer, with sum and address."""
    file = tmp_path / "duotail-2.0-x86_64.AppImage"
    file.write_bytes(b"new")
    with serving() as server:
        told = release.listed([file], "2.0", "# Changelog\n\n## [Unreleased]\n\n- new\n")
        server.pages = {"/list.json": told.encode(), f"/{file.name}": b"new"}
        assert newer(server.address, "2.0") is None
        found = newer(server.address, "1.0")
        assert found is not None
        assert found.changes.startswith("## [2.0] - ")
        image = found.file(".AppImage")
        assert image is not None
        got = fetch(image, tmp_path / "got", lambda _bytes: None, lambda: False)
    assert got.read_bytes() == b"new"


@pytest.mark.skipif(shutil.which("flatpak-builder") is None, reason="needs flatpak-builder")
def test_the_manifest_for_flatpak_is_valid(tmp_path: Path) -> None:
    archive = tmp_path / "duotail-2.0-linux-x86_64.tar.xz"
    archive.write_bytes(b"packed")
    manifest = release.flatpak(archive, tmp_path, "2.0")
    command = ["flatpak-builder", "--show-manifest", str(manifest)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert archive.name in told.stdout
    assert "@" not in told.stdout


def test_the_bundle_for_macs_is_told_of_its_files(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "packaging" / "macos"))
    import app_bundle

    resources = app_bundle.skeleton(tmp_path / "Duotail.app", "2.0")
    assert (resources / "LICENSE").is_file()
    told = plistlib.loads((tmp_path / "Duotail.app/Contents/Info.plist").read_bytes())
    assert told["CFBundleDocumentTypes"][0]["CFBundleTypeExtensions"] == ["gguf"]
    assert os.access(tmp_path / "Duotail.app/Contents/MacOS" / told["CFBundleExecutable"], os.X_OK)


def test_sums_are_those_of_the_system(tmp_path: Path) -> None:
    files = [tmp_path / "b", tmp_path / "a"]
    for file in files:
        file.write_text(file.name)
    (tmp_path / "SHA256SUMS").write_text(release.sums(files))
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, check=True)
    files[0].write_text("other")
    assert release.sums(files) != (tmp_path / "SHA256SUMS").read_text()


def test_the_launcher_needs_nothing_of_its_surroundings(tmp_path: Path) -> None:
    """From anywhere and through a link, with a Python in the environment that would mislead it."""
    folder = tmp_path / "with blanks"
    for place in ("bin", "lib"):
        (folder / place).mkdir(parents=True)
    (folder / "lib" / "python311.zip").touch()
    python = folder / "bin" / "python3"
    python.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    python.chmod(0o755)
    (folder / "duotail").write_text(portable._LAUNCHER)
    (folder / "duotail").chmod(0o755)
    (tmp_path / "link").symlink_to(folder / "duotail")
    told = subprocess.run(
        [tmp_path / "link", "chat", "--prompt", "a b"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    ).stdout.split("|")
    assert told[:2] == ["-I", "-B"]
    assert told[-4:-1] == ["chat", "--prompt", "a b"]


@pytest.mark.parametrize("missing", ["bin/python3", "lib/python311.zip"])
def test_a_folder_that_was_unpacked_in_part_says_so(tmp_path: Path, missing: str) -> None:
    for name in ("bin/python3", "lib/python311.zip"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / missing).unlink()
    (tmp_path / "duotail").write_text(portable._LAUNCHER)
    command = ["sh", tmp_path / "duotail"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 1
    assert told.stderr.startswith("Duotail is not installed completely: ")
    assert missing[:11] in told.stderr
    assert "conversations and settings stay" in told.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Stands for the portable folder, which takes minutes and a network."""
    made = tmp_path / "portable"
    made.mkdir()
    (made / "duotail").write_text("#!/bin/sh\necho started\n")
    (made / "duotail").chmod(0o755)
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, made)
    return made


def dpkg(root: Path, *arguments: str | Path) -> str:
    """Run dpkg on a root of its own; return what it says."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    command = ["dpkg", f"--root={root}", "--force-depends", "--force-not-root", "--no-triggers"]
    told = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty system with dpkg's lists."""
    root = tmp_path / "root"
    for place in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log", "usr", "home/ann"):
        (root / place).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    return root


@pytest.mark.release(reason="packs and installs a package several times")
@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs Debian's tools")
def test_the_package_comes_and_goes(
    folder: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Install, start, upgrade, downgrade, remove, purge; what the user has written stays."""
    file = tmp_path / "duotail.deb"
    kept = root / "home/ann/history.sqlite"
    kept.write_text("mine")
    deb.build(folder, file)
    dpkg(root, "-i", file)
    assert subprocess.check_output([root / "usr/bin/duotail"], text=True) == "started\n"
    share = root / "usr/share"
    for name in (
        "applications/duotail.desktop",
        "mime/packages/duotail.xml",
        "icons/hicolor/scalable/apps/duotail.svg",
        "doc/duotail/copyright",
        "man/man1/duotail.1.gz",
        "metainfo/org.pypi.duotail.metainfo.xml",
    ):
        assert (share / name).is_file(), name
    assert f"Version: {deb.version()}" in dpkg(root, "-s", "duotail")

    (folder / "new").write_text("new")
    monkeypatch.setattr(deb, "version", lambda: "999.0")
    deb.build(folder, file)
    dpkg(root, "-i", file)
    assert (root / LIBRARY / "new").exists()
    assert "Version: 999.0" in dpkg(root, "-s", "duotail")

    monkeypatch.undo()
    (folder / "new").unlink()
    deb.build(folder, file)
    dpkg(root, "-i", file)
    assert not (root / LIBRARY / "new").exists()
    assert f"Version: {deb.version()}" in dpkg(root, "-s", "duotail")

    dpkg(root, "-r", "duotail")
    dpkg(root, "-P", "duotail")
    assert not (root / LIBRARY).exists()
    assert not (root / "usr/bin/duotail").exists()
    assert kept.read_text() == "mine"


@pytest.mark.release(reason="builds the portable folder and a package, two minutes")
@pytest.mark.skipif(shutil.which("lintian") is None, reason="needs lintian")
def test_the_package_is_clean_and_its_program_starts(
    portable_folder: tuple[Path, dict[str, int]], root: Path, tmp_path: Path
) -> None:
    """Of the real folder; lintian finds nothing, and the window answers out of the root."""
    file = tmp_path / f"duotail_{deb.version()}_amd64.deb"
    deb.build(portable_folder[0], file)
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", str(file)]
    told = subprocess.run(command, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, ""), told.stderr
    dpkg(root, "-i", file)
    environment = {"PATH": os.environ["PATH"], "HOME": str(root / "home/ann")}
    program = [str(root / "usr/bin/duotail"), "--version"]
    assert subprocess.check_output(program, env=environment, text=True).startswith("duotail ")
    assert bundle.answer(root / LIBRARY, SMALL, root / "home/ann")["text"]
    dpkg(root, "-P", "duotail")
    assert not (root / LIBRARY).exists()
    assert list((root / "home/ann").rglob("history.sqlite3"))


def test_the_manual_page_tells_of_every_command_and_option() -> None:
    told = (ROOT / "packaging/linux/duotail.1").read_text().replace("\\", "")
    for name in (*app.launch.COMMANDS, *app.launch.make_parser()._option_string_actions):
        assert name in told or name == "-h", name


@pytest.mark.skipif(shutil.which("appstreamcli") is None, reason="needs the validator")
def test_the_store_page_is_valid(tmp_path: Path) -> None:
    desktop_files.write(tmp_path)
    page = tmp_path / "metainfo" / f"{desktop_files.ID}.metainfo.xml"
    subprocess.run(["appstreamcli", "validate", "--no-net", str(page)], check=True)


@pytest.mark.skipif(shutil.which("desktop-file-validate") is None, reason="needs the validator")
def test_the_desktop_entry_is_valid() -> None:
    entry = ROOT / "packaging" / "linux" / "duotail.desktop"
    subprocess.run(["desktop-file-validate", str(entry)], check=True)
