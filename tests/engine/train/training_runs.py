"""Tiny targets and data, and trainings of seconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from engine.commands import WeightFormat
from engine.model.weights.readable import Floats
from engine.train.settings import Schedule, TrainingSettings
from engine.train.trainer import TrainingReport
from engine.train.training import Result, train

SHORT = Schedule(tokens=1600, rate=2e-3, muon=0, warm_up=3, decay=0)
"""A dozen steps with AdamW."""
WORDS = ("boat", "sails", "over", "calm", "sea", "while", "nobody", "looks", "at", "the", "clock")


def write_data(file: Path, count: int = 120) -> Path:
    """Conversations of one or two turns, none like another."""
    rows = []
    for number in range(count):
        said = [" ".join(WORDS[(number * step) % 9 :][: 4 + number % 7]) for step in (1, 2, 3, 4)]
        roles = ("user", "assistant", "user", "assistant")[: 2 if number % 3 else 4]
        turns = zip(roles, said, strict=False)
        rows.append({"messages": [{"role": r, "content": f"{text} {number}"} for r, text in turns]})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def settings(model: Path, data: Path, out: Path, **changes: Any) -> TrainingSettings:
    """A training of a dozen steps, in fp32."""
    basic = TrainingSettings(
        model=model,
        data=(data,),
        out=out,
        schedule=SHORT,
        own_answers=False,
        recorded=20_000,
        halves=False,
        format=WeightFormat.F32,
        device="cpu",
        threads=1,
        longest=64,
        batch=128,
        held_out=200,
    )
    return replace(basic, **changes)


def run(wanted: TrainingSettings) -> tuple[Result, list[TrainingReport]]:
    """Train to the end."""
    reports: list[TrainingReport] = []
    return train(wanted, reports.append, lambda: False), reports


def weights_of(folder: Path) -> dict[str, Floats]:
    """Tensors of a finished draft; bf16 as fp32."""
    stored = load_file(folder / "model.safetensors")
    return {name: tensor.float().numpy() for name, tensor in stored.items()}
