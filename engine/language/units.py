"""Times and sizes as people read them, in the language in use.

Files and models are told in GB, MB and kB, powers of ten, as file managers and shops do; memory is
told in GiB and MiB, powers of two, as it is made.
"""

from __future__ import annotations

from engine.language import later, number, tr, tr_count

_NBSP = "\N{NO-BREAK SPACE}"
"""Between a number and its unit, which are never on two lines."""
_FILES = ((1e9, later("{n} GB")), (1e6, later("{n} MB")), (1e3, later("{n} kB")))


def milliseconds(value: float, spec: str = ".0f") -> str:
    """Return a time in milliseconds, with its unit."""
    return _of(later("{n} ms"), value, spec)


def seconds(value: float, spec: str = ".1f") -> str:
    """Return a time in seconds, with its unit."""
    return _of(later("{n} s"), value, spec)


def minutes(value: float, spec: str = ".1f") -> str:
    """Return a time in minutes, with its unit."""
    return _of(later("{n} min"), value, spec)


def duration(span: float) -> str:
    """A time in seconds, told in the unit that suits it."""
    if span < 0.01:
        return milliseconds(1000 * span, ".1f")
    if span < 0.9995:
        return milliseconds(1000 * span)
    return seconds(span) if span < 59.95 else minutes(span / 60)


def tokens_per_s(speed: float, *, about: bool = False) -> str:
    """Return a speed without its unit, in the figures that mean something.

    Args:
        speed: tokens per second.
        about: whether it is only predicted.
    """
    return number(speed, ".1f" if speed < (9.95 if about else 99.95) else ",.0f")


def acceptance_length(length: float) -> str:
    """Return the tokens that a verification brings."""
    return number(length, ".2f")


def gibibytes(value: float, spec: str = ".1f") -> str:
    """Return a size in GiB, with its unit."""
    return _of(later("{n} GiB"), value, spec)


def memory(size: int) -> str:
    """Bytes of memory."""
    if size < 2**30 / 10:
        return _of(later("{n} MiB"), size / 2**20, ".0f")
    return gibibytes(size / 2**30)


def file_size(size: int) -> str:
    """Bytes on a disk."""
    for unit, text in _FILES:
        if size >= unit:
            return _of(text, size / unit, ".1f" if size < 99.95 * unit else ",.0f")
    return tr_count("{n} byte", "{n} bytes", size)


def _of(text: str, value: float, spec: str) -> str:
    return tr(text).format(n=number(value, spec)).replace(" ", _NBSP)
