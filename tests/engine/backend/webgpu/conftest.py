"""All tests here run on a WebGPU adapter: a software one will do, and is what CI has."""

from __future__ import annotations

import pytest

from engine.backend.webgpu.adapters import adapters, is_installed


@pytest.fixture(autouse=True)
def _adapter() -> None:
    if not is_installed():
        pytest.skip("wgpu is not installed")
    if not adapters():
        pytest.skip("no WebGPU adapter here (Debian: mesa-vulkan-drivers)")
