"""Text of a report. In English, for whoever mends the error; never a word of a conversation."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import qVersion

_TELLS_OF_CODE = (
    ArithmeticError,
    AttributeError,
    ImportError,
    IndexError,
    MemoryError,
    NameError,
    OSError,
    RecursionError,
    TypeError,
)
"""Errors whose messages name code, files and devices. Others may quote what they were given."""
_PACKAGES = ("PySide6_Essentials", "numpy", "tokenizers", "torch")
_LOG_LINES = 60
_LOG_BYTES = 32_768


def safe_traceback(error: BaseException) -> str:
    """The traceback without messages that could hold a user's words."""
    parts = []
    for each in _chain(error):
        stack = traceback.StackSummary.extract(traceback.walk_tb(each.__traceback__))
        parts.append("Traceback (most recent call last):\n" + "".join(stack.format()) + _line(each))
    return without_home("\n\nThen:\n\n".join(parts))


def header(title: str, when: str) -> str:
    """Return the versions of Duotail, Python, Qt and the machine."""
    import psutil  # slow to import, like the version; no start needs them

    from app.version import version

    memory = psutil.virtual_memory().total / 2**30
    return "\n".join(
        [
            f"Duotail crash report: {title}",
            when,
            "",
            f"Duotail {version()}",
            f"Python {platform.python_version()}, Qt {qVersion()}, "
            + ", ".join(f"{name} {_version(name)}" for name in _PACKAGES),
            f"{platform.platform()}, {platform.machine()}",
            f"{os.cpu_count()} processors, {memory:.1f} GiB of memory",
            f"Instruction set asked for: {os.environ.get('DUOTAIL_ISA') or 'the best'}",
            f"Frozen: {'yes' if getattr(sys, 'frozen', False) else 'no'}",
        ]
    )


def last_lines(log: Path) -> str:
    """The end of the log."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return "(no log)"
    return without_home("\n".join(text.splitlines()[-_LOG_LINES:]))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The errors that led to this one, the first one first."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found:
        found.append(each)
        hidden = None if each.__suppress_context__ else each.__context__
        each = each.__cause__ or hidden
    yield from reversed(found)


def _line(error: BaseException) -> str:
    name = type(error).__qualname__
    if not isinstance(error, _TELLS_OF_CODE):
        return f"{name} (its message is left out: it may quote a conversation)"
    return f"{name}: {str(error)[:300]}"


def without_home(text: str) -> str:
    """Replace the path of the home folder, which holds the user's name."""
    return text.replace(str(Path.home()), "~")


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
