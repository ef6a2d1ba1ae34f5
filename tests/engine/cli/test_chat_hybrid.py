"""`duotail chat` with a model that keeps states: transformers' tokens in every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Duotail
from hybrid_models import UNLIKE, with_mtp
from tiny_models import reference, write_chat_model

from engine.backend.webgpu.adapters import adapters
from engine.model.local_model import LocalModel
from engine.request import ChatRequest, Message, Role
from engine.session.answer import read

STORY = "Tell me a story about a fox, a fox and a fox."
TOKENS = 12
LAYERS = {"dovetail": "2", "duo": "all"}
LATER = pytest.mark.release(reason="compiles shaders")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Qwen3.5 with its own head, its weights exact in 16 bits."""
    root = tmp_path_factory.mktemp("hybrid")
    without = write_chat_model(root / "without", "qwen3_5_text", **UNLIKE, dtype=torch.bfloat16)
    return with_mtp(without, root / "model")


@pytest.fixture(scope="module")
def expected(hybrid: Path) -> list[int]:
    """What transformers writes."""
    own = LocalModel.inspect(hybrid)
    request = ChatRequest("a", (Message(Role.USER, STORY),))
    prompt = list(read(request, own.template(), own.tokenizer()).ids)
    model: Any = reference(hybrid)
    with torch.no_grad():
        found = model.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False)
    tokens: list[int] = found[0, len(prompt) :].tolist()
    return tokens


@pytest.mark.parametrize(
    ("mode", "draft"),
    [
        ("plain", "none"),
        ("cpu", "lookup"),
        ("cpu", "mtp"),
        ("dovetail", "mtp"),
        ("duo", "mtp"),
        pytest.param("dovetail", "lookup", marks=LATER),
    ],
)
def test_every_mode(
    mode: str, draft: str, hybrid: Path, expected: list[int], duotail: Duotail
) -> None:
    asked = ("chat", "--json", "--model", hybrid, "--prompt", STORY, "--temperature", "0")
    asked += ("--max-tokens", str(TOKENS), "--format", "bf16", "--mode", mode, "--draft", draft)
    if mode in LAYERS:
        if not adapters():
            pytest.skip("no WebGPU adapter, or wgpu is not installed (Debian: mesa-vulkan-drivers)")
        asked += ("--device", "webgpu:0", "--vram", "2", "--layers-on-gpu", LAYERS[mode])
    done = duotail(*asked)
    assert done.code == 0, done.err
    assert done.json["mode"] == mode
    assert done.json["tokens"] == expected
    assert done.json["signature"].startswith("webgpu:" if mode in LAYERS else "cpu:")
    assert (done.json["rounds"] > done.json["plain_rounds"]) == (draft == "mtp")
