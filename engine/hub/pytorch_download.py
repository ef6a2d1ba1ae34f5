"""Download PyTorch and install it beside Duotail, with pip in a process of its own."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

from engine import pytorch
from engine.devices.accelerators.torch_devices import torch_build
from engine.errors import Cancelled, UserFixable
from engine.language import tr
from engine.language.units import file_size
from engine.pytorch import DISK_BYTES, DOWNLOAD_BYTES

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_INDEX = "https://download.pytorch.org/whl/cu130"
CUDA_DOWNLOAD_BYTES, CUDA_DISK_BYTES = 3_300_000_000, 7_000_000_000
"""Estimates."""
_ROOT = Path(__file__).parents[2]
_POLL_S = 0.2
_MOST_SAID = 4000
_FULL = re.compile(r"no space left|errno 28|quota exceeded", re.IGNORECASE)
_OFFLINE = re.compile(
    r"retrying \(|connection ?error|connection (broken|aborted)|proxyerror|max retries|timed out"
    r"|incompleteread|protocolerror|name resolution|is invalid\.|do not match the hashes",
    re.IGNORECASE,
)
"""What pip says where the disk is full, and where the network is missing."""

Progress = Callable[[str, float], None]
"""Told the stage in words, and how much of the download is here, from 0 to 1."""


def download_pytorch(
    progress: Progress, cancelled: Callable[[], bool], *, cuda: bool = False
) -> None:
    """Bring PyTorch and the transformers library into this environment.

    Args:
        progress: see `Progress`.
        cancelled: asked often; pip is then ended, and half a package counts as none.
        cuda: take the large build for NVIDIA's cards.

    Raises:
        Cancelled: the user stopped it.
        UserFixable: why it cannot be had, and what to do.
    """
    folder = Path(sysconfig.get_path("purelib"))
    _check(folder, CUDA_DISK_BYTES if cuda else DISK_BYTES)
    progress(tr("Looking for PyTorch"), 0.0)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = _build_options(pip, cuda=cuda)
    if cuda and not _computes_with_cuda():
        # Else one for the CPU, which has the same version, would do for pip.
        subprocess.run([*pip, "uninstall", "-q", "-y", "torch"], check=False)  # noqa: S603
    command = [*pip, "install", "--no-compile", "--progress-bar", "off", *options, *requirements()]
    size = CUDA_DOWNLOAD_BYTES if cuda else DOWNLOAD_BYTES
    # Beside the packages: their disk has room, which that of temporary files may not have.
    with tempfile.TemporaryDirectory(prefix=".duotail-", dir=folder.parent) as work:
        _run(command, Path(work), size, progress, cancelled)
    importlib.invalidate_caches()
    if cuda and not _computes_with_cuda():
        raise UserFixable(
            tr("PyTorch's build for CUDA is not available for this computer."),
            tr("Use the GPU through WebGPU, or PyTorch on the CPU."),
        )


def requirements() -> list[str]:
    """Return what the extra `torch` asks for; in a checkout in the versions that are tested."""
    project = _ROOT / "pyproject.toml"
    if project.is_file():  # a checkout
        extras = tomllib.loads(project.read_text("utf-8"))["project"]["optional-dependencies"]
        return ["-c", str(_ROOT / "packaging" / "constraints.txt"), *extras["torch"]]
    asked = metadata.requires("duotail") or []
    return [each.partition(";")[0].strip() for each in asked if 'extra == "torch"' in each]


def _check(folder: Path, nbytes: int) -> None:
    """Refuse what cannot work before anything is downloaded."""
    if find_spec("pip") is None:
        raise UserFixable(
            tr("Duotail's environment has no pip, which would install PyTorch."),
            tr("Install it with the program that installed Duotail: {packages}.").format(
                packages="duotail[torch]"
            ),
            str(folder),
        )
    if not os.access(folder, os.W_OK):
        raise UserFixable(
            tr("Nothing can be written to the folder that Duotail is installed in."),
            tr("Ask whoever installed Duotail to install PyTorch."),
            str(folder),
        )
    free = shutil.disk_usage(folder).free
    if free < nbytes:
        raise UserFixable(
            tr("PyTorch needs {size} on the disk, and {free} are free.").format(
                size=file_size(nbytes), free=file_size(free)
            ),
            tr("Free some space, then try again."),
            str(folder),
        )


def _run(
    command: list[str],
    work: Path,
    nbytes: int,
    progress: Progress,
    cancelled: Callable[[], bool],
) -> None:
    """Run pip; what it has fetched so far lies in `work`."""
    with (work / "output").open("w+b") as output:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(work), "TMP": str(work), "TEMP": str(work)},
            start_new_session=True,
        )
        fraction = 0.0
        try:
            while process.poll() is None:
                if cancelled():
                    raise Cancelled
                fraction = max(fraction, min(_held(work) / nbytes, 1.0))
                progress(tr("Downloading PyTorch"), fraction)
                try:
                    process.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            _end(process)
        if process.returncode != 0:
            output.seek(0)
            raise _failure(output.read().decode(errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End pip and what it has started."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def _held(folder: Path) -> int:
    """Bytes of the files in a folder, of which some may be gone by now."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(at, name)).st_size
            except OSError:
                continue
    return total


