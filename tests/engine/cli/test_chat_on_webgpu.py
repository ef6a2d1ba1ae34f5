"""`duotail chat --device webgpu:0`: every mode writes what plain decoding writes there."""

from __future__ import annotations

import pytest
from command_line import Duotail
from folder_models import FOLDER_TARGET

from engine.backend.webgpu.adapters import adapters

STORY = "Tell me a short story about a dog."
ASKED = ("chat", "--json", "--model", FOLDER_TARGET, "--prompt", STORY, "--max-tokens", "24")
ON_DEVICE = (*ASKED, "--device", "webgpu:0", "--vram", "2")


@pytest.fixture(autouse=True)
def _adapter() -> None:
    if not adapters():
        pytest.skip("no WebGPU adapter, or wgpu is not installed (Debian: mesa-vulkan-drivers)")


@pytest.mark.release(keep=1, reason="compiles shaders for each process")
@pytest.mark.parametrize(
    ("mode", "layers"), [("dovetail", "3"), ("duo", "all"), ("dovetail", "all")]
)
@pytest.mark.parametrize(
    "sampling", [("--temperature", "0"), ("--temperature", "1", "--seed", "5")]
)
def test_drafts_change_nothing(
    mode: str, layers: str, sampling: tuple[str, ...], duotail: Duotail
) -> None:
    there = (*ON_DEVICE, *sampling, "--layers-on-gpu", layers)
    drafted = duotail(*there, "--mode", mode)
    plain = duotail(*there, "--mode", "plain")
    assert (drafted.code, plain.code) == (0, 0), drafted.err + plain.err
    assert drafted.json["signature"].startswith("webgpu:")
    if drafted.json["signature"] == plain.json["signature"]:
        assert drafted.json["tokens"] == plain.json["tokens"]
    assert drafted.json["mode"] == mode
    assert drafted.json["acceptance_length"] > 1


def test_a_software_adapter_is_used_where_it_is_named_only(duotail: Duotail) -> None:
    assert duotail(*ASKED, "--mode", "plain").json["signature"].startswith("cpu:")


def test_a_device_that_is_not_there(duotail: Duotail) -> None:
    done = duotail(*ASKED, "--device", "webgpu:77")
    assert done.code == 3
    assert "webgpu:77" in done.err


def test_a_budget_that_does_not_hold_the_model(duotail: Duotail) -> None:
    done = duotail(*ASKED, "--device", "webgpu:0", "--vram", "0.05", "--mode", "plain")
    assert done.code == 2
    assert "GiB" in done.err
