"""What systems tell about themselves, absent where they do not: Linux in /proc and /sys, macOS."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path

LINUX: bool = sys.platform == "linux"
"""Whether this system has such files."""


@dataclass(frozen=True, slots=True)
class SystemFiles:
    """The files below `root`: "/", or where another machine's were recorded."""

    root: Path = Path("/")

    def text(self, path: str) -> str | None:
        """A file's content without the white space around it; None where it cannot be read.

        Some drivers refuse a file that is there, with any of the system's errors.
        """
        try:
            content = (self.root / path).read_bytes()
        except (OSError, ValueError):
            return None
        return content.decode("utf-8", "replace").strip("\0 \t\n")

    def number(self, path: str, base: int = 10) -> int | None:
        """A file's only number."""
        try:
            return int(self.text(path) or "", base)
        except ValueError:
            return None

    def exists(self, path: str) -> bool:
        """Tell whether there is such a file or folder."""
        return (self.root / path).exists()

    def link(self, path: str) -> str:
        """The last part of what a link points to; empty where there is no such link."""
        try:
            return (self.root / path).readlink().name
        except OSError:
            return ""

    def names(self, folder: str) -> tuple[str, ...]:
        """List a folder's entries in order; empty where there is no such folder."""
        try:
            return tuple(sorted(entry.name for entry in (self.root / folder).iterdir()))
        except OSError:
            return ()


def numbers_listed(text: str) -> frozenset[int]:
    """The numbers of a list as the kernel writes it, "0-3,8"; none if it is no such list."""
    found: set[int] = set()
    try:
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    except ValueError:
        return frozenset()
    return frozenset(found)


def sysctl_number(name: str) -> int | None:
    """Return a whole number that macOS tells; None where there is none, and on other systems."""
    value = _sysctl(name)
    return int.from_bytes(value, sys.byteorder) if value else None


def sysctl_text(name: str) -> str:
    """Return a text that macOS tells; empty where there is none, and on other systems."""
    return _sysctl(name).rstrip(b"\0").decode("utf-8", "replace")


def _sysctl(name: str) -> bytes:
    return _sysctl_by_name(name.encode()) if sys.platform == "darwin" else b""


def _sysctl_by_name(key: bytes) -> bytes:
    ask = ctypes.CDLL(None).sysctlbyname
    size = ctypes.c_size_t(0)
    if ask(key, None, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return b""
    value = ctypes.create_string_buffer(size.value)
    if ask(key, value, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return b""
    return value.raw[: size.value]
