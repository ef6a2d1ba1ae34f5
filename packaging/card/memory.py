"""The ledger beside what the driver counts, a budget that is kept, a card that is full."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from card.models import config_of, opened
from card.steps import Check

if TYPE_CHECKING:
    from engine.backend.device import Device
    from engine.model.config import ModelConfig

MIB = 1 << 20


def run(check: Check, stack: str) -> None:
    """Load and unload, run out of a budget and of the card, and compute afterwards."""
    from engine.bench.forward import random_subject
    from engine.errors import OutOfMemory

    config, said = config_of(check, "qwen2.5-1.5b"), []
    before = _driver(check)
    device = opened(check, stack)
    subject: Any = random_subject(config, "q4_0", device=device)
    state: Any = subject.decoder.new_state(4096)
    subject.decoder.forward(state, [5, 6, 7])
    during, ledger = _driver(check), device.ledger.held
    del subject, state
    gc.collect()
    kept = device.ledger.held
    device.close()
    after = _driver(check)
    driver = {"before": before, "during": during, "after": after}
    check.emit("held", stack=stack, driver=driver, ledger=ledger, ledger_after=kept)
    said.append(f"ledger {ledger / MIB:.0f} MiB, driver {_grown(before, during)}")

    tight = opened(check, stack, budget=ledger - 8 * 1024)
    said.append(_refused(check, "a small budget", lambda: _grow(config, tight)))
    gc.collect()
    tight.close()
    if not check.rehearse:
        full = opened(check, stack)
        held: list[Any] = []
        said.append(_refused(check, "a full card", lambda: _fill(full, held)))
        held.clear()
        gc.collect()
        full.close()
    again = opened(check, stack)
    try:
        decoder = random_subject(config, "q4_0", device=again).decoder
        decoder.forward(decoder.new_state(64), [5, 6, 7])
        said.append("computes afterwards")
        del decoder
    except OutOfMemory as error:
        said.append(f"afterwards: {check.fail(error, what='afterwards')}")
    gc.collect()
    again.close()
    check.say("; ".join(said))


def _grow(config: ModelConfig, device: Device) -> None:
    """Load the model, and take one context after the other."""
    from engine.bench.forward import random_subject

    decoder = random_subject(config, "q4_0", device=device).decoder
    held = [decoder.new_state(4096) for _ in range(2)]
    del held


def _fill(device: Device, held: list[Any]) -> None:
    """Take all memory of a card, a gigabyte at a time, and a little more than there is."""
    for _ in range((_total() >> 30) + 8):
        if (gpu := getattr(device, "gpu", None)) is not None:
            held.append(gpu.buffer(1 << 30))
            continue
        import torch

        from engine.backend.accelerator.driver import Driver, in_words

        with in_words(Driver(device.name), device.ledger, 1 << 30):
            held.append(torch.empty(1 << 30, dtype=torch.uint8, device=device.name))


def _total() -> int:
    """Bytes of the largest card."""
    from engine.devices.probe import probe_machine

    found = [each.memory_total or 0 for each in probe_machine().accelerators]
    return max(found, default=0)


def _refused(check: Check, what: str, work: Any) -> str:  # noqa: ANN401
    from engine.errors import UserFixable

    try:
        work()
    except UserFixable as error:
        check.emit("refused", what=what, words=str(error))
        return f"{what} is told in words"
    except Exception as error:  # noqa: BLE001 - that is the finding
        return f"{what}: {check.fail(error, what=what)}"
    check.emit("failed", what=what, why="nothing was refused")
    return f"{what}: NOT REFUSED"


def _driver(check: Check) -> list[dict[str, int | None]]:
    """Bytes of every NVIDIA card: in use by anybody, and by this process."""
    from engine.devices.accelerators.nvml import Lost, Nvml, Unavailable

    try:
        with Nvml() as library:
            return [{"used": _used(card), "ours": card.held()} for card in library.cards()]
    except (Lost, Unavailable) as error:
        check.emit("no driver", why=str(error))
        return []


def _used(card: Any) -> int | None:  # noqa: ANN401
    facts, _ = card.facts()
    if facts.memory_total is None or facts.memory_free is None:
        return None
    return int(facts.memory_total - facts.memory_free)


def _grown(before: list[dict[str, int | None]], during: list[dict[str, int | None]]) -> str:
    if not before or before[0]["used"] is None or during[0]["used"] is None:
        return "not asked"
    return f"{(during[0]['used'] - before[0]['used']) / MIB:.0f} MiB"
