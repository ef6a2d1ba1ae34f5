"""The steps of the check, the most valuable ones first, and what a step is given."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS, LOG, REPORT = "results.jsonl", "log.txt", "report.json"
STACKS = ("webgpu", "torch")
SHAPES = ("qwen2.5-7b", "llama2-7b", "qwen2.5-1.5b", "qwen2.5-0.5b")
FORMATS = ("q4_k_m", "q4_0", "q8_0")


@dataclass(frozen=True)
class Step:
    """A part of the check, run by a process of its own.

    Attributes:
        name: of it.
        about: what it finds out.
        seconds: it may take.
        module, arguments: the function `run` of that module of this package, and what it is told.
        needs: what has to be here, among the names that the first step tells.
    """

    name: str
    about: str
    seconds: float
    module: str
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def steps() -> tuple[Step, ...]:
    """Return all steps in their order; the first one tells what is here."""
    return tuple(_steps())


def _steps() -> Iterator[Step]:
    yield Step("look", "what is here", 45, "look")
    yield Step("ceilings", "memory and arithmetic of the card and the CPU", 30, "ceilings")
    yield Step("adapters", "WebGPU's own check of the card", 45, "adapters", needs=("wgpu",))
    yield from _speeds("qwen2.5-7b")
    for suite, needs in (("torch", "torch"), ("webgpu", "webgpu")):
        about = f"tests of {suite} on the card"
        yield Step(f"tests {suite}", about, 60, "suite", (suite,), ("pytest", needs))
    yield Step("calibrate", "measured speeds, and what the planner makes of them", 40, "calibrate")
    for stack in STACKS:
        about = "Llama-2-7B with 3 and 7 GiB: the draft on the card (Dovetail)"
        yield Step(f"dovetail {stack}", about, 60, "setups", ("dovetail", stack), (stack, "native"))
        about = "Llama-2-7B on the card, a draft of 160M on the CPU (DuoDecoding)"
        yield Step(f"duo {stack}", about, 45, "setups", ("duo", stack), (stack, "native"))
        about = "every mode writes plain decoding's text"
        yield Step(f"exact {stack}", about, 45, "exact", (stack,), (stack, "native"))
    yield from _speeds("llama2-7b")
    for stack in STACKS:
        about = "the ledger beside the driver, a full card, and after it"
        yield Step(f"memory {stack}", about, 45, "memory", (stack,), (stack,))
    shape = "qwen3.5-4b"  # its states are WebGPU's alone
    about = f"rounds, prefill and long contexts of {shape}"
    yield Step(f"speed webgpu {shape}", about, 60, "speed", ("webgpu", shape), ("webgpu",))
    yield from _speeds("qwen2.5-1.5b")
    yield from _speeds("qwen2.5-0.5b")
    for stack in STACKS:
        about = "Qwen2.5-7B with a draft of half a billion on the card"
        yield Step(f"pair {stack}", about, 60, "setups", ("pair", stack), (stack, "native"))


def _speeds(shape: str) -> Iterator[Step]:
    for stack in STACKS:
        about = f"rounds, prefill and long contexts of {shape}"
        yield Step(f"speed {stack} {shape}", about, 60, "speed", (stack, shape), (stack,))


@dataclass
class Check:
    """What a step works with.

    Attributes:
        step: its name.
        out: folder of results and log.
        rehearse: small sizes on stand-ins, where no card is.
        ends: when it has to be over, on the clock of `time.monotonic`.
    """

    step: str
    out: Path
    rehearse: bool
    ends: float

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.ends - time.monotonic()

    def emit(self, kind: str, **found: Any) -> None:  # noqa: ANN401 - what JSON carries
        """Write a result down, so that it stays whatever happens next."""
        line = json.dumps({"step": self.step, "kind": kind, **found}, default=str)
        with (self.out / RESULTS).open("a", encoding="utf-8") as results:
            results.write(line + "\n")

    def fail(self, error: Exception, **about: Any) -> str:  # noqa: ANN401 - what JSON carries
        """Write down what went wrong, and return it in words."""
        words = str(error) or type(error).__name__
        if not hasattr(error, "remedy"):  # a bug: its kind says more than its words
            words = f"{type(error).__name__}: {words}"
        self.emit("failed", why=words, **about)
        return words

    @property
    def has(self) -> list[str]:
        """What the first step has found."""
        told = [line["has"] for line in results(self.out) if line["kind"] == "has"]
        return list(told[0]) if told else []

    def say(self, words: str) -> None:
        """Say what was found, in words, for the step's line."""
        self.emit("words", words=words)

    def device(self, stack: str) -> str:
        """Return the name of a stack's device in plans."""
        if stack == "webgpu":
            return "webgpu:0"
        return "cpu" if self.rehearse else "cuda:0"


def run_step(name: str, out: Path, seconds: float, *, rehearse: bool) -> int:
    """Run one step in this process; 0 where it ended as it should."""
    step = next(step for step in steps() if step.name == name)
    sys.path.insert(0, str(ROOT))
    check = Check(name, out, rehearse, time.monotonic() + seconds)
    run: Callable[..., int | None] = import_module(f"card.{step.module}").run
    try:
        return run(check, *step.arguments) or 0
    except Exception as error:  # noqa: BLE001 - whatever a driver makes of it
        traceback.print_exc()  # for the log
        check.fail(error)
        return 1


def results(out: Path) -> list[dict[str, Any]]:
    """Return what was written down so far; half a line at the end is left out."""
    found = []
    try:
        text = (out / RESULTS).read_text("utf-8")
    except OSError:
        return []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def environment(site: Path | None, libraries: list[Path], scratch: Path) -> Mapping[str, str]:
    """Return the variables that steps run with.

    Args:
        site: folder of packages that were brought along.
        libraries: folders of shared libraries, as of a Vulkan loader.
        scratch: where caches go.
    """
    paths = [str(ROOT), *([str(site)] if site else [])]
    if before := os.environ.get("PYTHONPATH"):
        paths.append(before)
    found = [str(folder) for folder in libraries]
    if before := os.environ.get("LD_LIBRARY_PATH"):
        found.append(before)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "LD_LIBRARY_PATH": os.pathsep.join(found),
        "DUOTAIL_CACHE_DIR": str(scratch / "cache"),
        "DUOTAIL_DATA_DIR": str(scratch / "data"),
        "DUOTAIL_CONFIG_DIR": str(scratch / "config"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "HF_HUB_OFFLINE": "1",
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "en",
    }
