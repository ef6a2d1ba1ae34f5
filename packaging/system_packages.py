"""What Duotail needs of the system, and the packages of Debian and Ubuntu that hold it.

Root gets them installed, everybody else the command. Plain standard library, old Python included.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import library_build
import qt_libraries
from told import ROOT, SetupProblem, say

VULKAN_DRIVERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")


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


def check_compiler() -> None:
    """Without a compiler and without a wheel Duotail runs all the same, but slower."""
    if library_build.can_build() or os.environ.get("DUOTAIL_LIBRARY") == "none":
        return
    packages = ["gcc", "libc6-dev"]
    if shutil.which("apt-get") and os.geteuid() == 0:
        install_system_packages(packages, "The fast engine needs a C compiler.")
        return
    say(
        "No C compiler here, and no wheel of this version in dist/: Duotail will compute with "
        "PyTorch instead, which is a larger download and several times slower. To mend that, put "
        "such a wheel there or run `sudo apt-get install {}` (or what your system has), then "
        "make.".format(" ".join(packages))
    )


def check_kernels(python: Path) -> None:
    """The kernels for NVIDIA's cards are compiled when they are first used; without, it is slow."""
    code = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('include'))"
    told = subprocess.run([str(python), "-c", code], stdout=subprocess.PIPE)
    major, minor, headers = told.stdout.decode().strip().split(" ", 2)
    packages = [] if any(map(shutil.which, ("gcc", "clang"))) else ["gcc", "libc6-dev"]
    if not Path(headers, "Python.h").is_file():
        packages.append(f"python{major}.{minor}-dev")
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


def check_qt(venv: Path, platforms: "list[str]") -> None:
    """Make sure that at least one of these Qt platform plugins finds its system libraries."""
    if sys.platform != "linux":
        return
    pyside = next(venv.glob("lib/python3.*/site-packages/PySide6"))
    missing = [qt_libraries.missing(pyside, platform) for platform in platforms]
    if not all(missing):
        return
    libraries = missing[-1]
    why = "Qt, which draws the window, misses system libraries: {}.".format(", ".join(libraries))
    packages = qt_libraries.debian_packages(libraries)
    if not packages:
        raise SetupProblem(why + " Install them with your system's package manager.")
    install_system_packages(packages, why)
