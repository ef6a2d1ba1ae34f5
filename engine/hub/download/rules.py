"""How patient and how careful a download is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """What downloads keep to.

    Attributes:
        pauses_s: before each new try after a broken connection; as soon as anything has come, they
            begin anew.
        timeout_s: without a byte from the server.
        reserve: bytes that stay free on the disk for everybody else.
        look_every: bytes after which the free space is looked at again.
        tell_every_s: between two messages of how far it is.
        come_back_s: after which to try again where nothing came in all the pauses; each time twice
            as long as before, up to `longest_s`.
        deaths: of the process in a row, without a byte, after which the job has failed.
        behind: steps behind whoever chats: reading gigabytes for a hash can wait.
    """

    pauses_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    timeout_s: float = 30.0
    reserve: int = 1 << 30
    look_every: int = 32 << 20
    tell_every_s: float = 0.2
    come_back_s: float = 30.0
    longest_s: float = 600.0
    deaths: int = 3
    behind: int = 5
