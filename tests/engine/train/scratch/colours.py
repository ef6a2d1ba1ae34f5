"""Data and a recipe that a training is through with in a second."""

from __future__ import annotations

import json
from pathlib import Path

RECIPE = """\
name = "mini"
title = "Mini"
tokens = 6_000
batch = 512
answers = 400
samples = ["Which colour is number 3?"]
[shape]
vocab = 320
hidden = 32
blocks = 2
heads = 2
kv_heads = 2
intermediate = 64
context = 64
[[phases]]
name = "language"
share = 0.5
sources = [{ name = "colours.jsonl" }]
[[phases]]
name = "conversation"
share = 0.5
answers_only = true
sources = [{ name = "colours.jsonl", times = 2 }]
[[drafts]]
name = "draft"
title = "Mini draft"
kind = "model"
blocks = 1
hidden = 32
heads = 2
intermediate = 32
tokens = 1_000
batch = 256
[[drafts]]
name = "head"
title = "Mini head"
kind = "dgf"
tokens = 1_000
batch = 256
"""
COLOURS = ("red", "green", "blue", "white", "black")


def colours(folder: Path) -> Path:
    """A folder with a file of conversations, and with `mini.toml`."""
    folder.mkdir(exist_ok=True)
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Which colour is number {number}?"},
                {"role": "assistant", "content": f"It is {COLOURS[number % 5]}."},
            ]
        }
        for number in range(600)
    ]
    (folder / "colours.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (folder / "mini.toml").write_text(RECIPE, "utf-8")
    return folder
