"""What NVIDIA's library answers on some machines; the words are explained in fake_nvml.c."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
TWO_CARDS = f"""
    driver 570.86.15
    cuda 12080
    count 2
    0.name NVIDIA GeForce RTX 3060
    0.uuid {FIRST}
    0.bus 00000000:01:00.0
    0.memory {12 * GIB} {10 * GIB}
    0.capability 8.6
    0.gen 1
    0.width 8
    0.max_gen 4
    0.max_width 16
    0.busy 37
    0.degrees 61
    0.milliwatts 115500
    0.processes 4242 1000 self {GIB}
    1.name NVIDIA GeForce GTX 1050
    1.uuid {SECOND}
    1.bus 00000000:41:00.0
    1.memory {4 * GIB} {3 * GIB}
    1.capability 6.1
    1.gen 3
    1.width 4
    1.max_gen 3
    1.max_width 16
    1.busy 0
    1.degrees 35
    1.milliwatts 9000
    1.processes 4242 1000
"""
LAPTOP = f"""
    driver 535.54.03
    cuda 12020
    count 1
    0.name NVIDIA GeForce GTX 1650 with Max-Q Design
    0.uuid {FIRST}
    0.bus 00000000:01:00.0
    0.memory {4 * GIB} {4 * GIB - 1000}
    0.capability 7.5
    0.gen 1
    0.width 16
    0.max_gen 3
    0.max_width 16
    0.busy 3
    0.degrees 40
    0.processes !4
"""
DIVIDED = f"""
    driver 570.86.15
    cuda 12080
    count 1
    0.name NVIDIA A100-SXM4-40GB
    0.uuid {FIRST}
    0.bus 00000000:07:00.0
    0.capability 8.0
    0.parts 4 5
    4.name NVIDIA A100-SXM4-40GB MIG 3g.20gb
    4.uuid MIG-aaaaaaaa-0000-0000-0000-000000000001
    4.memory {20 * GIB} {20 * GIB}
    5.name NVIDIA A100-SXM4-40GB MIG 2g.10gb
    5.uuid MIG-bbbbbbbb-0000-0000-0000-000000000002
    5.memory {10 * GIB} {10 * GIB}
"""


@dataclass(frozen=True)
class FakeNvml:
    """The library in NVIDIA's place."""

    recording: Path

    def records(self, text: str) -> None:
        """From its next start on, this is what it answers; the words are in fake_nvml.c."""
        lines = (line.strip() for line in text.splitlines())
        self.recording.write_text("\n".join(filter(None, lines)) + "\n")
