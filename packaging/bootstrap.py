"""Set up Duotail in `.venv`, once, and say in plain words what a person has to do where it cannot.

    python3 packaging/bootstrap.py [--dev] [--screen] [--gpu cuda]

`--dev` adds what the tests and checks need, `--screen` makes sure that a window can open here,
`--gpu cuda` takes PyTorch's large build for NVIDIA's cards, which nobody gets without asking: GPUs
of every maker are reached through WebGPU, which is always installed.
Plain standard library, and it parses on old Python, so that it can say which one is needed.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import prebuilt
import qt_libraries

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "engine" / prebuilt.LIBRARY
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"

OLDEST, NEWEST = (3, 11), (3, 14)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_INDEX = "https://download.pytorch.org/whl/cu130"
NVIDIA_DRIVER = ("/proc/driver/nvidia/version", "/usr/lib/wsl/lib/libcuda.so.1")
VULKAN_DRIVERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")

# In MB, measured on Linux x86-64 with the pinned versions; the CUDA build is an estimate.
DOWNLOAD_MB = {"PyTorch for the CPU": 195, "Qt": 80, "the rest": 60}
DOWNLOAD_CUDA_MB = {"PyTorch with CUDA": 3300, "Qt": 80, "the rest": 60}
DOWNLOAD_DEV_MB = {"test tools": 275}  # 200 are Triton
DOWNLOAD_STARTER_MB = {"the starter model": 93}
DISK_MB, DISK_CUDA_MB, DISK_DEV_MB, DISK_STARTER_MB = 1500, 7600, 1100, 200

# What `starter.py` fetches; engine/hub/starter.py has all that is known of it.
STARTER = ROOT / "resources/models/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
STARTER_BYTES = 98362432


class SetupProblem(Exception):
    """Something a person has to mend; the message is all they need to read."""


def say(text: str) -> None:
    """Write a line for the person who waits."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


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
    """What a finished set-up depends on: requirements, pins, C sources and the folder's place."""
    digest = hashlib.sha256(str(root).encode())
    files = [root / "pyproject.toml", root / "packaging" / "constraints.txt"]
    for file in files + sorted((root / "engine" / "native").glob("*.[ch]")):
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


def download_words(cuda: bool, dev: bool, starter: bool) -> str:
    """What will be downloaded, part by part."""
    parts = dict(DOWNLOAD_CUDA_MB if cuda else DOWNLOAD_MB)
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


def answers(url: str, seconds: float) -> bool:
    """Whether `url` can be fetched within `seconds`, name lookup included."""
    reached = []  # type: list[bool]

    def fetch() -> None:
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310  # a constant of ours
        try:
            with urllib.request.urlopen(request, timeout=seconds):  # noqa: S310
                reached.append(True)
        except OSError:
            pass

    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(reached)


def run(command: "list[str]", what_failed: str) -> None:
    """Run a command with its output in view."""
    if subprocess.run(command, cwd=str(ROOT)).returncode != 0:
        raise SetupProblem(what_failed)


def install_system_packages(packages: "list[str]", why: str) -> None:
    """Install Debian or Ubuntu packages when we are root, else name the command."""
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise SetupProblem(
            f"{why} Install what is missing with your system's package manager (on Debian and "
            f"Ubuntu: {names}), then run make again."
        )
    if os.geteuid() != 0:
        raise SetupProblem(
            f"{why} Install what is missing with:\n\n  sudo apt-get install {names}\n"
        )
    say(f"{why} Installing {names}")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    subprocess.run(["apt-get", "update", "-qq"])
    command = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages]
    run(command, f"{why} This command could not mend it: apt-get install {names}")


def can_build_native() -> bool:
    """Return whether the engine's core, which is C, can be compiled or comes out of a wheel."""
    if os.environ.get("DUOTAIL_LIBRARY"):
        return os.environ["DUOTAIL_LIBRARY"] != "none"
    compilers = (os.environ.get("CC", "cc").split()[0], "gcc", "clang")
    return any(map(shutil.which, compilers)) or prebuilt.prebuilt_library() is not None


