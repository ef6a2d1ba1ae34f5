"""Values of the wrong type or size, and places in JSON to put them."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 31,
    1 << 70,
    -(1 << 63),
    0.5,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "1",
    "word",
    "\0",
    "\ud800",
    "x" * 5000,
    [],
    [1, 2],
    ["a", None],
    [[1]],
    [{}],
    {},
    {"a": 1},
    {"content": 1},
    {"1": {"content": "x"}},
)


def mutated(value: Any, random: Random, times: int = 1) -> Any:
    """A copy with members replaced, removed, doubled or moved."""
    result = copy.deepcopy(value)
    for _ in range(times):
        _mutate(result, random)
    return result


def _mutate(tree: Any, random: Random) -> None:
    holder, key = tree, None
    node = tree
    while isinstance(node, dict | list) and node and (key is None or random.random() < 0.8):
        keys = list(node) if isinstance(node, dict) else range(len(node))
        holder, key = node, random.choice(keys)
        node = holder[key]
    if key is None:
        return
    match random.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[random.choice(["type", "content", "id", "vocab", "x"])] = node
        case 2:
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            holder[key] = copy.deepcopy(holder[random.choice(keys)])
        case _:
            holder[key] = copy.deepcopy(random.choice(WRONG))
