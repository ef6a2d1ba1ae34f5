"""Machines to plan for."""

from __future__ import annotations

from engine.machine.facts import Host, Machine


def machine_with(memory: int) -> Machine:
    """Two cores, so many bytes of free memory, no accelerator."""
    return Machine(Host(cores=2, memory_total=memory, memory_available=memory))
