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
    """What torch/version.py says; a version of CUDA, ROCm or oneAPI is empty where it has none."""

    version: str
    cuda: str = ""
    hip: str = ""
    xpu: str = ""

    @property
    def vendor(self) -> Vendor | None:
        """Whose accelerators it computes on beside the CPU; None: on no other device.

        torch for macOS says nothing: every build of it computes on Apple's.
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
    """What a torch/version.py says; None if it is none. Nothing in it is executed."""
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
