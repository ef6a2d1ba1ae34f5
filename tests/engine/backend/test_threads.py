"""How many threads a model gets."""

from __future__ import annotations

import pytest
from folder_models import FOLDER_TARGET

from engine.backend.cpu import BYTES_PER_THREAD, native_is_built, threads_for
from engine.backend.native.segment import NativeSegment
from engine.commands import Load
from engine.loading.devices import DeviceManager
from engine.loading.load import load
from engine.loading.planned_load import plan_load
from engine.machine import cores
from engine.machine.speeds import SMALL_BYTES


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUOTAIL_THREADS", raising=False)
    monkeypatch.setattr(cores, "available_cores", lambda: 8)


@pytest.mark.usefixtures("eight_cores")
def test_small_models_get_few() -> None:
    sizes = [0, BYTES_PER_THREAD, BYTES_PER_THREAD + 1, 5 * BYTES_PER_THREAD, 1 << 30]
    assert [threads_for(size) for size in sizes] == [1, 1, 2, 5, 8]


@pytest.mark.usefixtures("eight_cores")
def test_speeds_of_small_targets_are_those_of_two_threads() -> None:
    assert [threads_for(SMALL_BYTES + more) for more in (0, 1)] == [2, 3]


@pytest.mark.usefixtures("eight_cores")
def test_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOTAIL_THREADS", "3")
    assert [threads_for(size) for size in (0, 1 << 30)] == [3, 3]
    monkeypatch.setenv("DUOTAIL_THREADS", "many")
    assert threads_for(1 << 30) == 8


@pytest.mark.skipif(not native_is_built(), reason="the native library is not built")
@pytest.mark.usefixtures("eight_cores")
def test_the_bundled_model_leaves_cores_to_others() -> None:
    command = Load(FOLDER_TARGET)
    manager = DeviceManager()
    pair = load(plan_load(command, manager.look()), manager.open)
    segment = pair.target.segments[0]
    assert isinstance(segment, NativeSegment)
    assert segment._pool.threads == 1
