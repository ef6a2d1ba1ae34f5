"""The set-up program for Windows, run under Wine with a stand-in for uv, which needs a network."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import nsis
import pytest

ROOT = Path(__file__).parents[2]
GCC = "x86_64-w64-mingw32-gcc"
UV = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
int main(int count, char **words) {
    char path[1024], here[1024];
    GetModuleFileNameA(NULL, here, sizeof here);
    *strrchr(here, '\\') = 0;
    if (count == 1) {
        puts("running");
        fflush(stdout);
        return getchar();
    }
    snprintf(path, sizeof path, "%s\\..\\calls.txt", here);
    FILE *log = fopen(path, "a");
    for (int i = 1; i < count; ++i) fprintf(log, "%s|", words[i]);
    char *wanted[] = {"UV_SYSTEM_CERTS", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR"};
    for (int i = 0; i < 3; ++i) fprintf(log, "%s%s", getenv(wanted[i]), i < 2 ? "|" : "\n");
    fclose(log);
    if (!strcmp(words[1], "venv")) {
        CreateDirectoryA(words[count - 1], NULL);
        snprintf(path, sizeof path, "%s\\made.txt", words[count - 1]);
        fclose(fopen(path, "w"));
        return 0;
    }
    return FAILS;
}
"""


def test_the_icon_has_all_sizes_that_windows_shows() -> None:
    icon = nsis.icon()
    assert struct.unpack_from("<HHH", icon) == (0, 1, 4)
    for index in range(4):
        nbytes, at = struct.unpack_from("<II", icon, 6 + 16 * index + 8)
        assert icon[at : at + 4] == b"\x89PNG"
        assert at + nbytes <= len(icon)


@pytest.fixture
def wine(tmp_path: Path) -> dict[str, str]:
    """The environment of a Windows that knows nothing yet."""
    if not all(map(shutil.which, ("wine", "makensis", GCC))):
        pytest.skip("needs wine, nsis and MinGW")
    return {**os.environ, "WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all", "DISPLAY": ""}


def built(folder: Path, *, fails: int) -> Path:
    source, program, wheel = folder / "uv.c", folder / "uv.exe", folder / "duotail-0-win.whl"
    source.write_text(UV)
    subprocess.run([GCC, f"-DFAILS={fails}", "-o", program, source], check=True)
    wheel.write_bytes(b"a wheel")
    nsis.build(wheel, program, folder / "duotail-setup.exe")
    return folder / "duotail-setup.exe"


def run(
    program: Path | str, wine: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["wine", str(program), *arguments], env=wine, capture_output=True, text=True, timeout=280
    )


def registry(wine: dict[str, str], key: str) -> str:
    return run("reg", wine, "query", f"HKCU\\Software\\{key}", "/s").stdout


@pytest.mark.release(reason="starts Wine a dozen times")
def test_it_installs_opens_models_and_leaves_what_is_the_users(
    tmp_path: Path, wine: dict[str, str]
) -> None:
    setup = built(tmp_path, fails=0)
    assert run(setup, wine, "/S", r"/D=C:\first").returncode == 0
    drive = tmp_path / "wine" / "drive_c"
    home = drive / "first"
    assert (home / "env" / "made.txt").exists()
    assert not (home / "env.new").exists()
    calls = [line.split("|") for line in (home / "calls.txt").read_text().splitlines()]
    assert [call[0] for call in calls] == ["venv", "pip", "pip"]
    assert "--require-hashes" in calls[1]
    assert calls[1][-4].endswith("duotail.lock")
    assert calls[2][-4].endswith("duotail-0-win.whl")
    assert calls[0][-3:] == ["1", r"C:\first\cache", r"C:\first\python"]
    assert (home / "setup" / "duotail.lock").read_bytes() == (
        ROOT / "packaging/duotail.lock"
    ).read_bytes()
    assert '-m app "%1"' in registry(wine, r"Classes\Duotail.gguf")
    assert "Duotail.gguf" in registry(wine, r"Classes\.gguf")
    assert "0.1.0" in registry(wine, r"Microsoft\Windows\CurrentVersion\Uninstall\Duotail")
    assert list(drive.rglob("Duotail.lnk"))

    (home / "env" / "old.txt").touch()
    assert run(setup, wine, "/S", r"/D=C:\first").returncode == 0, "an upgrade"
    assert not (home / "env" / "old.txt").exists()

    data = drive / "users" / "Public" / "Duotail"
    data.mkdir(parents=True)
    (data / "history.sqlite3").write_text("mine")
    (home / "calls.txt").unlink()
    assert run(home / "uninstall.exe", wine, "/S", r"_?=C:\first").returncode == 0
    assert sorted(path.name for path in home.iterdir()) in ([], ["uninstall.exe"])
    assert "gguf" not in registry(wine, r"Classes\Duotail.gguf")
    assert "0.1.0" not in registry(wine, r"Microsoft\Windows\CurrentVersion\Uninstall\Duotail")
    assert not list(drive.rglob("Duotail.lnk"))
    assert (data / "history.sqlite3").read_text() == "mine"


@pytest.mark.release(reason="starts Wine several times")
def test_one_that_fails_says_so_and_leaves_the_version_before(
    tmp_path: Path, wine: dict[str, str]
) -> None:
    old = tmp_path / "wine" / "drive_c" / "duo" / "env" / "old.txt"
    assert run(built(tmp_path, fails=0), wine, "/S", r"/D=C:\duo").returncode == 0
    old.touch()
    told = run(built(tmp_path, fails=7), wine, "/S", r"/D=C:\duo")
    assert told.returncode != 0
    assert old.exists()


@pytest.mark.release(reason="starts Wine several times")
def test_while_duotail_runs_nothing_of_it_is_taken_away(
    tmp_path: Path, wine: dict[str, str]
) -> None:
    setup = built(tmp_path, fails=0)
    home = tmp_path / "wine" / "drive_c" / "duo"
    assert run(setup, wine, "/S", r"/D=C:\duo").returncode == 0
    (home / "env" / "old.txt").touch()
    running = subprocess.Popen(
        ["wine", home / "setup" / "uv.exe"],
        env=wine,
        cwd=home / "env",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with running:
        assert running.stdout is not None
        assert running.stdout.readline().strip() == b"running"
        assert run(setup, wine, "/S", r"/D=C:\duo").returncode != 0
        assert run(home / "uninstall.exe", wine, "/S", r"_?=C:\duo").returncode != 0
        assert (home / "env" / "old.txt").exists()
        assert list((tmp_path / "wine").rglob("Duotail.lnk"))
        running.communicate(b"\n")
    assert run(setup, wine, "/S", r"/D=C:\duo").returncode == 0
    assert not (home / "env" / "old.txt").exists()
    assert not (home / "env.old").exists()