def check_compiler() -> None:
    """Without a compiler and without a wheel Duotail runs all the same, but slower."""
    if can_build_native() or os.environ.get("DUOTAIL_LIBRARY") == "none":
        return
    packages = ["gcc", "libc6-dev"]
    if shutil.which("apt-get") and os.geteuid() == 0:
        install_system_packages(packages, "The fast engine needs a C compiler.")
        return
    say(
        "No C compiler here, and no wheel of this version in dist/: Duotail will work, but several "
        "times slower. To mend that, put such a wheel there or run `sudo apt-get install {}` (or "
        "what your system has), then make.".format(" ".join(packages))
    )


def check_kernels() -> None:
    """The kernels for NVIDIA's cards are compiled when they are first used; without, it is slow."""
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    told = subprocess.run([str(PYTHON), "-c", code], stdout=subprocess.PIPE)
    packages = [] if any(map(shutil.which, ("gcc", "clang"))) else ["gcc", "libc6-dev"]
    if not Path(told.stdout.decode().strip(), "Python.h").is_file():
        packages.append("python{}.{}-dev".format(*(_version(str(PYTHON)) or OLDEST)))
    if not packages:
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        install_system_packages(packages, "The GPU's kernels need a C compiler and headers.")
        return
    say(
        "The GPU will be slow, or not be used: its kernels need a C compiler and Python's headers. "
        "To mend that, run `sudo apt-get install {}` (or what your system has), then "
        "make.".format(" ".join(packages))
    )


def check_software_gpu() -> None:
    """The tests of WebGPU need an adapter, and are skipped without one: one in software will do."""
    found = any(file for folder in VULKAN_DRIVERS for file in Path(folder).glob("*.json"))
    if found or sys.platform != "linux":
        return
    try:
        why = "Tests of GPUs need a driver of Vulkan, if in software."
        install_system_packages(["mesa-vulkan-drivers"], why)
    except SetupProblem as problem:
        say(f"{problem}\nGoing on without; those tests are skipped.")


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


def install(dev: bool, cuda: bool) -> None:
    """Install Duotail and everything that it needs into `.venv`."""
    starter = not starter_is_here()
    if PYTHON.with_name("duotail").exists():
        tools = dev and not PYTHON.with_name("pytest").exists()
        added = "adding the test tools ({} MB)".format(*DOWNLOAD_DEV_MB.values())
        say("Bringing .venv up to date{}.".format(f", {added}" if tools else ""))
    else:
        needed = (DISK_CUDA_MB if cuda else DISK_MB) + (DISK_DEV_MB if dev else 0)
        check_disk(needed + (DISK_STARTER_MB if starter else 0))
        say(f"Downloading {download_words(cuda, dev, starter)}; later starts skip this.")
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    pip += ["-c", str(CONSTRAINTS)]
    if not sys.stdout.isatty():
        pip += ["-q"]
    failed = (
        "Installing did not work: the lines above say why. If this machine was offline or the "
        "download broke off, run make again; what is done stays."
    )
    failed_to_build = failed + (
        " If it was the C compiler that failed, another one may do (make CC=clang), or a wheel of "
        "this version in dist/; DUOTAIL_LIBRARY=none installs Duotail without its native library, "
        "several times slower."
    )
    say("[1/3] PyTorch")
    run([*pip, *build_options(pip, cuda), "torch"], failed)
    if cuda and not has_cuda_build():
        raise SetupProblem(
            "PyTorch's build for CUDA cannot be had for this machine: run make without GPU=cuda."
        )
    say("[2/3] Qt, {}Duotail itself".format("the test tools, " if dev else ""))
    run([*pip, "-e", ".[dev]" if dev else "."], failed_to_build)


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


