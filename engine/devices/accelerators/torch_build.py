"""Which accelerators the installed torch is built for, told without importing it.

Importing takes a second or two and a few hundred megabytes, so it waits until there is an
accelerator that this build could use.
"""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from engine.machine.facts import Vendor


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """Version facts of torch/version.py; "" for each of CUDA, ROCm and oneAPI that it lacks."""

    version: str
    cuda: str = ""
    hip: str = ""
    xpu: str = ""

    @property
    def vendor(self) -> Vendor | None:
        """Vendor of the accelerators that this torch computes on; None: CPU only.

        torch for macOS names no vendor: every build of it computes on Apple's.
        """
        if self.hip:
            return Vendor.AMD
        if self.cuda:
            return Vendor.NVIDIA
        return Vendor.INTEL if self.xpu else None


def torch_build() -> TorchBuild | None:
    """The installed torch; None without one."""
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if found is None or not found.origin:
        return None
    try:
        return read_build(Path(found.origin).with_name("version.py").read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def read_build(source: str) -> TorchBuild | None:
    """Parse the source of a torch/version.py without executing it; None if it is none."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    told: dict[str, str] = {}
    for line in body:
        if isinstance(line, ast.Assign):
            names: list[ast.expr] = line.targets
        elif isinstance(line, ast.AnnAssign):
            names = [line.target]
        else:
            continue
        if isinstance(line.value, ast.Constant) and isinstance(line.value.value, str):
            told |= {name.id: line.value.value for name in names if isinstance(name, ast.Name)}
    version = told.get("__version__", "")
    # Older builds for Intel's say so in the version alone.
    xpu = told.get("xpu", "") or ("+xpu" in version and version) or ""
    return TorchBuild(version, told.get("cuda", ""), told.get("hip", ""), xpu) if version else None
