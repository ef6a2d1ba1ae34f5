"""Attention's kernels, run by Triton's interpreter: what plain arithmetic gives, rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from interpreted import launch, summed_in_order

from engine.backend.accelerator.sizes import STRETCH
from engine.backend.step import CHUNK

interpreter = pytest.importorskip("triton.runtime.interpreter", reason="Triton is not installed")


@pytest.fixture(autouse=True)
def _sums_as_matrix_units_form_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", summed_in_order)


@dataclass
class Case:
    """Rows at given positions over a cache, with tails of random slots behind `base`."""

    heads: int
    kv: int
    dim: int
    positions: list[int]
    chunks: int
    base: int | None = None
    window: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(4)

        def numbers(*shape: int) -> torch.Tensor:
            return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))

        cached = self.chunks + 3
        self.q = numbers(len(self.positions), self.heads, self.dim)
        self.kept = tuple(numbers(cached, self.kv, CHUNK, self.dim).half() for _ in range(2))
        own = torch.tensor(self.positions).view(1, -1, 1)
        keys = torch.arange(self.chunks * CHUNK).view(-1, 1, CHUNK)
        hidden, self.tails = keys > own, None
        if self.base is not None:
            hidden = hidden | (keys >= self.base)
            keys = torch.cat((keys, self.base + torch.arange(CHUNK).view(1, 1, CHUNK)))
            hidden = torch.cat((hidden, keys[-1:] > own))
            slots = torch.from_numpy(
                rng.integers(0, cached * CHUNK, (len(self.positions), 1, CHUNK))
            )
            first = slots // CHUNK * (self.kv * CHUNK) + slots % CHUNK
            self.tails = (first + torch.arange(self.kv).view(1, -1, 1) * CHUNK).flatten(1)
        if self.window:
            hidden = hidden | (keys <= own - self.window)
        self.mask = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)

    def found(self, cap: float = 0.0, sinks: torch.Tensor | None = None) -> torch.Tensor:
        made = launch().StretchedAttention(torch.device("cpu"), self.heads, self.kv, self.dim)
        out = torch.full((len(self.q), self.heads * self.dim), torch.nan)
        made.attend(self.q, self.kept, self.mask, self.tails, (0.1, cap, sinks), out)
        return out

    def expected(self, cap: float = 0.0, sinks: torch.Tensor | None = None) -> torch.Tensor:
        """Row by row in fp64."""
        rows, group = [], self.heads // self.kv
        flat = [kept.double() for kept in self.kept]
        for row, q in enumerate(self.q.double()):
            keys, values = (
                [each[c, :, s] for c in range(self.chunks) for s in range(CHUNK)] for each in flat
            )
            if self.tails is not None:
                own = self.tails[row].view(self.kv, CHUNK)
                for kind, each in ((keys, flat[0]), (values, flat[1])):
                    picked = each.reshape(-1, self.dim)[own]
                    kind += list(picked.transpose(0, 1))
            k, v = torch.stack(keys), torch.stack(values)  # [slots, kv, dim]
            heads = []
            for head in range(self.heads):
                scores = 0.1 * (k[:, head // group] @ q[head])
                scores = cap * torch.tanh(scores / cap) if cap else scores
                scores = scores + self.mask[:, row].reshape(-1)
                if sinks is not None:
                    scores = torch.cat((scores, sinks.reshape(-1)[head : head + 1].double()))
                shares = scores.softmax(0)[: len(v)]
                heads.append(shares @ v[:, head // group])
            rows.append(torch.cat(heads))
        return torch.stack(rows)


CASES: dict[str, Any] = {
    "a chain": Case(4, 2, 32, list(range(300, 316)), STRETCH + 2),
    "one row, heads by sevens": Case(7, 1, 24, [200, *[0] * 15], 4),
    "a tree": Case(4, 2, 16, [130 + row % 5 for row in range(16)], 2, base=128),
    "a window": Case(2, 2, 16, list(range(500, 516)), 2 * STRETCH + 1, window=70),
    "two tiles": Case(2, 1, 16, list(range(40, 72)), 3),
}


@pytest.mark.release(keep=3, reason="every shape, interpreted")
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_plain_arithmetic_gives(name: str) -> None:
    case = CASES[name]
    got, expected = case.found(), case.expected()
    assert not got.isnan().any()
    assert (got - expected).norm() < 2e-3 * expected.norm()


def test_caps_and_sinks() -> None:
    case, sinks = CASES["a tree"], torch.tensor([3.0, -1.0, 0.0, 2.0]).view(2, 1, 2)
    got, expected = case.found(1.5, sinks), case.expected(1.5, sinks)
    assert (got - expected).norm() < 2e-3 * expected.norm()


def test_a_row_hangs_on_nothing_else() -> None:
    """Bit for bit: other rows beside it, more chunks behind it, another place."""
    case = Case(2, 1, 16, list(range(100, 116)), 2)
    expected = case.found()
    longer = Case(2, 1, 16, list(range(100, 116)), 3 * STRETCH)
    longer.q = case.q.flip(0)
    longer.mask = longer.mask.flip(1)
    for mine, theirs in zip(longer.kept, case.kept, strict=True):
        mine[:5] = theirs
    assert torch.equal(longer.found().flip(0), expected)


def test_a_key_that_is_no_number() -> None:
    """It stands for a value beyond fp16's range: rows that cannot see it are as without it."""
    case = Case(2, 1, 16, list(range(56, 72)), 2)
    expected = case.found()
    case.kept[0][1, :, 1] = torch.nan  # of position 65
    case.kept[1][1, :, 1] = 0
    got = case.found()
    assert torch.equal(got[:9], expected[:9])
    assert got[9:].isnan().all()
