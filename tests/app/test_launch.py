from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from desk import PATIENCE_MS
from PySide6.QtCore import QLockFile
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

import app.launch
from app.data_folder.instance import SingleInstance
from app.data_folder.paths import find_paths
from app.theme import icons

_ROOT = Path(__file__).parents[2]
_DEALT_SCENES = str(Path(__file__).parent / "showcase" / "screenshots_child.py")


def _duotail(*arguments: str, data: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    return subprocess.Popen(
        [sys.executable, "-m", "app", "--data-dir", str(data), *arguments],
        cwd=_ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.launch.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("duotail ")


def test_bad_usage_ends_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.launch.main(["--no-such-option"])
    assert ended.value.code == 2
    assert "no-such-option" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "-1", "much", "nan", "1e9"])
def test_a_simulated_gpu_has_a_size(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.launch.main([f"--simulate-gpu={size}"])
    assert ended.value.code == 2
    assert "--simulate-gpu" in capsys.readouterr().err


def test_the_window_gets_a_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def run(*_arguments: object, simulate_gpu: int | None = None, **_more: object) -> int:
        asked.append(simulate_gpu)
        return 0

    monkeypatch.setattr("app.application.run", run)
    assert app.launch.main(["--simulate-gpu", "1.5"]) == 0
    assert app.launch.main([]) == 0
    assert asked == [3 << 29, None]


def test_the_window_opens_with_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []

    def run(*_arguments: object, model: Path | None = None, **_more: object) -> int:
        asked.append(model)
        return 0

    monkeypatch.setattr("app.application.run", run)
    file = tmp_path / "mine.gguf"
    file.touch()
    assert app.launch.main([str(file)]) == 0
    assert asked == [file]
    with pytest.raises(SystemExit) as ended:
        app.launch.main(["bnech"])
    assert ended.value.code == 2
    assert "“bnech” is neither a command nor a file" in capsys.readouterr().err


def test_a_second_start_hands_its_file_over(tmp_path: Path, qtbot: QtBot) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from app.data_folder.instance import SingleInstance\n"
        "lock, *files = map(Path, sys.argv[1:])\n"
        "sys.exit(not all(SingleInstance(lock).hand_over(each) for each in [*files, None]))\n"
    )
    first = SingleInstance(tmp_path / "lock")
    assert first.claim()
    heard: list[Path | None] = []
    first.started_again.connect(heard.append)
    file = tmp_path / "größer 大.gguf"
    second = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock"), str(file)], cwd=_ROOT
    )
    qtbot.waitUntil(lambda: second.poll() is not None)
    assert (second.returncode, heard) == (0, [file, None])
    first.release()


def test_a_second_start_of_another_version_is_told(
    tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that was just installed, while the one before is open."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from app.data_folder import instance\n"
        "instance.version = lambda: sys.argv[2]\n"
        "sys.exit(not instance.SingleInstance(Path(sys.argv[1])).hand_over())\n"
    )
    monkeypatch.setattr("app.data_folder.instance.version", lambda: "1.0")
    first = SingleInstance(tmp_path / "lock")
    assert first.claim()
    heard: list[str] = []
    first.other_started.connect(heard.append)
    for other in ("1.0", "1.1"):
        command = [sys.executable, "-c", code, str(tmp_path / "lock"), other]
        second = subprocess.Popen(command, cwd=_ROOT)
        qtbot.waitUntil(lambda second=second: second.poll() is not None)
        assert second.returncode == 0
    assert heard == ["1.1"]
    first.release()


def test_a_folder_that_takes_no_lock_is_no_other_window(tmp_path: Path) -> None:
    """What could be read was refused with "Duotail is already running"."""
    (tmp_path / "file").touch()
    instance = SingleInstance(tmp_path / "file" / "data" / "window.lock")
    assert instance.claim()
    instance.release()
    held, second = SingleInstance(tmp_path / "lock"), SingleInstance(tmp_path / "lock")
    assert held.claim()
    assert not second.claim()
    held.release()


def test_commands_go_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run(argv: list[str], data: Path) -> int:
        assert data == find_paths().data
        seen.append(argv[0])
        return 3

    monkeypatch.setattr("engine.cli.main", run, raising=False)
    for command in app.launch.COMMANDS:
        assert app.launch.main([command, "--json"]) == 3
    assert seen == list(app.launch.COMMANDS)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_files_and_pipes_take_every_letter(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """A pipe of Windows has a code page: an answer in Chinese ended with a traceback."""
    taken = io.BytesIO()

    def answer(_argv: list[str], _data: Path) -> int:
        sys.stdout.write("É 大 €\n")
        return 0

    monkeypatch.setattr("engine.cli.main", answer)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(taken, encoding))
    monkeypatch.setattr("sys.stderr", None)  # as in a program without a console
    assert app.launch.main(["chat"]) == 0
    sys.stdout.flush()
    assert taken.getvalue().decode("utf-8").split() == ["É", "大", "€"]


