"""What can go wrong with the hub, told apart; `engine.hub.remote.words` says it in plain words."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """Each one has its own message."""

    OFFLINE = "offline"
    """No network, no such server, or a proxy that is not there."""
    TIMEOUT = "timeout"
    DROPPED = "dropped"
    """The connection broke in the middle."""
    SIGN_IN = "sign_in"
    """401: a token is needed, or is not valid."""
    GATED = "gated"
    """403 of a model whose terms have to be accepted."""
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    BUSY = "busy"
    """429: asked too often."""
    SERVER = "server"
    """5xx."""
    WRONG_BYTES = "wrong_bytes"
    """A file is not what its hash says."""
    CHANGED = "changed"
    """The repository is another one now than when it was listed."""
    DISK_FULL = "disk_full"
    DISK = "disk"
    """A folder cannot be written."""
    UNSAFE = "unsafe"
    """Names that lead out of the folder, or files that could run code."""
    UNREADABLE = "unreadable"
    """The answer is none that the hub gives."""
    CRASHED = "crashed"
    """A mistake of ours: nobody foresaw it, or the process that asks has ended."""
