"""Cores and names as macOS tells them through sysctl."""

from __future__ import annotations

import ctypes
import sys

from engine.machine.cores.core_counts import CoreCounts


def count() -> CoreCounts | None:
    """Cores of this Mac; macOS binds no process to some of them. None on other systems."""
    physical, threads = number("hw.physicalcpu"), number("hw.logicalcpu")
    if not physical or not threads:
        return None
    kinds = number("hw.nperflevels") or 1
    fast = number("hw.perflevel0.physicalcpu") if kinds > 1 else None
    return CoreCounts(physical, threads, fast)


def number(name: str) -> int | None:
    """A whole number."""
    value = _value(name)
    return int.from_bytes(value, sys.byteorder) if value else None


def text(name: str) -> str:
    """A text; empty where there is none."""
    return _value(name).rstrip(b"\0").decode("utf-8", "replace")


def _value(name: str) -> bytes:
    return _ask(name.encode()) if sys.platform == "darwin" else b""


def _ask(key: bytes) -> bytes:
    ask = ctypes.CDLL(None).sysctlbyname
    size = ctypes.c_size_t(0)
    if ask(key, None, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return b""
    value = ctypes.create_string_buffer(size.value)
    if ask(key, value, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return b""
    return value.raw[: size.value]
