"""How fast the card and the CPU are at best, to hold everything else against."""

from __future__ import annotations

from dataclasses import asdict

from card.steps import STACKS, Check

GIGA = 1e9


def run(check: Check) -> None:
    """Measure each device by each stack."""
    from engine.bench.ceilings import COPIED, SIDE, ceilings

    nbytes, side = (1 << 24, 256) if check.rehearse else (COPIED, SIDE)
    said = []
    for where in ("cpu", *(stack for stack in STACKS if stack in check.has)):
        name = "cpu" if where == "cpu" else check.device(where)
        if where == "torch" and check.rehearse:
            from engine.bench.ceilings import of_torch

            found = of_torch("cpu", nbytes, side)
        else:
            try:
                found = ceilings(name, nbytes, side)
            except Exception as error:  # noqa: BLE001 - the other stack may do it
                said.append(f"{where}: {check.fail(error, where=where)}")
                continue
        check.emit("ceilings", where=where, device=name, **asdict(found))
        said.append(f"{where} {found.bytes_per_s / GIGA:,.0f} GB/s")
        if found.flop_per_s:
            best = max(found.flop_per_s.values())
            said.append(f"{best / 1e12:,.1f} TFLOP/s")
    check.say(", ".join(said))
