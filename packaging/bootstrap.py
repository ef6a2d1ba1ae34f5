"""Set up Duotail in `.venv`, once, and say in plain words what a person has to do where it cannot.

    python3 packaging/bootstrap.py [--dev] [--screen] [--gpu cuda]

`--dev` adds what the tests and checks need, `--screen` makes sure that a window can open here,
`--gpu cuda` takes PyTorch's large build for NVIDIA's cards, which nobody gets without asking: GPUs
of every maker are reached through WebGPU, which is always installed. PyTorch for the CPU comes with
the test tools, and where the native library can neither be built nor taken out of a wheel.
Plain standard library, and it parses on old Python, so that it can say which one is needed.
"""

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import library_build
import packages
import qt_libraries
from library_build import NATIVE, LibraryBuild
from system_packages import (
    check_compiler,
    check_kernels,
    check_qt,
    check_software_gpu,
    install_system_packages,
    run,
)
from told import ROOT, SetupProblem, Status, say

VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
LOCK = ROOT / ".setup.lock"

OLDEST, NEWEST = (3, 11), (3, 14)
NVIDIA_DRIVER = ("/proc/driver/nvidia/version", "/usr/lib/wsl/lib/libcuda.so.1")

# In MB, measured on Linux x86-64 with the pinned versions; the CUDA build is an estimate.
DOWNLOAD_MB = {"Qt": 80, "the rest": 42}
DOWNLOAD_TORCH_MB = {"PyTorch for the CPU": 220}
DOWNLOAD_CUDA_MB = {"PyTorch with CUDA": 3300}
DOWNLOAD_DEV_MB = {"test tools": 275}  # 200 are Triton
DOWNLOAD_STARTER_MB = {"the starter model": 93}
DISK_MB, DISK_TORCH_MB, DISK_CUDA_MB, DISK_DEV_MB, DISK_STARTER_MB = 600, 1000, 7000, 1100, 200

# What `starter.py` fetches; engine/hub/starter.py has all that is known of it.
STARTER = ROOT / "resources/models/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
STARTER_BYTES = 98362432


def pick_python(candidates: "list[tuple[str, tuple[int, int]]]") -> "str | None":
    """The first interpreter of a version that is tested, else the first that is new enough."""
    tested = [path for path, version in candidates if OLDEST <= version <= NEWEST]
    newer = [path for path, version in candidates if version > NEWEST]
    return next(iter(tested + newer), None)


def pythons_here() -> "list[tuple[str, tuple[int, int]]]":
    """Interpreters that really run, with their versions: this one first, then those on PATH."""
    found = [(sys.executable, (sys.version_info[0], sys.version_info[1]))]
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    for path in filter(None, map(shutil.which, [*names, "python3"])):
        version = _version(path)
        if version:
            found.append((path, version))
    return found


def _version(python: str) -> "tuple[int, int] | None":
    code = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20
        )
        major, minor = answer.stdout.split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None  # a shim without an interpreter behind it
    return int(major), int(minor)


def fingerprint(root: Path) -> str:
    """What the packages in `.venv` depend on: requirements, pins and the folder's place."""
    digest = hashlib.sha256(str(root).encode())
    for file in (root / "pyproject.toml", root / "packaging" / "constraints.txt"):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def stamps(venv: Path, dev: bool, cuda: bool = False) -> "list[Path]":
    """Files that tell of a finished set-up; one with more in it serves those with less as well."""
    found = [venv / (".duotail-dev" + end) for end in ("", "-cuda")]
    if not dev:
        found = [venv / (".duotail-run" + end) for end in ("", "-cuda")] + found
    return [file for file in found if file.name.endswith("-cuda")] if cuda else found


def is_set_up(venv: Path, dev: bool, wanted: str, cuda: bool = False) -> bool:
    """Whether `.venv` was set up for the fingerprint `wanted`."""
    return any(file.exists() and file.read_text() == wanted for file in stamps(venv, dev, cuda))


def download_words(cuda: bool, torch: bool, dev: bool, starter: bool) -> str:
    """What will be downloaded, part by part."""
    parts = dict(DOWNLOAD_MB)
    if cuda or torch:
        parts.update(DOWNLOAD_CUDA_MB if cuda else DOWNLOAD_TORCH_MB)
    if dev:
        parts.update(DOWNLOAD_DEV_MB)
    if starter:
        parts.update(DOWNLOAD_STARTER_MB)
    listed = ", ".join(f"{name} {_size(mb)}" for name, mb in parts.items())
    return f"about {_size(sum(parts.values()))} ({listed})"


def _size(mb: int) -> str:
    return f"{mb / 1000:.1f} GB" if mb >= 1000 else f"{mb} MB"


def has_nvidia_driver() -> bool:
    """Whether an NVIDIA driver is here, so that the large build of PyTorch is of use."""
    return any(Path(file).exists() for file in NVIDIA_DRIVER)


