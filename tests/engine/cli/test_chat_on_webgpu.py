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


GREEDY, SAMPLED = ("--temperature", "0"), ("--temperature", "1", "--seed", "5")


@pytest.mark.release(keep=1, reason="compiles shaders for each process")
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_dovetail_writes_the_text_of_plain_decoding(
    sampling: tuple[str, ...], duotail: Duotail
) -> None:
    """Three blocks on the device, the others native; the draft on the device."""
    there = (*ON_DEVICE, *sampling, "--layers-on-gpu", "3")
    drafted, plain = (duotail(*there, "--mode", mode) for mode in ("dovetail", "plain"))
    assert (drafted.code, plain.code) == (0, 0), drafted.err + plain.err
    assert drafted.json["signature"] == plain.json["signature"]
    assert drafted.json["signature"].startswith("webgpu:")
    assert drafted.json["tokens"] == plain.json["tokens"]
    assert drafted.json["mode"] == "dovetail"
    assert drafted.json["acceptance_length"] > 1


@pytest.mark.release(reason="compiles shaders for each process")
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_duo_writes_the_text_of_plain_decoding(sampling: tuple[str, ...], duotail: Duotail) -> None:
    """The target on the device; plain decoding may have the output matrix on the CPU."""
    there = (*ON_DEVICE, *sampling, "--layers-on-gpu", "all")
    drafted, plain = (duotail(*there, "--mode", mode) for mode in ("duo", "plain"))
    assert drafted.json["mode"] == "duo"
    assert drafted.json["signature"].startswith("webgpu:")
    assert drafted.json["tokens"] == plain.json["tokens"]


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
