"""Functions that take the place of a check in its process, as bad drivers would have it."""

from __future__ import annotations

import os
import threading

CARD = {"name": "Radeon RX 6600", "vendor_id": 0x1002, "kind": "DiscreteGPU", "driver": "Vulkan 7"}
OTHER = CARD | {"name": "Arc A580", "vendor_id": 0x8086}


def two_cards() -> list[dict[str, object]]:
    os.write(1, b"\x00\x01 a driver that writes what nobody reads")
    return [CARD, OTHER]


def crashes(*_: object) -> str:
    os.abort()


def hangs(*_: object) -> str:
    threading.Event().wait()
    return ""


def spins(*_: int) -> str:
    while True:
        pass


def tells_garbage(*_: int) -> object:
    return [{"name": 7}, "garbage"]


def raises(*_: object) -> str:
    raise RuntimeError("no such limit")


def computes_well(_: int) -> str:
    return ""


def computes_badly(_: int) -> str:
    return "Q4_K: 3.1e-01"


def first_crashes(number: int) -> str:
    return crashes() if number == 0 else ""


def speeds(name: str, *_: object) -> object:
    products = {"Q4_0": {"rows": [1], "bytes_per_s": [5e9]}}
    device = {"device": name, "read_bytes_per_s": 5e9, "products": products}
    link = {"device": name, "to_bytes_per_s": 7e9, "from_bytes_per_s": 7e9, "latency_s": 0.0}
    return {"devices": {name: device}, "links": {name: link}}
