"""Set up llama.cpp in `.venv-peer`, once, for the benchmarks that compare with it.

    .venv/bin/python packaging/peer.py

It is built from source for this processor, which takes some minutes. Duotail's own environment
stays as it is.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from system_packages import run
from told import ROOT, SetupProblem, say

VENV = ROOT / ".venv-peer"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
TILE_CONFIG = ROOT / "packaging" / "amx_tile_config.h"


def requirements() -> list[str]:
    """What the extra `peer` of pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project["optional-dependencies"]["peer"])


def cmake_arguments(header: Path) -> str:
    """CMAKE_ARGS for all that this processor has; quoted as a shell would want it."""
    arguments = ["-DGGML_NATIVE=ON", "-DLLAVA_BUILD=OFF"]
    if os.name != "nt":
        arguments.append(f"-DCMAKE_CXX_FLAGS=-include {shlex.quote(str(header))}")
    return shlex.join(arguments)


def works() -> bool:
    """Whether the packages are there and start."""
    if not PYTHON.exists():
        return False
    check = [str(PYTHON), "-c", "import llama_cpp, gguf"]
    return subprocess.run(check, stderr=subprocess.DEVNULL).returncode == 0


def set_up() -> None:
    """Make `.venv-peer` and build llama.cpp into it."""
    if works():
        return
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++", "cl")):
        raise SetupProblem(
            "llama.cpp needs a C++ compiler (on Debian and Ubuntu: sudo apt-get install g++)."
        )
    say("Building llama.cpp in .venv-peer; this takes some minutes, once.")
    run([sys.executable, "-m", "venv", "--clear", str(VENV)], ".venv-peer could not be created.")
    os.environ["CMAKE_ARGS"] = cmake_arguments(TILE_CONFIG)
    # pip's cache may hold a build with other arguments.
    pip = [str(PYTHON), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(
        [*pip, "--no-cache-dir", *requirements()],
        "llama.cpp could not be installed: the lines above say why.",
    )


def main() -> int:
    """Run the set-up; 0 when the peer is ready."""
    try:
        set_up()
    except SetupProblem as problem:
        sys.stderr.write(f"\n{problem}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. Run make bench-peer again to go on.\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
