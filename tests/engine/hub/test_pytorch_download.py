"""PyTorch is fetched when it is asked for, in the build that is wanted, by a pip that is played."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import pytorch
from engine.errors import Cancelled, UserFixable
from engine.hub import pytorch_download
from engine.hub.pytorch_download import answers, download_pytorch, is_cuda_build, requirements

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pip is a shell script here")
WITH_CUDA = {"install": [{"metadata": {"requires_dist": ["filelock", "nvidia-nccl-cu13==2"]}}]}
Pip = Callable[[str], None]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that packages would go to, and a site that does not answer."""
    monkeypatch.setattr(pytorch_download.sysconfig, "get_path", lambda _: str(tmp_path / "site"))
    monkeypatch.setattr(pytorch_download, "answers", lambda *_, **__: False)
    (tmp_path / "site").mkdir()
    return tmp_path


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, place: Path) -> Pip:
    """Makes a Python whose pip runs these lines of shell; what it is asked for is noted."""

    def play(lines: str) -> None:
        script = place / "python"
        script.write_text(f"#!/bin/sh\necho \"$@\" >>'{place / 'asked'}'\n{lines}\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return play


def asked(place: Path) -> list[str]:
    return (place / "asked").read_text().splitlines()


def fetch(cancelled: Callable[[], bool] = lambda: False, *, cuda: bool = False) -> list[float]:
    """What is told of the download."""
    told: list[float] = []
    download_pytorch(lambda _, fraction: told.append(fraction), cancelled, cuda=cuda)
    return told


def test_it_is_installed_with_what_belongs_to_it(place: Path, pip: Pip) -> None:
    pip("case $* in *--report*) echo '{\"install\": []}';; esac")
    fetch()
    last = asked(place)[-1]
    assert " install " in last
    assert all(any(name in word for word in last.split()) for name in pytorch.PACKAGES)
    assert "--extra-index-url" not in last
    assert sorted(file.name for file in place.iterdir()) == ["asked", "python", "site"]


def test_the_site_of_small_builds_is_asked_where_it_answers(
    monkeypatch: pytest.MonkeyPatch, place: Path, pip: Pip
) -> None:
    pip("")
    monkeypatch.setattr(pytorch_download, "answers", lambda *_, **__: True)
    monkeypatch.setattr(sys, "platform", "linux")
    fetch()
    assert f"--extra-index-url {pytorch_download.CPU_INDEX}" in asked(place)[-1]


def test_the_large_build_is_never_taken_without_asking(
    monkeypatch: pytest.MonkeyPatch, place: Path, pip: Pip
) -> None:
    pip(f"echo '{json.dumps(WITH_CUDA)}'")
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(UserFixable, match=r"Only PyTorch's build for CUDA") as error:
        fetch()
    assert "--cuda" in error.value.remedy
    assert len(asked(place)) == 1, "nothing was installed"
    monkeypatch.setattr(pytorch_download.platform, "machine", lambda: "aarch64")
    assert is_cuda_build(b'{"install": []}') is False
    lines = b"[\"nvidia-nccl-cu13; platform_machine == 'x86_64'\"]"
    assert not is_cuda_build(b'{"install":[{"metadata":{"requires_dist":%s}}]}' % lines)


@pytest.mark.parametrize(
    ("system", "options"), [("linux", ""), ("darwin", pytorch_download.CUDA_INDEX)]
)
def test_who_asks_for_cuda_gets_it_in_place_of_the_small_build(
    system: str, options: str, monkeypatch: pytest.MonkeyPatch, place: Path, pip: Pip
) -> None:
    pip("")
    monkeypatch.setattr(sys, "platform", system)
    has = iter([False, True])
    monkeypatch.setattr(pytorch_download, "_computes_with_cuda", lambda: next(has))
    fetch(cuda=True)
    first, last = asked(place)
    assert first.endswith("uninstall -q -y torch")
    assert options in last


def test_how_far_it_is_can_be_seen(monkeypatch: pytest.MonkeyPatch, place: Path, pip: Pip) -> None:
    """By what lies in pip's folder for downloads: 50 of 100 bytes, until somebody has seen it."""
    seen = place / "seen"
    pip(
        "case $* in *--report*) exit;; esac\nprintf '%050d' 0 >\"$TMPDIR/torch.whl\"\n"
        f"until [ -e '{seen}' ]; do sleep 0.05; done"
    )
    monkeypatch.setattr(pytorch_download, "DOWNLOAD_BYTES", 100)

    def tell(_: str, fraction: float) -> None:
        if fraction >= 0.5:
            seen.touch()

    download_pytorch(tell, lambda: False)
    assert seen.exists()


def test_it_can_be_cancelled_at_once(place: Path, pip: Pip) -> None:
    pip(f"case $* in *--report*) exit;; esac\necho $$ >'{place / 'pid'}'\nsleep 600")
    pid = place / "pid"
    with pytest.raises(Cancelled):
        fetch(lambda: pid.exists() and bool(pid.read_text()))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert not list(place.glob(".duotail-*"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("WARNING: Retrying (Retry(total=0 ...", "connection is missing"),
        ("ERROR: Connection broken: IncompleteRead(10 bytes read)", "connection is missing"),
        ("ERROR: No matching distribution found for torch", "could not be installed"),
    ],
)
def test_what_goes_wrong_is_told(place: Path, pip: Pip, said: str, told: str) -> None:
    pip(f"case $* in *--report*) exit;; esac\necho '{said}' >&2\nexit 1")
    with pytest.raises(UserFixable, match=told) as error:
        fetch()
    assert said in error.value.details
    assert not list(place.glob(".duotail-*"))


def test_what_cannot_work_is_not_begun(
    monkeypatch: pytest.MonkeyPatch, place: Path, pip: Pip
) -> None:
    pip("")
    usage = pytorch_download.shutil.disk_usage(place)
    with monkeypatch.context() as full:
        full.setattr(pytorch_download.shutil, "disk_usage", lambda _: usage._replace(free=1000))
        with pytest.raises(UserFixable, match=r"needs 1\.0.GB on the disk, and 1.0.kB are free"):
            fetch()
    with monkeypatch.context() as locked:
        locked.setattr(pytorch_download.os, "access", lambda *_: False)
        with pytest.raises(UserFixable, match="Nothing can be written"):
            fetch()
    with monkeypatch.context() as without:
        without.setattr(pytorch_download, "find_spec", lambda _: None)
        with pytest.raises(UserFixable, match="no pip") as error:
            fetch()
        assert "duotail[torch]" in error.value.remedy
    assert not (place / "asked").exists()


def test_an_installation_asks_for_the_versions_that_its_metadata_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [each.partition(">")[0] for each in requirements()[2:]] == list(pytorch.PACKAGES)
    monkeypatch.setattr(pytorch_download, "_ROOT", tmp_path)
    asks = ['torch<3,>=2.6; extra == "torch"', 'pytest; extra == "dev"', "numpy"]
    monkeypatch.setattr(pytorch_download.metadata, "requires", lambda _: asks)
    assert requirements() == ["torch<3,>=2.6"]


def test_half_a_package_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As after a cancel while it was unpacked: its list of files is written last."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in pytorch.PACKAGES:
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        assert not pytorch.is_installed()
    for name in pytorch.PACKAGES:
        (tmp_path / f"{name}-1.0.dist-info" / "RECORD").write_text("")
    assert pytorch.is_installed()


def test_a_site_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert not answers(url, seconds=0.2)


def test_a_site_that_answers_is_used() -> None:
    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        assert answers(f"http://127.0.0.1:{server.getsockname()[1]}/", seconds=30)
        thread.join()
