"""The check whether a device's products go through kernels; where not, the reason in words.

The kernels need Triton, which comes with torch's builds for NVIDIA, AMD and Intel on Linux.
DUOTAIL_KERNELS=off leaves them out, for tests and for tracking down wrong numbers.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

from engine.backend.accelerator.driver import Driver
from engine.language import tr

_LEAST_CAPABILITY = (8, 0)  # of NVIDIA's: copies ahead of the arithmetic


def reason_against(driver: Driver) -> str:
    """Return why there are no kernels for a device; empty where there are."""
    if driver.kind not in ("cuda", "rocm", "xpu"):
        return tr("There are no kernels for this kind of device.")
    if os.environ.get("DUOTAIL_KERNELS", "").lower() == "off":
        return tr("Kernels are switched off by DUOTAIL_KERNELS.")
    if find_spec("triton") is None:
        return tr("Triton is not installed.")
    if driver.kind == "cuda":
        found = torch.cuda.get_device_capability(driver.device)
        if found < _LEAST_CAPABILITY:
            return tr("Kernels need compute capability {least}; this card has {found}.").format(
                least="{}.{}".format(*_LEAST_CAPABILITY), found="{}.{}".format(*found)
            )
    return ""