def _failure(said: str) -> UserFixable:
    if _FULL.search(said):
        return UserFixable(
            tr("The disk is full."), tr("Free some space, then try again."), said[-_MOST_SAID:]
        )
    if _OFFLINE.search(said):
        return UserFixable(
            tr("PyTorch cannot be downloaded: the connection is missing, or it broke off."),
            tr("Try again when this computer is online; files that are complete are kept."),
            said[-_MOST_SAID:],
        )
    return UserFixable(
        tr("PyTorch could not be installed."),
        tr("The details say why; the previous installation is unchanged."),
        said[-_MOST_SAID:],
    )


def _build_options(pip: list[str], *, cuda: bool) -> list[str]:
    """Options with which pip takes the build that is wanted.

    The Package Index has the one for CUDA on Linux, and that for the CPU elsewhere.

    Raises:
        UserFixable: only the large build can be had, and it was not asked for.
    """
    if cuda:
        return [] if sys.platform == "linux" else ["--extra-index-url", CUDA_INDEX]
    if sys.platform != "linux":
        return []
    if answers(CPU_INDEX + "/torch/", seconds=5):
        return ["--extra-index-url", CPU_INDEX]
    asked = [*pip, "install", "-q", "--dry-run", "--no-deps", "--report", "-", *requirements()]
    found = subprocess.run(asked, capture_output=True, check=False)  # noqa: S603
    if is_cuda_build(found.stdout):
        raise UserFixable(
            tr("Only PyTorch's build for CUDA is available, a download of {size}.").format(
                size=file_size(CUDA_DOWNLOAD_BYTES)
            ),
            tr(
                "Try again when {site} answers, or take that build: `duotail pytorch --cuda`."
            ).format(site=CPU_INDEX),
        )
    return []


def answers(url: str, seconds: float) -> bool:
    """Return whether `url` can be fetched within `seconds`, name lookup included."""
    reached: list[bool] = []

    def fetch() -> None:
        request = Request(url, method="HEAD")  # noqa: S310 - a constant of ours
        try:
            with urlopen(request, timeout=seconds):  # noqa: S310
                reached.append(True)
        except OSError:
            pass

    thread = Thread(target=fetch, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(reached)


def is_cuda_build(report: bytes) -> bool:
    """Return whether the PyTorch of pip's report brings CUDA along."""
    try:
        found = [
            each["metadata"].get("requires_dist", []) for each in json.loads(report)["install"]
        ]
    except (ValueError, KeyError):
        return False  # pip could not tell; it says why when it installs
    needed = [line for each in found for line in each if line.startswith(("nvidia-", "cuda-"))]
    own = platform.machine()
    return any("platform_machine" not in line or own in line for line in needed)


def is_complete(*, cuda: bool = False) -> bool:
    """Return whether PyTorch is here, and computes with CUDA if that is asked for."""
    return pytorch.is_installed() and (not cuda or _computes_with_cuda())


def _computes_with_cuda() -> bool:
    build = torch_build()
    return build is not None and bool(build.cuda)
