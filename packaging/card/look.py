"""The first step: the machine, its software, and what the later steps will find here."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import sys
from collections.abc import Callable
from typing import Any

from card.steps import Check

_PACKAGES = ("torch", "triton", "transformers", "numpy", "wgpu", "gguf", "tokenizers", "pytest")
FOR_TESTS = ("pytest", "pytest_timeout", "hypothesis")


def run(check: Check) -> None:
    """Tell `has`: names that steps need."""
    versions: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    check.emit("software", python=sys.version, system=platform.platform(), packages=versions)
    has, missing = [], {}
    for name, ask in _QUESTIONS.items():
        try:
            reason = ask(check)
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way
            reason = f"{type(error).__name__}: {error}"
        if reason:
            missing[name] = reason
        else:
            has.append(name)
    check.emit("has", has=has, missing=missing)
    _machine(check)
    words = f"here: {', '.join(has) or 'nothing'}"
    for name, reason in missing.items():
        words += f"\n  no {name}: {reason}"
    check.say(words)


def _machine(check: Check) -> None:
    """Tell what Duotail's own probe says."""
    from engine.devices.probe import probe_machine
    from engine.typed_json import encoded

    check.emit("probe", machine=encoded(probe_machine()))


def _native(_check: Check) -> str:
    from engine.backend.native.library import Isa, library

    Isa(library().dt_current_isa())
    return ""


def _torch(check: Check) -> str:
    torch = importlib.import_module("torch")
    if check.rehearse:
        return ""
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no card"
    name = torch.cuda.get_device_name(0)
    check.emit(
        "torch", name=name, cuda=torch.version.cuda, architectures=torch.cuda.get_arch_list()
    )
    return ""


def _triton(_check: Check) -> str:
    importlib.import_module("triton")
    return ""


def _wgpu(check: Check) -> str:
    from engine.backend.webgpu.adapters import adapters, is_installed

    if not is_installed():
        return "the package wgpu is not installed"
    if not adapters():
        return "wgpu finds no adapter: no Vulkan loader, or no driver that it can load"
    check.emit("wgpu", adapters=[dict(adapter.info) for adapter in adapters()])
    return ""


def _webgpu(check: Check) -> str:
    from engine.backend.webgpu.adapters import adapters, is_software

    if reason := _wgpu(check):
        return reason
    first = adapters()[0]
    if is_software(first) and not check.rehearse:
        return f"{first.info['device']} computes on the CPU: Vulkan does not find the card"
    limits: dict[str, Any] = dict(first.limits)
    check.emit("adapter", features=sorted(first.features), limits=limits)
    return ""


def _pytest(_check: Check) -> str:
    for name in FOR_TESTS:
        importlib.import_module(name)
    return ""


_QUESTIONS: dict[str, Callable[[Check], str]] = {
    "native": _native,
    "torch": _torch,
    "triton": _triton,
    "wgpu": _wgpu,
    "webgpu": _webgpu,
    "pytest": _pytest,
}
"""Each returns why something is not here, "" where it is."""