def build_options(pip: "list[str]", cuda: bool) -> "list[str]":
    """Options with which pip takes the build of PyTorch that is wanted.

    The Package Index has the one for CUDA on Linux, and that for the CPU elsewhere.
    """
    if cuda:
        if not has_cuda_build():
            # Else one for the CPU, which has the same version, would do for pip.
            run([str(PYTHON), "-m", "pip", "uninstall", "-q", "-y", "torch"], "pip did not work.")
        return [] if sys.platform == "linux" else ["--extra-index-url", CUDA_INDEX]
    if sys.platform != "linux":
        return []
    if answers(CPU_INDEX + "/torch/", seconds=5):
        return ["--extra-index-url", CPU_INDEX]
    say(f"{CPU_INDEX} does not answer: asking for the build that pip finds elsewhere.")
    asked = [*pip, "-q", "--dry-run", "--no-deps", "--report", "-", "torch"]
    if is_cuda_build(subprocess.run(asked, stdout=subprocess.PIPE).stdout):
        raise SetupProblem(
            f"Only PyTorch's build for CUDA can be had here (3.3 GB), as {CPU_INDEX} does not "
            "answer. Run make again when it does, or `make run GPU=cuda` to take that build."
        )
    return []


def has_cuda_build() -> bool:
    """Whether PyTorch is in `.venv`, and computes with CUDA."""
    code = "import torch; raise SystemExit(not torch.version.cuda)"
    return subprocess.run([str(PYTHON), "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def is_cuda_build(report: bytes) -> bool:
    """Whether the PyTorch of pip's report brings CUDA along."""
    try:
        found = [
            each["metadata"].get("requires_dist", []) for each in json.loads(report)["install"]
        ]
    except (ValueError, KeyError):
        return False  # pip could not tell; it says why when it installs
    needed = [line for each in found for line in each if line.startswith(("nvidia-", "cuda-"))]
    own = platform.machine()
    return any("platform_machine" not in line or own in line for line in needed)


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


def pyside_folder() -> Path:
    """Where PySide6 lies in `.venv`."""
    return next(VENV.glob("lib/python3.*/site-packages/PySide6"))


def check_qt(platforms: "list[str]") -> None:
    """Make sure that at least one of these Qt platform plugins finds its system libraries."""
    if sys.platform != "linux":
        return
    missing = [qt_libraries.missing(pyside_folder(), platform) for platform in platforms]
    if not all(missing):
        return
    libraries = missing[-1]
    why = "Qt, which draws the window, misses system libraries: {}.".format(", ".join(libraries))
    packages = qt_libraries.debian_packages(libraries)
    if not packages:
        raise SetupProblem(why + " Install them with your system's package manager.")
    install_system_packages(packages, why)


def import_qt() -> None:
    """Really start Qt once, without a screen."""
    code = "from PySide6.QtWidgets import QApplication; QApplication([])"
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen")
    result = subprocess.run([str(PYTHON), "-c", code], stderr=subprocess.PIPE, env=environment)
    if result.returncode != 0:
        detail = result.stderr.decode(errors="replace").strip()
        raise SetupProblem("Qt does not start on this machine. It says:\n" + detail)


def set_up(dev: bool, platforms: "list[str]", screen: bool, cuda: bool) -> None:
    """Bring `.venv` up to date; Qt has to work with one of `platforms`.

    A starter model that could not be fetched is asked for again, but not before a window opens:
    the window offers it.
    """
    wanted = fingerprint(ROOT)
    if is_set_up(VENV, dev, wanted, cuda) and (NATIVE.exists() or not can_build_native()):
        if not screen:
            fetch_starter()
        return
    started = time.monotonic()
    check_compiler()
    make_venv()
    if cuda:
        check_kernels()
    elif has_nvidia_driver():
        say(
            "An NVIDIA driver is here: Duotail uses the GPU through WebGPU; `make run GPU=cuda` "
            f"adds PyTorch's build for CUDA ({_size(sum(DOWNLOAD_CUDA_MB.values()))})."
        )
    install(dev, cuda)
    if dev:
        check_software_gpu()
    check_native()
    check_qt(platforms)
    import_qt()
    say("[3/3] The starter model")
    fetch_starter()
    stamps(VENV, dev, cuda)[0].write_text(wanted)
    say(f"Ready after {time.monotonic() - started:.0f} s.")


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
            check_qt(platforms)  # a set-up without a screen did not look for these
    except SetupProblem as problem:
        sys.stderr.write(f"\n{problem}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. Run make again to go on.\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
