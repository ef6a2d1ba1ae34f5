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
PIP = [str(PYTHON), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
TILE_CONFIG = ROOT / "packaging" / "amx_tile_config.h"


def requirements(extra: str = "peer") -> list[str]:
    """What an extra of pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project["optional-dependencies"][extra])


def cmake_arguments(header: Path) -> str:
    """CMAKE_ARGS for all that this processor has; quoted as a shell would want it."""
    arguments = ["-DGGML_NATIVE=ON", "-DLLAVA_BUILD=OFF"]
    if os.name != "nt":
        arguments.append(f"-DCMAKE_CXX_FLAGS=-include {shlex.quote(str(header))}")
    return shlex.join(arguments)


def works(names: str = "llama_cpp, gguf") -> bool:
    """Whether packages are there and start."""
    if not PYTHON.exists():
        return False
    check = [str(PYTHON), "-c", f"import {names}"]
    return subprocess.run(check, stderr=subprocess.DEVNULL).returncode == 0


def set_up() -> None:
    """Make `.venv-peer`, build llama.cpp into it, and add the wheel of the one that drafts."""
    if not works():
        build()
    if not works("xllamacpp"):
        # A wheel or nothing: all other comparisons go without it.
        wheel = [*PIP, "--only-binary", ":all:", *requirements("peer-draft")]
        if subprocess.run(wheel).returncode:
            say(
                "There is no llama.cpp that drafts for this computer: --peer llama.cpp-draft fails."
            )


def build() -> None:
    """Make `.venv-peer` anew and build llama.cpp into it."""
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++", "cl")):
        raise SetupProblem(
            "llama.cpp needs a C++ compiler (on Debian and Ubuntu: sudo apt-get install g++)."
        )
    say("Building llama.cpp in .venv-peer; this takes some minutes, once.")
    run([sys.executable, "-m", "venv", "--clear", str(VENV)], ".venv-peer could not be created.")
    os.environ["CMAKE_ARGS"] = cmake_arguments(TILE_CONFIG)
    # pip's cache may hold a build with other arguments.
    run(
        [*PIP, "--no-cache-dir", *requirements()],
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
