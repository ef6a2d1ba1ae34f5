"""Freed memory really goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys


def give_memory_back() -> None:
    """Collect garbage and, where the C library keeps freed pages (glibc), hand them back."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
