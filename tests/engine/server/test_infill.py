"""llama-server's paths for editors."""

from __future__ import annotations

from pathlib import Path

import pytest
from dialect_bodies import CHAT, TEXT, at_home, streamed, told
from engine_session import PATIENCE
from household import Household
from played_engine import PlayedEngine

from engine.events import FinishReason
from engine.request import RawPrompt


def test_infill() -> None:
    engine = PlayedEngine()
    extra = [{"filename": "a.py", "text": "A = 1"}]
    body = {"input_prefix": "def f(", "input_suffix": "return", "input_extra": extra}
    whole = told("/infill", {**body, "prompt": "x", "n_predict": 9}, engine)
    assert (whole["content"], whole["stop"], whole["stop_type"]) == ("Good day!", True, "eos")
    assert engine.asked.request.raw == RawPrompt("a.py\nA = 1\n\ndef f(x", suffix="return")
    parts = streamed("/infill", body)
    assert "".join(part["content"] for part in parts) == "Good day!"
    assert told("/completion", {"prompt": "Hello"}, engine)["content"] == "Good day!"
    cut = PlayedEngine(reason=FinishReason.LENGTH)
    assert told("/completion", {"prompt": "Hello"}, cut)["stop_type"] == "limit"


FRAMED = "<|fim_prefix|>def add(a, b):\n    return <|fim_suffix|>\n<|fim_middle|>"


@pytest.mark.parametrize(("asked", "parsed"), [({}, True), ({"parse_special": False}, False)])
def test_control_tokens_in_a_prompt_are_tokens(asked: dict[str, bool], parsed: bool) -> None:
    engine = PlayedEngine()
    told(TEXT, {"prompt": FRAMED, **asked}, engine)
    assert engine.asked.request.raw == RawPrompt(FRAMED, control_tokens=parsed)


def test_control_tokens_in_a_message_are_text() -> None:
    engine = PlayedEngine()
    told(CHAT, {"messages": [{"role": "user", "content": FRAMED}]}, engine)
    assert engine.asked.request.raw is None
    assert engine.asked.request.messages[-1].text == FRAMED


@pytest.mark.release(reason="a real model of 500 MB")
@pytest.mark.parametrize("size", ["0.5b", "1.5b"])
def test_a_real_model_fills_in_what_is_missing(bench_models: Path, size: str) -> None:
    file = bench_models / f"qwen2.5-coder-{size}-instruct-q4_k_m.gguf"
    if not file.exists():
        pytest.skip(f"{file.name} is not here: packaging/bench_models.py fetches it")
    household = Household()
    try:
        household.load(file)
        body = {"prompt": FRAMED, "max_tokens": 16, "temperature": 0}
        (choice,) = at_home(household, TEXT, body)["choices"]
        assert choice["text"].splitlines()[0].strip() == "a + b"
    finally:
        household.engine.close(PATIENCE)