@contextlib.contextmanager
def locked() -> "Iterator[None]":
    """Keep other set-ups of this folder out: they wait, and go on from what this one has done.

    Raises:
        SetupProblem: nothing can be written to the folder.
    """
    try:
        lock = LOCK.open("w")
    except OSError as error:
        raise SetupProblem(
            f"Duotail is set up in its folder, and nothing can be written there ({error}). Copy "
            f"it to a folder of yours, as in `cp -r '{ROOT}' ~/duotail`, and run make there."
        ) from error
    with lock:
        if sys.platform != "win32":
            import fcntl

            os.set_inheritable(lock.fileno(), True)  # what it starts may outlive it
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say("Another set-up is at work in this folder: waiting until it is done.")
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_venv() -> None:
    """Create `.venv` with a suitable Python, or keep the one that is there and works."""
    if venv_works():
        return
    pythons = pythons_here()
    python = pick_python(pythons)
    if python is None:
        newest = max(version for _, version in pythons)
        raise SetupProblem(
            "Duotail needs Python {}.{} or newer, and the newest one found here is {}.{}: install "
            "one from https://www.python.org/downloads/ or with your system's package "
            "manager.".format(*OLDEST, *newest)
        )
    probe = [python, "-c", "import venv, ensurepip"]
    if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode != 0:
        package = "python{}.{}-venv".format(*(_version(python) or OLDEST))
        install_system_packages([package], f"{python} comes without its venv module.")
    say(f"Creating .venv with {python}")
    run([python, "-m", "venv", "--clear", str(VENV)], "The folder .venv could not be created.")


