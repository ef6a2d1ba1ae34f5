"""How a defect gets into the code."""

from __future__ import annotations


def everywhere(module: str, name: str, value: object) -> None:
    """Replace a function where it was imported by name."""
    import importlib

    setattr(importlib.import_module(module), name, value)
