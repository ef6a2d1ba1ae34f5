"""Sources of the native library: a wheel of these C files, or a compiler that is heard."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import native_library
import prebuilt
import pytest

ROOT = Path(__file__).parents[2]
BUILD = [
    sys.executable,
    "-c",
    "import setuptools; setuptools.setup()",
    "-q",
    "build_ext",
    "--inplace",
]
posix = pytest.mark.skipif(os.name != "posix", reason="compilers are shell scripts here")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a build of the library reads."""
    copy = tmp_path / "duotail"
    shutil.copytree(ROOT / "engine" / "native", copy / "engine" / "native")
    (copy / "packaging").mkdir()
    for name in ("native_build.py", "native_library.py", "prebuilt.py"):
        shutil.copy(ROOT / "packaging" / name, copy / "packaging")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    return copy


def build(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the library in an environment without any compiler but those given."""
    empty = project.parent / "bin"
    empty.mkdir(exist_ok=True)
    clean = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "DUOTAIL_LIBRARY")}
    clean |= {"PATH": str(empty)} | environment
    return subprocess.run(
        BUILD, cwd=project, env=clean, capture_output=True, text=True, timeout=300
    )


def fake_compiler(project: Path, name: str) -> Path:
    """A compiler that is there and fails."""
    script = project.parent / "bin" / name
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\necho '{name}: internal error, so sorry' >&2\nexit 1\n")
    script.chmod(0o755)
    return script


def library_of(project: Path) -> Path:
    return project / "engine" / native_library.LIBRARY


def put_wheel(project: Path, library: bytes, machine: str | None = None) -> None:
    """A wheel for this system in `dist/`."""
    machine = (machine or platform.machine()).lower()
    tag = {"win32": f"win_{machine}", "darwin": f"macosx_11_0_{machine}"}.get(
        sys.platform, f"manylinux2014_{machine}"
    )
    (project / "dist").mkdir()
    with zipfile.ZipFile(project / "dist" / f"duotail-0.1.0-cp311-abi3-{tag}.whl", "w") as wheel:
        wheel.writestr(f"engine/{native_library.LIBRARY}", library)


def of_sources(project: Path) -> bytes:
    """What stands for a library that was built from the project's sources."""
    return f"...duotail sources {native_library.sources_digest(project)}...".encode()


@posix
def test_a_compiler_that_fails_is_heard(project: Path) -> None:
    result = build(project, CC=str(fake_compiler(project, "mycc")))
    assert result.returncode != 0
    assert "mycc: internal error, so sorry" in result.stderr
    assert "mycc" in result.stderr.splitlines()[-1], "the last line names the command"
    assert "The C compiler failed." in result.stderr
    assert not library_of(project).exists()


@posix
def test_a_compiler_that_was_named_has_to_be_there(project: Path) -> None:
    result = build(project, CC="nosuchcc")
    assert result.returncode != 0
    assert "nosuchcc" in result.stderr


@posix
def test_another_compiler_serves_where_python_s_own_is_not_installed(project: Path) -> None:
    fake_compiler(project, "clang")
    result = build(project)
    assert result.returncode != 0
    assert "clang: internal error" in result.stderr


@posix
def test_without_a_compiler_the_library_is_left_out_and_it_is_said(project: Path) -> None:
    result = build(project)
    assert result.returncode == 0, result.stderr
    assert "several times slower" in result.stderr
    assert not library_of(project).exists()


def test_a_wheel_of_these_sources_needs_no_compiler(project: Path) -> None:
    put_wheel(project, of_sources(project))
    result = build(project)
    assert result.returncode == 0, result.stderr
    assert library_of(project).read_bytes() == of_sources(project)


def test_a_wheel_of_other_sources_or_options_is_passed_over(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_wheel(project, of_sources(project))
    assert prebuilt.prebuilt_library(project) is not None
    source = project / "engine" / "native" / "pool.c"
    text = source.read_text()
    source.write_bytes(text.replace("\n", "\r\n").encode())
    assert prebuilt.prebuilt_library(project) is not None, "how lines end does not matter"
    with monkeypatch.context() as other:
        other.setattr(native_library, "OPTIONS", (*native_library.OPTIONS, "-ffast-math"))
        assert prebuilt.prebuilt_library(project) is None
    source.write_text(text + "\n")
    assert prebuilt.prebuilt_library(project) is None


def test_a_wheel_of_another_machine_or_half_a_wheel_is_passed_over(project: Path) -> None:
    put_wheel(project, of_sources(project), machine="riscv64")
    assert prebuilt.prebuilt_library(project) is None
    shutil.rmtree(project / "dist")
    put_wheel(project, of_sources(project))
    (wheel,) = (project / "dist").iterdir()
    wheel.write_bytes(wheel.read_bytes()[:40])
    assert prebuilt.prebuilt_library(project) is None


def test_a_library_can_be_named_or_refused(project: Path) -> None:
    put_wheel(project, of_sources(project))
    assert build(project, DUOTAIL_LIBRARY="none").returncode == 0
    assert not library_of(project).exists()
    named = project.parent / "_native.pyd"
    named.write_bytes(b"for another system")
    assert build(project, DUOTAIL_LIBRARY=str(named)).returncode == 0
    assert (project / "engine" / "_native.pyd").read_bytes() == b"for another system"


@pytest.mark.parametrize(
    ("system", "machine", "libc", "tag", "runs"),
    [
        ("linux", "x86_64", "glibc", "manylinux2014_x86_64", True),
        ("linux", "aarch64", "glibc", "manylinux2014_x86_64", False),
        ("linux", "x86_64", "", "manylinux2014_x86_64", False),  # musl
        ("linux", "x86_64", "glibc", "win_amd64", False),
        ("win32", "AMD64", "", "win_amd64", True),
        ("darwin", "arm64", "", "macosx_11_0_arm64", True),
        ("darwin", "x86_64", "", "macosx_11_0_universal2", True),
        ("darwin", "x86_64", "", "macosx_11_0_arm64", False),
    ],
)
def test_where_a_wheel_runs(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: str, tag: str, runs: bool
) -> None:
    monkeypatch.setattr(prebuilt.sys, "platform", system)
    monkeypatch.setattr(prebuilt.platform, "machine", lambda: machine)
    monkeypatch.setattr(prebuilt.platform, "libc_ver", lambda: (libc, ""))
    assert prebuilt.runs_here(tag) is runs
