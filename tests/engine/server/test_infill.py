"""llama-server's paths for editors."""

from __future__ import annotations

from dialect_bodies import (
    streamed,
    told,
)
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
