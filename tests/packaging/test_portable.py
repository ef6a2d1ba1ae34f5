"""What is left of Python, packages and Qt in a portable folder, and that it is enough."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import bundle
import icu_data
import portable
import PySide6
import pytest
import trimmed

ROOT = Path(__file__).parents[2]
QT = Path(PySide6.__file__).parent / "Qt" / "lib"
SORTING = """
from PySide6.QtCore import QCollator, QLocale, QStringConverter, QTimeZone
for name in ("de", "sv", "zh_CN", "ja"):
    print(name, sorted("zäåöaoß张王李", key=QCollator(QLocale(name)).sortKey))
print(QLocale("tr").toUpper("i"), len(QStringConverter.availableCodecs()))
print([bytes(zone).decode() for zone in QTimeZone.availableTimeZoneIds()][:9])
"""


@pytest.mark.skipif(bundle.LACKS_LINUX, reason="needs a linker")
def test_qt_asks_icu_for_nothing_that_was_taken_out(tmp_path: Path) -> None:
    """Orders of letters, encodings and zones are those of the whole library, at half the size."""
    whole = next(QT.glob("libicudata.so.*"))
    library = Path(shutil.copy(whole, tmp_path))
    icu_data.trim(library)
    assert library.stat().st_size < 0.5 * whole.stat().st_size
    told = [
        subprocess.run(
            [sys.executable, "-c", SORTING],
            env={**os.environ, "LD_LIBRARY_PATH": folder},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for folder in ("", str(tmp_path))
    ]
    assert told[0] == told[1]
    assert "'z', 'å', 'ä', 'ö'" in told[0], "Swedish has them at the end"


def test_a_library_without_an_archive_is_told() -> None:
    with pytest.raises(ValueError, match="no archive"):
        icu_data.trimmed(b"\x7fELF")


def test_pythons_own_modules_move_into_its_zip_file(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "python3.11"
    for place in ("two", "lib-dynload", "site-packages/pip"):
        (library / place).mkdir(parents=True)
    (library / "two" / "__init__.py").write_text("ANSWER = 41\n")
    (library / "one.py").write_text("ANSWER = 42\n")
    (library / "site-packages" / "pip" / "one.py").touch()
    (library / "lib-dynload" / "_ssl.so").touch()
    trimmed.zip_library(library)
    assert sorted(path.name for path in library.iterdir()) == ["lib-dynload", "site-packages"]
    assert (library / "site-packages" / "pip" / "one.py").exists()
    told = "import one, two; print(one.ANSWER - two.ANSWER)"
    code = f"import sys, zlib; sys.path[:] = [sys.argv[1]]; {told}"
    packed = tmp_path / "lib" / "python311.zip"
    command = [sys.executable, "-I", "-S", "-c", code, str(packed)]
    assert subprocess.check_output(command, text=True) == "1\n"


@pytest.mark.release(reason="builds the portable folder, a minute")
def test_it_is_small(portable_folder: tuple[Path, dict[str, int]]) -> None:
    folder, sizes = portable_folder
    assert sum(sizes.values()) - sizes[trimmed.MODELS] <= portable.LARGEST
    blocks = sum(path.lstat().st_blocks * 512 for path in (folder, *folder.rglob("*")))
    assert sum(sizes.values()) == pytest.approx(blocks, rel=0.02)


@pytest.mark.release(reason="builds the portable folder, a minute")
def test_it_starts_on_a_screen_and_answers(
    portable_folder: tuple[Path, dict[str, int]], starter: Path, tmp_path: Path
) -> None:
    """In its window within a minute, and at the terminal with the same text as untrimmed."""
    folder, _sizes = portable_folder
    told = bundle.answer(folder, starter, tmp_path)
    assert told["text"].strip()
    assert told["seconds"]["computed"] < 60, "what others do on this computer is not counted"
    environment = bundle.environment(tmp_path)
    chat = ["chat", "--model", str(starter), "--prompt", bundle.QUESTION, "--seed", "1"]
    trimmed_and_whole = [
        subprocess.check_output([*program, *chat, "--max-tokens", "16"], env=environment, cwd=ROOT)
        for program in ([str(folder / "duotail")], [sys.executable, "-m", "app"])
    ]
    assert trimmed_and_whole[0] == trimmed_and_whole[1] != b""
    subprocess.run(
        [folder / "bin/python3", "-I", "-B", "-c", "import wgpu.backends.wgpu_native"],
        env=environment,
        check=True,
    )
