"""The AppImage: what is in it, and that it starts where nothing is installed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import appimage
import bundle
import deb
import desktop_files
import pytest
from told import SetupProblem

from tests.folder_models import FOLDER_TARGET as SMALL

PACKS = shutil.which("mksquashfs") and shutil.which("unsquashfs")


@pytest.mark.skipif(not PACKS, reason="needs squashfs-tools")
def test_it_is_the_runtime_followed_by_the_folder(tmp_path: Path) -> None:
    folder, runtime, file = tmp_path / "made", tmp_path / "runtime", tmp_path / "it.AppImage"
    (folder / "share").mkdir(parents=True)
    (folder / "duotail").write_text("#!/bin/sh\n")
    runtime.write_bytes(b"\x7fELF" + b"\0" * 1020)
    appimage.build(folder, runtime, file)
    assert file.read_bytes()[8:11] == b"AI\x02"
    assert os.access(file, os.X_OK)
    command = ["unsquashfs", "-offset", "1024", "-dest", tmp_path / "out", file]
    subprocess.run(command, check=True, capture_output=True)
    out = tmp_path / "out"
    assert (out / "AppRun").read_text() == "#!/bin/sh\n"
    assert (out / "duotail.desktop").read_text().startswith("[Desktop Entry]")
    assert (out / ".DirIcon").read_text().startswith("<svg")
    assert (out / "usr/share/metainfo" / f"{desktop_files.ID}.metainfo.xml").is_file()
    assert not (out / "usr/lib/duotail/share").exists()


def test_another_runtime_than_the_expected_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = tmp_path / "served"
    served.write_bytes(b"the runtime")
    monkeypatch.delenv(appimage.NAMED, raising=False)
    monkeypatch.setattr(appimage, "_RUNTIME", served.as_uri())
    with pytest.raises(SetupProblem, match="not the expected file"):
        appimage.runtime(tmp_path)
    monkeypatch.setattr(appimage, "_SHA256", hashlib.sha256(b"the runtime").hexdigest())
    assert appimage.runtime(tmp_path).read_bytes() == b"the runtime"
    served.unlink()
    with pytest.raises(SetupProblem, match="cannot be downloaded"):
        appimage.runtime(tmp_path)
    monkeypatch.setenv(appimage.NAMED, "/mine")
    assert appimage.runtime(tmp_path) == Path("/mine")


@pytest.mark.release(reason="builds the portable folder and packs it, three minutes")
@pytest.mark.skipif(not PACKS, reason="needs squashfs-tools")
@pytest.mark.skipif(not os.environ.get(appimage.NAMED), reason="needs a runtime of AppImages")
def test_it_starts_and_its_window_answers(
    portable_folder: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    file = tmp_path / "it.AppImage"
    appimage.build(portable_folder[0], Path(os.environ[appimage.NAMED]), file)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "APPIMAGE_EXTRACT_AND_RUN": "1",  # where nothing may be mounted
    }
    (tmp_path / "home").mkdir()
    told = subprocess.check_output([file, "--version"], env=environment, text=True)
    assert told == f"duotail {deb.version()}\n"
    subprocess.run([file, "--appimage-extract"], cwd=tmp_path, check=True, capture_output=True)
    unpacked = tmp_path / "squashfs-root/usr/lib/duotail"
    assert bundle.answer(unpacked, SMALL, tmp_path / "home")["text"]
