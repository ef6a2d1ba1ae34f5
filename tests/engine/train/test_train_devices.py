"""Devices to train on, by their names; the GPUs are pretended."""

from __future__ import annotations

import pytest
import torch

from engine.errors import UserFixable
from engine.train.targets import TrainingDevice


@pytest.fixture(autouse=True)
def _two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.mark.parametrize(
    ("name", "index"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1), ("auto", 0)]
)
def test_a_gpu_has_a_number(name: str, index: int) -> None:
    assert TrainingDevice.choose(name, None).device == torch.device("cuda", index)


@pytest.mark.parametrize("name", ["cuda:2", "meta", "tensor"])
def test_what_cannot_train_is_refused(name: str) -> None:
    with pytest.raises(UserFixable):
        TrainingDevice.choose(name, None)
