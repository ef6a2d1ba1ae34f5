"""Opens the accelerators that are really there, each through what drives it."""

from __future__ import annotations

from engine.backend.device import Device
from engine.language import tr
from engine.machine.facts import WEBGPU
from engine.pytorch import need_pytorch


def open_accelerator(name: str, budget: int | None = None, label: str | None = None) -> Device:
    """Open a device by its name in plans; imports wgpu or torch.

    Args:
        name: "webgpu:0", or torch's name.
        budget: most bytes that this process may hold on it; None: no limit of ours.
        label: for people; None: what its driver calls it.

    Raises:
        UserFixable: it cannot be used.
    """
    if name.startswith(WEBGPU):
        from engine.backend.webgpu.device import WebGpuDevice

        return WebGpuDevice(name, budget, label)
    need_pytorch(tr("The device {name}").format(name=name))
    from engine.backend.accelerator.device import TorchDevice

    return TorchDevice(name, budget, label)
