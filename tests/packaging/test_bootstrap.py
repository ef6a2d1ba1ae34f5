"""The set-up's decisions and its sentences."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import bootstrap
import library_build
import native_library
import pytest
import system_packages

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the set-up looks at."""
    for name in ("pyproject.toml", "packaging/constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run_bootstrap(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    del clean["QT_QPA_PLATFORM"]
    command = [sys.executable, str(ROOT / "packaging" / "bootstrap.py"), *arguments]
    return subprocess.run(
        command, env=clean | environment, capture_output=True, text=True, timeout=300
    )


BEFORE_ANYTHING_IS_INSTALLED = (
    *("bootstrap", "library_build", "native_library", "packages", "prebuilt", "qt_libraries"),
    *("system_packages", "told"),
)


@pytest.mark.parametrize("name", BEFORE_ANYTHING_IS_INSTALLED)
def test_parses_on_the_python_of_old_systems(name: str) -> None:
    source = (ROOT / "packaging" / f"{name}.py").read_text()
    ast.parse(source, feature_version=(3, 6))
    assert "from __future__ import annotations" not in source, "unknown to Python 3.6"


@pytest.mark.parametrize(
    ("candidates", "picked"),
    [
        ([("a", (3, 10)), ("b", (3, 12)), ("c", (3, 11))], "b"),
        ([("a", (3, 15)), ("b", (3, 13))], "b"),
        ([("a", (3, 15))], "a"),
        ([("a", (3, 9)), ("b", (2, 7))], None),
    ],
)
def test_picks_a_tested_python_first_and_never_an_old_one(
    candidates: list[tuple[str, tuple[int, int]]], picked: str | None
) -> None:
    assert bootstrap.pick_python(candidates) == picked


def test_an_old_python_gives_one_sentence_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, "PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr(bootstrap, "pythons_here", lambda: [("a", (2, 7)), ("b", (3, 10))])
    with pytest.raises(bootstrap.SetupProblem, match=r"needs Python 3\.11 .* 3\.10"):
        bootstrap.make_venv()


def test_a_shim_without_an_interpreter_behind_it_is_no_python(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert bootstrap._version(str(shim)) is None
    assert bootstrap._version(sys.executable) == sys.version_info[:2]


def test_a_set_up_is_current_until_a_requirement_a_pin_or_the_place_changes(project: Path) -> None:
    before = bootstrap.fingerprint(project)
    assert bootstrap.fingerprint(project) == before

    for name in ("pyproject.toml", "packaging/constraints.txt"):
        text = (project / name).read_text()
        (project / name).write_text(text + "\n# changed\n")
        assert bootstrap.fingerprint(project) != before
        (project / name).write_text(text)
    assert bootstrap.fingerprint(project) == before

    moved = project.with_name("moved")
    shutil.copytree(project, moved)
    assert bootstrap.fingerprint(moved) != before


def test_the_test_tools_set_up_serves_the_app_but_not_the_other_way(tmp_path: Path) -> None:
    bootstrap.stamps(tmp_path, dev=False)[0].write_text("x")
    assert bootstrap.is_set_up(tmp_path, dev=False, wanted="x")
    assert not bootstrap.is_set_up(tmp_path, dev=True, wanted="x")
    assert not bootstrap.is_set_up(tmp_path, dev=False, wanted="y")

    bootstrap.stamps(tmp_path, dev=True)[0].write_text("y")
    assert bootstrap.is_set_up(tmp_path, dev=True, wanted="y")
    assert bootstrap.is_set_up(tmp_path, dev=False, wanted="y")


def test_a_set_up_with_cuda_serves_others_but_not_the_other_way(tmp_path: Path) -> None:
    bootstrap.stamps(tmp_path, dev=True)[0].write_text("x")
    assert not bootstrap.is_set_up(tmp_path, dev=False, wanted="x", cuda=True)
    bootstrap.stamps(tmp_path, dev=False, cuda=True)[0].write_text("x")
    assert bootstrap.is_set_up(tmp_path, dev=False, wanted="x", cuda=True)
    assert not bootstrap.is_set_up(tmp_path, dev=True, wanted="x", cuda=True)
    bootstrap.stamps(tmp_path, dev=True)[0].unlink()
    assert bootstrap.is_set_up(tmp_path, dev=False, wanted="x")


@pytest.mark.release(reason="makes an environment")
def test_a_venv_that_was_moved_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, moved = tmp_path / "made", tmp_path / "moved"
    command = [sys.executable, "-m", "venv", "--symlinks", str(made)]
    subprocess.run(command, check=True, timeout=300)
    monkeypatch.setattr(bootstrap, "VENV", made)
    monkeypatch.setattr(bootstrap, "PYTHON", made / "bin" / "python")
    assert bootstrap.venv_works()

    made.rename(moved)
    assert not bootstrap.venv_works()
    monkeypatch.setattr(bootstrap, "VENV", moved)
    monkeypatch.setattr(bootstrap, "PYTHON", moved / "bin" / "python")
    assert not bootstrap.venv_works()


def test_the_download_is_named_in_full() -> None:
    def words(
        cuda: bool = False, torch: bool = False, dev: bool = False, starter: bool = False
    ) -> str:
        return bootstrap.download_words(cuda, torch, dev, starter)

    assert words().startswith("about 122 MB")
    assert "PyTorch" not in words()
    assert "PyTorch for the CPU 220 MB" in words(torch=True)
    assert "test tools 275 MB" in words(torch=True, dev=True)
    assert words(cuda=True, torch=True).startswith("about 3.4 GB")
    with_starter = words(starter=True)
    assert with_starter.startswith("about 215 MB")
    assert "the starter model 93 MB" in with_starter


def test_pytorch_comes_with_the_tests_and_where_nothing_else_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library_build, "can_build", lambda: True)
    assert not bootstrap.needs_torch(dev=False, cuda=False)
    assert bootstrap.needs_torch(dev=True, cuda=False)
    assert bootstrap.needs_torch(dev=False, cuda=True)
    monkeypatch.setattr(library_build, "can_build", lambda: False)
    assert bootstrap.needs_torch(dev=False, cuda=False)


def test_a_full_disk_is_told_before_the_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.shutil, "disk_usage", lambda _: SimpleNamespace(free=700_000_000))
    bootstrap.check_disk(600)
    with pytest.raises(bootstrap.SetupProblem, match=r"about 1\.4 GB .* 700 MB are free"):
        bootstrap.check_disk(1400)