def venv_works() -> bool:
    """Whether `.venv` is there, runs, and lies where it was made (its scripts hold its path)."""
    if not PYTHON.exists() or (_version(str(PYTHON)) or (0, 0)) < OLDEST:
        return False
    lines = (VENV / "pyvenv.cfg").read_text().splitlines()
    if any(line.startswith("command =") and str(VENV) not in line for line in lines):
        return False
    pip = [str(PYTHON), "-m", "pip", "--version"]
    return subprocess.run(pip, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def install(dev: bool, cuda: bool, status: Status) -> None:
    """Install Duotail and everything that it needs into `.venv`."""
    starter, torch = not starter_is_here(), needs_torch(dev, cuda)
    if PYTHON.with_name("duotail").exists():
        tools = dev and not PYTHON.with_name("pytest").exists()
        added = "adding the test tools ({} MB)".format(*DOWNLOAD_DEV_MB.values())
        say("Bringing .venv up to date{}.".format(f", {added}" if tools else ""))
    else:
        needed = DISK_MB + (DISK_DEV_MB if dev else 0) + (DISK_STARTER_MB if starter else 0)
        check_disk(needed + (DISK_CUDA_MB if cuda else DISK_TORCH_MB if torch else 0))
        say(f"Downloading {download_words(cuda, torch, dev, starter)}; later starts skip this.")
    kept = {} if os.environ.get("DUOTAIL_LIBRARY") else {"DUOTAIL_LIBRARY": "kept"}
    packages.install(PYTHON, ["-e", ".[dev]" if dev else "."], status, **kept)
    if torch:
        install_torch(cuda, status)


def needs_torch(dev: bool, cuda: bool) -> bool:
    """Whether PyTorch is fetched now: others get it when they need it, with a click."""
    return dev or cuda or not library_build.can_build()


def install_torch(cuda: bool, status: Status) -> None:
    """Have Duotail fetch PyTorch, as it does from the window."""
    status.update("packages:", "fetching PyTorch")
    command = [str(PYTHON.with_name("duotail")), "pytorch", *(["--cuda"] if cuda else [])]
    told = subprocess.run(
        command, cwd=str(ROOT), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, close_fds=False
    )
    status.update("packages:", "")
    if told.returncode:
        raise SetupProblem(
            told.stderr.decode(errors="replace").strip() + "\nThen run make again: what was done "
            "stays."
        )


def starter_is_here() -> bool:
    """Whether the starter model is there; a file of that name is whole, or of another size."""
    return STARTER.exists() and STARTER.stat().st_size == STARTER_BYTES


def fetch_starter() -> None:
    """Fetch the starter model if it is not there; without it, all else works."""
    if not starter_is_here():
        subprocess.run([str(PYTHON), str(ROOT / "packaging" / "starter.py")], cwd=str(ROOT))


def check_disk(needed_mb: int) -> None:
    """Refuse to begin what would fill the disk."""
    free_mb = shutil.disk_usage(str(ROOT)).free // 1_000_000
    if free_mb < needed_mb:
        raise SetupProblem(
            f"Duotail needs about {_size(needed_mb)} on this disk, and {_size(free_mb)} are free."
        )


def check_native() -> None:
    """Load the engine's core once, where there is one."""
    if not NATIVE.exists():
        return
    code = "from engine.backend.native.library import library; library()"
    result = subprocess.run([str(PYTHON), "-c", code], cwd=str(ROOT), stderr=subprocess.PIPE)
    if result.returncode != 0:
        detail = result.stderr.decode(errors="replace").strip()
        raise SetupProblem(
            f"Duotail's native library {NATIVE} does not load on this machine: delete it, and the "
            "wheel in dist/ if it comes from there, then run make again. It says:\n" + detail
        )


def import_window() -> None:
    """Start Qt once, without a screen, and import what a start does, which compiles it.

    What is compiled is kept, whatever the environment says: else every start takes twice as long.
    """
    code = (
        "from PySide6.QtWidgets import QApplication; QApplication([]); "
        "import app.application, app.performance.panel, engine.service.engine"
    )
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen", PYTHONDONTWRITEBYTECODE="")
    command = [str(PYTHON), "-c", code]
    result = subprocess.run(command, cwd=str(ROOT), stderr=subprocess.PIPE, env=environment)
    if result.returncode != 0:
        detail = result.stderr.decode(errors="replace").strip()
        raise SetupProblem("The window does not start on this machine. It says:\n" + detail)


def set_up(dev: bool, platforms: "list[str]", screen: bool, cuda: bool) -> None:
    """Bring `.venv` and the native library up to date; Qt has to work with one of `platforms`.

    A starter model that could not be fetched is asked for again, but not before a window opens:
    the window offers it.
    """
    wanted = fingerprint(ROOT)
    if is_ready(dev, wanted, cuda):
        if not screen:
            fetch_starter()
        return
    with locked():
        if not is_ready(dev, wanted, cuda):  # another one has just done it
            bring_up_to_date(dev, platforms, cuda)
            stamps(VENV, dev, cuda)[0].write_text(wanted)


def is_ready(dev: bool, wanted: str, cuda: bool) -> bool:
    """Whether packages and library are here; a processor may have changed since they were got."""
    if not is_set_up(VENV, dev, wanted, cuda):
        return False
    return library_build.is_current(all_sets=dev)


def bring_up_to_date(dev: bool, platforms: "list[str]", cuda: bool) -> None:
    """Get packages, native library and starter model, and see that all of it works."""
    started = time.monotonic()
    check_compiler()
    status = Status()
    library = LibraryBuild(dev, status)
    try:
        make_venv()
        if not is_set_up(VENV, dev, fingerprint(ROOT), cuda):
            prepare_gpu(cuda)
            install(dev, cuda, status)
        installed = time.monotonic()
        fetch_starter()
        fetched = time.monotonic()
        library.wait()
    finally:
        library.stop()
        status.end()
    compiled = time.monotonic()
    if dev:
        check_software_gpu()
    check_native()
    check_qt(VENV, platforms)
    import_window()
    ready = time.monotonic()
    say(
        f"Ready after {ready - started:.0f} s: packages {installed - started:.0f}, starter model "
        f"{fetched - installed:.0f}, waited for the compiler {compiled - fetched:.0f} (it took "
        f"{library.seconds:.0f} beside them), first start {ready - compiled:.0f}."
    )


def prepare_gpu(cuda: bool) -> None:
    """See to what PyTorch's kernels need, or say what there is for an NVIDIA card."""
    if cuda:
        check_kernels(PYTHON)
    elif has_nvidia_driver():
        say(
            "An NVIDIA driver is here: Duotail uses the GPU through WebGPU; `make run GPU=cuda` "
            f"adds PyTorch's build for CUDA ({_size(*DOWNLOAD_CUDA_MB.values())})."
        )


def main() -> int:
    """Run the set-up; 0 when all is ready."""
    parser = argparse.ArgumentParser(description="Set up Duotail in .venv")
    parser.add_argument("--dev", action="store_true", help="add what tests and checks need")
    parser.add_argument("--screen", action="store_true", help="make sure that a window can open")
    parser.add_argument("--gpu", choices=["", "cuda"], default="", help="PyTorch's build for a GPU")
    options = parser.parse_args()
    platforms = qt_libraries.platforms_for_screen(dict(os.environ))
    try:
        if options.screen and sys.platform == "linux" and not platforms:
            raise SetupProblem(
                "There is no screen here (neither DISPLAY nor WAYLAND_DISPLAY is set): run "
                "`make run` from a desktop session, or `make setup` and then "
                '`.venv/bin/duotail chat --prompt "Hello"` to chat in the terminal.'
            )
        wanted = platforms if options.screen else ["offscreen"]
        # What was asked for once stays.
        cuda = options.gpu == "cuda" or any(file.exists() for file in stamps(VENV, False, True))
        set_up(options.dev, wanted, options.screen, cuda)
        if options.screen:
            check_qt(VENV, platforms)  # a set-up without a screen did not look for these
    except SetupProblem as problem:
        sys.stderr.write(f"\n{problem}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. Run make again to go on.\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