_NOT_AT_THE_START = """
torch transformers tokenizers llguidance safetensors numpy markdown_it pygments psutil email ssl
app.markdown.inline app.widgets.table_dialog app.settings_page.reports_dialog
app.settings_page.dialog app.settings_page.page app.settings_page.presets_dialog
app.settings_page.prompts_dialog app.session.documents app.session.document_text pypdf
app.showcase.measure app.showcase app.chat.sampling.setup_panel app.performance.card
app.models.models_page app.models.job_row app.tuning.tuning_page app.benchmark
app.conversations.trash_dialog app.history.rescue app.history.exchange app.shell.about
app.shell.palette app.models.crash_offer
app.shell.pytorch_offer app.tools.loop app.tools.toolbox app.chat.messages.tool_card mcp pydantic
"""
_PACKAGES_AT_THE_START = {
    *("PySide6", "shiboken6", "shibokensupport", "signature_bootstrap", "__feature__"),
    *("platformdirs", "tomli_w", "app", "engine", "resources"),
    *("__main__", "_distutils_hack", "sitecustomize", "usercustomize"),
}
_MOST_MODULES, _MOST_BYTES = 310, 1_560_000
"""Most modules of our own that the first picture needs, and their size. They were 356, of 1.8 MB;
where nothing is compiled yet, ten of them take some 20 ms."""

_FIRST_PICTURE = """
import json, sys
from pathlib import Path
import app.launch
app.launch.make_parser()
from app.application import Assembly, make_application
from app.data_folder.paths import Paths
from app.shell.warm_up import SOON
from app.theme.theme import Theme
folder = Path(sys.argv[1])
application = make_application()
assembly = Assembly(Paths(folder, folder), Theme(application))
assembly.window.show()
assembly.window.grab()
files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
assembly.close()
print(json.dumps([files, SOON]))
"""


_SETTINGS = """
import sys
from importlib import import_module
import app.application
from app.shell.warm_up import LATER, SOON, _import
_import()
most = 0
for name in (*SOON, "app.settings_page.stored", *LATER):
    known = set(sys.modules)
    import_module(name)
    new = [each for each in set(sys.modules) - known if hasattr(sys.modules[each], "__file__")]
    files = [each for each in new if not sys.modules[each].__file__.endswith("__init__.py")]
    most = most if name.endswith("stored") else max(most, len(files))  # that one has no widgets
before = set(sys.modules)
import app.settings_page.dialog, app.settings_page.serving, app.settings_page.tools
own = {name for name in set(sys.modules) - before}
print(len(own), most, *sorted(own))
"""


def test_settings_open_with_their_modules_imported() -> None:
    """Nearly all: those of stored data took a tenth of a second when the settings were opened."""
    told = subprocess.run(
        [sys.executable, "-c", _SETTINGS],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE_MS // 1000,
    ).stdout.split()
    assert int(told[0]) <= 6, told
    assert int(told[1]) <= 2, told  # of a turn of the loop: more of them are seen to hold it up


def test_a_start_imports_only_what_the_first_picture_needs(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", _FIRST_PICTURE, str(tmp_path)],
        cwd=_ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE_MS // 1000,
    ).stdout
    files, soon = json.loads(told)
    early = {*_NOT_AT_THE_START.split(), *soon} & files.keys()
    assert not early
    packages = {name.partition(".")[0] for name in files} - sys.stdlib_module_names
    assert {name for name in packages if "editable" not in name} <= _PACKAGES_AT_THE_START
    own = [Path(f) for name, f in files.items() if f and name.startswith(("app", "engine"))]
    assert len(own) <= _MOST_MODULES
    assert sum(file.stat().st_size for file in own) <= _MOST_BYTES


def test_a_second_start_raises_the_first_window_and_a_killed_one_blocks_nothing(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    first = _duotail(data=data)
    try:
        _wait_for((data / "history.sqlite3").exists, first)
        second = _duotail(data=data)
        _, complaint = second.communicate(timeout=PATIENCE_MS // 1000)
        assert second.returncode == 0, complaint
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate(timeout=PATIENCE_MS // 1000)
    third = _duotail(data=data)
    try:
        _wait_for(lambda: _holder(data) == third.pid, third)
    finally:
        third.terminate()
        third.communicate(timeout=PATIENCE_MS // 1000)


def _holder(data: Path) -> int:
    """The process whose window the data folder belongs to, as the lock tells."""
    pid, _host, _name = QLockFile(str(data / "window.lock")).getLockInfo()
    return pid


def _wait_for(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_MS // 1000
    while not holds():
        if process.poll() is not None:
            pytest.fail(f"ended with {process.returncode}: {process.communicate()}")
        if time.monotonic() > deadline:
            pytest.fail("it does not happen")
        time.sleep(0.02)


@pytest.mark.release(reason="draws every scene")
def test_screenshots_show_every_state(tmp_path: Path) -> None:
    """Every look there is; to have each scene in one of them takes a quarter of the time."""
    folder, data = tmp_path / "shots", tmp_path / "data"
    child = subprocess.run(
        [sys.executable, _DEALT_SCENES, "--data-dir", str(data), "--screenshot", str(folder)],
        cwd=_ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    pictures = [path.stem.split("-", 1)[1].rsplit("-", 2) for path in folder.glob("*.png")]
    assert {(choice, size) for _, choice, size in pictures} == {
        (choice, size) for choice in ("light", "dark") for size in ("1280x800", "1920x1080")
    }
    assert len({name for name, _, _ in pictures}) >= 90
    assert not data.exists()
    for path in folder.glob("*.png"):
        assert _colours(QImage(str(path))) > 5, path.name


def _colours(image: QImage) -> int:
    """How many there are, in every seventh row and column."""
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(plain.constBits(), np.uint32).reshape(plain.height(), -1)
    return len(np.unique(pixels[::7, ::7]))


def test_every_icon_can_be_drawn(qapp: object) -> None:
    assert qapp is not None
    for name in icons.names():
        picture = icons.icon(name, "#ff0000").pixmap(24, 24).toImage()
        drawn = [
            picture.pixelColor(x, y).alpha()
            for x in range(picture.width())
            for y in range(picture.height())
        ]
        assert max(drawn) > 0, name