def test_what_was_asked_for_once_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen: list[bool] = []
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "set_up", lambda *given: chosen.append(given[-1]))
    for arguments in ([], ["--gpu", ""], ["--gpu", "cuda"]):
        monkeypatch.setattr(bootstrap.sys, "argv", ["bootstrap.py", *arguments])
        bootstrap.main()
    bootstrap.stamps(tmp_path, dev=False, cuda=True)[0].write_text("of an earlier version")
    monkeypatch.setattr(bootstrap.sys, "argv", ["bootstrap.py"])
    bootstrap.main()
    assert chosen == [False, False, True, True]


def test_a_wheel_or_any_compiler_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("DUOTAIL_LIBRARY", raising=False)
    monkeypatch.setattr(library_build.prebuilt, "prebuilt_library", lambda: None)
    which = {"clang": "clang"}.get
    monkeypatch.setattr(native_library.shutil, "which", which)
    assert library_build.can_build()
    which = {}.get
    monkeypatch.setattr(native_library.shutil, "which", which)
    assert not library_build.can_build()
    monkeypatch.setattr(library_build.prebuilt, "prebuilt_library", lambda: b"library")
    assert library_build.can_build()
    monkeypatch.setenv("DUOTAIL_LIBRARY", "none")
    assert not library_build.can_build()


def test_where_a_card_computes_its_kernels_can_be_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho 3 12 {tmp_path}\n")
    python.chmod(0o755)
    monkeypatch.setattr(system_packages.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(system_packages.shutil, "which", lambda _: None)
    system_packages.check_kernels(python)
    assert "apt-get install gcc libc6-dev python3.12-dev" in capsys.readouterr().out
    monkeypatch.setattr(system_packages.shutil, "which", lambda name: name)
    (tmp_path / "Python.h").touch()
    system_packages.check_kernels(python)
    assert not capsys.readouterr().out


def test_a_native_library_that_does_not_load_ends_the_set_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(bootstrap, "NATIVE", tmp_path / "engine" / "_native.abi3.so")
    bootstrap.check_native()
    package = tmp_path / "engine" / "backend" / "native"
    package.mkdir(parents=True)
    bootstrap.NATIVE.touch()
    (tmp_path / "engine" / "__init__.py").touch()
    (package / "library.py").write_text("def library(): raise OSError('wrong ELF class')")
    with pytest.raises(bootstrap.SetupProblem, match=r"(?s)does not load.*wrong ELF class"):
        bootstrap.check_native()


def test_nobody_but_root_installs_system_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(system_packages.subprocess, "run", lambda command, **_: ran.append(command))
    monkeypatch.setattr(system_packages.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(system_packages.os, "geteuid", lambda: 1000)
    with pytest.raises(bootstrap.SetupProblem, match=r"  sudo apt-get install libegl1 libgl1\n"):
        system_packages.install_system_packages(["libegl1", "libgl1"], "Qt misses libraries.")
    assert not ran


def test_a_software_gpu_is_for_tests_only_and_never_in_the_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(system_packages, "VULKAN_DRIVERS", (str(tmp_path), str(tmp_path / "none")))
    monkeypatch.setattr(system_packages, "run", lambda command, _: ran.append(command))
    monkeypatch.setattr(system_packages.subprocess, "run", ran.append)
    monkeypatch.setattr(system_packages.sys, "platform", "linux")
    monkeypatch.setattr(system_packages.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(system_packages.os, "geteuid", lambda: 1000)
    system_packages.check_software_gpu()
    assert not ran
    assert "sudo apt-get install mesa-vulkan-drivers" in capsys.readouterr().out
    monkeypatch.setattr(system_packages.os, "geteuid", lambda: 0)
    monkeypatch.setitem(os.environ, "DEBIAN_FRONTEND", "")
    system_packages.check_software_gpu()
    assert ran[-1][-1] == "mesa-vulkan-drivers"
    (tmp_path / "lvp_icd.x86_64.json").touch()
    ran.clear()
    system_packages.check_software_gpu()
    assert not ran


def test_another_linux_gets_the_names_without_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_packages.shutil, "which", lambda _: None)
    with pytest.raises(bootstrap.SetupProblem, match=r"package manager.*libegl1"):
        system_packages.install_system_packages(["libegl1"], "Qt misses libraries.")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a screen")
def test_without_a_screen_one_sentence_and_no_set_up() -> None:
    result = run_bootstrap("--screen")
    assert result.returncode == 1
    assert "There is no screen here" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_every_requirement_is_pinned_once_and_torch_for_every_build() -> None:
    lines = (ROOT / "packaging" / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert len(pins) == sum(not line.startswith("#") for line in lines)
    assert pins["torch"] == "2.13.0"
    assert not any("+" in version for version in pins.values())
